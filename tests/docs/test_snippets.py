# SPDX-License-Identifier: Apache-2.0
"""Every snippet of the docs is run, or compiled, as it is printed.

A Python block is a program by itself; those of the tutorial follow each other. What a fragment
takes for granted is said here, in SETUP; what a machine must have for it, in NEEDS.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import denizen
from denizen import _core

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ONE_AFTER_THE_OTHER = {"tutorial.md", "python-handlers.md"}

# The program of the page's first snippet.
PLAYERS = (
    (ROOT / "docs/scale.md").read_text().split("```python\n")[1].split("with denizen.Cluster")[0]
)
COUNTING = """
import denizen
Tick = denizen.message("Tick", [("n", "u4")])
Ask = denizen.message("Ask")
Total = denizen.message("Total", [("sum", "u8")])
program = denizen.Program('''
    struct Counter {
        uint64_t sum = 0;
        void on(const Tick& m, auto&) { sum += m.n; }
        void on(const Ask&, auto& ctx) { ctx.reply(Total{sum}); }
    };
    ''', actors=["Counter"], messages=[Tick, Ask, Total])
"""
SETUP = {
    ("README.md", 1): COUNTING + "counting = program\n",
    ("ab.md", 0): "from denizen import ab\n",
    ("context.md", 0): 'import time, denizen\nimport numpy as np\ndevice = "auto"\n',
    ("context.md", 1): 'import denizen\nimport numpy as np\ndevice = "auto"\n',
    ("context.md", 2): 'import denizen\nimport numpy as np\ndevice = "auto"\n',
    ("context.md", 3): """
import denizen
@denizen.message
class Join:
    room: denizen.ADDRESS
@denizen.actor
class Sensor:
    room: denizen.ADDRESS
    def on_join(self, m: Join):
        self.room = m.room
rt = denizen.Runtime(Sensor)
sensor, room = rt.spawn(Sensor, 2)
""",
    ("gpu-sharing.md", 0): COUNTING,
    ("gpu-sharing.md", 1): COUNTING,
    ("group.md", 0): """
import sys
import numpy as np
from denizen import group
rank, join = int(sys.argv[1]), group.join
# Threads of the CPU stand for the GPUs, and a folder of the test for the user's.
group.join = lambda _, *ranks, device: join("job.sock", *ranks)
tensor, other = np.full(100, rank + 1, np.float32), np.empty(100, np.float32)
""",
    ("group.md", 1): """
from denizen import group
rank, secret = 3, "a secret of all ranks"
def join(address, rank, ranks, device, token):
    assert (address, rank, ranks, device) == ("tcp://node0:29500", 3, 16, "gpu:3")
group.join = join
""",
    ("group.md", 4): """
import numpy as np
from denizen import group
(g,) = group.local(1, "cpu")
part, residual = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
weight, eps = np.full(4, 3, np.float32), 0.0
""",
    ("group.md", 5): """
import sys
import torch
from denizen import group
rank, join = int(sys.argv[1]), group.join
group.join = lambda _, *ranks, device: join("job.sock", *ranks)
x, w1, w2 = torch.ones(2, 4), torch.ones(4, 3, requires_grad=True), torch.ones(3, 4)
""",
    ("inference.md", 2): """
import onnx
from onnx import helper
kind = onnx.TensorProto.FLOAT
w = helper.make_tensor("w", kind, [2, 3], range(6))
x, y = (helper.make_tensor_value_info(n, kind, ["t", w]) for n, w in (("x", 3), ("y", 2)))
head = helper.make_node("Gemm", ["x", "w"], ["y"], "head", transB=1)
onnx.save(helper.make_model(helper.make_graph([head], "g", [x], [y], [w])), "model.onnx")
""",
    ("lens.md", 0): f"""
import shutil
shutil.copy({str(ROOT / "tests/lens/captures/h100-580.159.04-small.lens.gz")!r}, "run.lens.gz")
from denizen.lens import log
read = log.read
log.read = lambda path: read(path + ".gz")
""",
    ("observe.md", 0): COUNTING,
    ("observe.md", 1): COUNTING,
    ("observe.md", 2): COUNTING,
    ("procmine.md", 1): """
import numpy as np
case, activity, time = np.uint32([3, 3]), np.uint32([0, 1]), np.int64([5, 9])
""",
    ("scale.md", 1): COUNTING + "cluster = denizen.Cluster(program)\n",
    ("scale.md", 2): COUNTING,
    ("scale.md", 3): COUNTING + "cluster, changed = denizen.Cluster(program), program\n",
    ("scale.md", 5): PLAYERS,
    ("snapshots.md", 0): COUNTING
    + """
rt = denizen.Runtime(program)
(actor,) = rt.spawn("Counter")
""",
    ("tasks.md", 1): '''
from denizen import tasks
TEXT = """
using denizen::task::Counter;
using denizen::task::Promise;
struct Sum {
    uint64_t sum;
    Counter parent;
    void run(auto& ctx) const { ctx.arrive(parent, sum); }
};
struct Fib {
    uint32_t n;
    Counter parent;
    void run(auto& ctx) const {
        if (n < 2) { ctx.arrive(parent, n); return; }
        const Counter both = ctx.when(2, Sum{0, parent});
        ctx.spawn(Fib{n - 1, both});
        ctx.spawn(Fib{n - 2, both});
    }
};
struct End {
    uint64_t sum;
    Promise<uint64_t> result;
    void run(auto& ctx) const { ctx.set(result, sum); }
};
struct Begin {
    uint32_t n;
    Promise<uint64_t> result;
    void run(auto& ctx) const { ctx.spawn(Fib{n, ctx.when(1, End{0, result})}); }
};
"""
''',
}
PRINTED = {
    ("README.md", 0): r"10\n",
    ("arena.md", 0): r"5\n",
    ("dsp.md", 0): r"\(16, 4000\) 1\n3203\.125\n",
    ("flow.md", 0): r"\[ ?0\. +2\. .* 18\.\]\n",
    ("flow.md", 1): r"\[ 0\. +3\.25 14\.25 33\.25\]\n",
    ("flow.md", 2): r"\[ 6\. +8\. 10\.\]\n\[Tag\(sample=1, key='here', value=90\)\]\n",
    ("flow.md", 3): r"1000 Hz\n",
    ("graphs.md", 0): r"699 698\n\d+\n",
    ("index.md", 0): r"42\n",
    ("io.md", 0): r"0\n1\n2\n\n",
    ("io.md", 1): r"100000 99999\.0\n",
    ("inference.md", 0): r"\(4,\) \(3, 4\)\n",
    ("inference.md", 1): r"Answer.*\[2\., .*version=1\) Answer.*\[3\., .*version=2\) Stats.*\n",
    ("inference.md", 2): r"\['head'\] \(3, 2\) 8\n",
    ("inference.md", 3): r"\[-?\d\.\d+, -?\d\.\d+\]\n",
    ("iq.md", 0): r"48000 signed 16-bit 5000\n",
    ("lens.md", 0): r"(cu\w+ \d+ Decoded.*\n)+",
    ("observe.md", 0): r"Counter 0 0 .*\nhttp://127\.0\.0\.1:\d+.*\n",
    ("procmine.md", 0): r"[\s\S]*variants; the first: step A[\s\S]*rework[\s\S]*",
    ("procmine.md", 1): r"\[\] \[\] \[\] \[0 0 0[\s\S]*",
    (
        "python-handlers.md",
        0,
    ): r"5\n\(3\.0, 1\.5\)\n3\.1\n4\n328350\n42\ntick 3 of Talker\(heard=1\)\n",
    ("radio.md", 0): r"4840D6 17 KLM1023 None\n4840D6 17 None None\n4840D6 17 None 52\.257\d+\n",
    ("radio.md", 1): r"\d+\n",
    ("radio.md", 2): r"\(48000, 2\) True 0\.1\n",
    ("tasks.md", 0): r"6765\nEnded\(cancelled='', dropped=0\)\n",
    ("tasks.md", 1): r"6765 \d+\n",
    ("topics.md", 0): r"2\n",
    ("transactions.md", 0): r"[\s\S]*'accepted': [\s\S]*",
    ("tutorial.md", 0): (
        r"\(2, 21\.5\)\n2\d odd readings, the worst 80 degrees\n"
        r"Down with code 100; the letter: Part .*\n"
        r"\[1 4\]\n\(100, 20\.\d*\)\n(10\n)?"
    ),
    ("wave.md", 0): r"\d\.\d+ \(64, 64, 64\)\n",
}
TORCH = {("README.md", 1), ("gpu-sharing.md", 0), ("tutorial.md", 4)}
HANDLERS = {
    ("README.md", 0),
    ("arena.md", 0),
    ("buffers.md", 0),
    ("context.md", 0),
    ("context.md", 1),
    ("context.md", 2),
    ("context.md", 3),
    ("flow.md", 1),
    ("flow.md", 2),
    ("index.md", 0),
    ("io.md", 0),
    ("io.md", 1),
    ("python-handlers.md", 0),
    ("scale.md", 0),
    ("scale.md", 5),
    ("topics.md", 0),
    ("tutorial.md", 0),
}
MODULES = {("group.md", 5): "torch", ("inference.md", 0): "torch", ("inference.md", 2): "onnx"}
RANKS = {("group.md", 0): 2, ("group.md", 5): 2}
RAY = {("scale.md", 4)}  # needs nodes of Ray's: run by tests/cluster/ray_trials.py


def blocks(page, *languages):
    """(number among those of these languages, text)"""
    text = page.read_text("utf-8")
    return list(
        enumerate(re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.M | re.S))
    )


def python():
    for page in PAGES:
        if page.name in ONE_AFTER_THE_OTHER:
            yield page.name, 0
        else:
            yield from ((page.name, number) for number, _ in blocks(page, "python"))


def code(name, number):
    (page,) = (page for page in PAGES if page.name == name)
    every = blocks(page, "python")
    if name not in ONE_AFTER_THE_OTHER:
        return every[number][1]
    return "\n".join(text for k, text in every if (name, k) not in TORCH or has_torch())


def has_torch():
    return importlib.util.find_spec("torch") is not None and _core.gpu_count() > 0


@pytest.mark.parametrize(("name", "number"), list(python()), ids=str)
def test_a_python_snippet_runs(name, number, tmp_path):
    key = (name, number)
    if key in TORCH and not has_torch():
        pytest.skip("needs PyTorch and a GPU")
    if key in RAY:
        pytest.skip("needs Ray: see tests/cluster/ray_trials.py")
    if key in HANDLERS:
        pytest.importorskip("numba")
    if key in MODULES:
        pytest.importorskip(MODULES[key])
    text = SETUP.get(key, "") + code(name, number)
    (tmp_path / "snippet.py").write_text(text, "utf-8")  # handlers in Python are read from a file
    children = [
        subprocess.Popen(
            [sys.executable, "snippet.py", str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        for rank in range(RANKS.get(key, 1))
    ]
    for child in children:
        out, error = child.communicate(timeout=120)
        assert child.returncode == 0, error
        if key in PRINTED:
            assert re.fullmatch(PRINTED[key], out), out


def test_what_is_said_of_snippets_is_of_one():
    known = set(python()) | {("tutorial.md", 4)}
    said = SETUP.keys() | PRINTED.keys() | TORCH | MODULES.keys() | RANKS.keys() | RAY
    assert not said - known


# (page, number): what stands before the fragment, and whether it is the inside of a function.
FLOW = """
#include <denizen/flow/blocks.hpp>
#include <denizen/flow/graph.hpp>
#include <complex>
#include <vector>
namespace flow = denizen::flow;
"""
ASKERS = """
#include <denizen/actor/runtime.hpp>
#include <denizen/task/runtime.hpp>
using namespace denizen;
"""
BEFORE = {
    ("arena.md", 1): (
        "#include <denizen/memory/arena.hpp>\n#include "
        "<denizen/memory/arena/resource.hpp>\n#include <vector>\n",
        "denizen::Arena arena(denizen::Device::cpu(), 1 << 20);",
    ),
    ("arena.md", 2): (
        "#include <denizen/actor/runtime.hpp>\n"
        "struct Link { Link* next; int value; };\nstruct Push { int value; };\n",
        "",
    ),
    ("flow.md", 0): (FLOW, None),
    ("flow.md", 1): (
        FLOW,
        """flow::Flowgraph graph; std::vector<float> some{1, 2};
        auto& source = graph.add<flow::VectorSource<float>>("source", some);
        auto& gain = graph.add<flow::VectorSink<float>>("gain");
        auto& average = graph.add<flow::VectorSink<float>>("average");
        auto& sink = graph.add<flow::VectorSink<float>>("sink");""",
    ),
    ("flow.md", 2): (
        FLOW + "#include <denizen/dsp/signal.hpp>\nusing Complex = std::complex<float>;\n",
        """flow::Flowgraph graph; std::vector<Complex> some{1, 2}; std::vector<float> taps{1};
        auto& source = graph.add<flow::VectorSource<Complex>>("source", some);
        auto& sink = graph.add<flow::VectorSink<float>>("sink");""",
    ),
    ("snapshots.md", 0): (
        "#include <denizen/actor/runtime.hpp>\nstruct Tick { int n; };\n"
        "struct Counter { DENIZEN_HD void on(const Tick&, auto&) {} };\n"
        "using Program = denizen::Program<denizen::Actors<Counter>, denizen::Messages<Tick>>;\n",
        """const denizen::Device device = denizen::Device::cpu(); denizen::Options options;
        denizen::Runtime<Program> rt(device, options); auto actor = rt.spawn<Counter>();
        auto other = rt.spawn<Counter>(); uint32_t worker = 0, node = 0;""",
    ),
    ("tasks.md", 0): (
        "#include <denizen/task/runtime.hpp>\nnamespace task = denizen::task;\n",
        None,
    ),
    ("tasks.md", 1): (
        ASKERS
        + """struct Total { uint64_t sum; }; struct TryLater {};
        struct Root { uint32_t n; Address asker; int actors; }; struct Fib {}; struct Sum {};""",
        None,
    ),
    ("topics.md", 0): (
        "#include <denizen/actor/runtime.hpp>\nstruct Join {}; struct Quote { float price; };\n"
        "struct Tick { float price; };\n",
        "denizen::Runtime<Market> rt(denizen::Device::cpu()); auto trader = rt.spawn<Trader>();",
    ),
    ("wire.md", 0): ("struct Order { int n; };\n", ""),
}
# Those that begin with types and go on with statements, and what stands between.
TYPES_FIRST = {
    (
        "arena.md",
        2,
    ): "using Lists = denizen::Program<denizen::Actors<List>, denizen::Messages<Push>>;\n",
    ("topics.md", 0): "using Market = denizen::Program<denizen::Actors<Trader, Exchange>, "
    "denizen::Messages<Join, Quote, Tick>>;\n",
}


def cpp():
    for page in PAGES:
        for number, text in blocks(page, "cpp"):
            yield page.name, number, text


CASES = [pytest.param(*one, id=f"{one[0]}-{one[1]}") for one in cpp()]


@pytest.mark.parametrize(("name", "number", "text"), CASES)
def test_a_cpp_snippet_compiles(name, number, text, tmp_path):
    before, body = BEFORE.get((name, number), ("", None))
    includes = "".join(re.findall(r"^(?:#include .*|using namespace .*)\n", text, re.M))
    rest = re.sub(r"^(?:#include .*|using namespace .*)\n", "", text, flags=re.M)
    if (name, number) in TYPES_FIRST:
        types, end, rest = rest.rpartition("};\n")
        before += types + end + TYPES_FIRST[name, number]
    inside = f"void snippet() {{\n{body}\n{rest}\n}}\n" if body is not None else rest
    source = f"{includes}{before}\n{inside}"
    tree = f"-I{denizen.get_include()}"
    if "__global__" in text:
        compiler = nvcc()
        path = tmp_path / "snippet.cu"
        words = [*compiler, "-std=c++20", "-arch=sm_90", "-ptx", "-Xcicc", "-O0", tree]
        words += ["--expt-relaxed-constexpr", "-o", str(tmp_path / "snippet.ptx")]
        source = (
            f"#include <denizen/group/persistent.hpp>\n{source}" if name == "group.md" else source
        )
    else:
        path = tmp_path / "snippet.cpp"
        words = [shutil.which("g++") or "c++", "-std=c++20", "-fsyntax-only", "-Wno-unused", tree]
    path.write_text(source, "utf-8")
    done = subprocess.run([*words, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, textwrap.shorten(done.stderr, 3000)


@pytest.mark.parametrize(
    ("name", "printed"), [("cpp.md", "42\n"), ("inference.md", "40 42 5, version 1\n")]
)
def test_a_cpp_page_builds_and_runs_as_it_says(name, printed, tmp_path):
    """With its own command line."""
    page = (ROOT / "docs" / name).read_text("utf-8")
    (code,) = re.findall(r"^```cpp\n(.*?)^```", page, re.M | re.S)
    ((line, source, program),) = re.findall(r"^    (g\+\+ .* (\w+\.cpp) .* -o (\w+))$", page, re.M)
    (tmp_path / source).write_text(code, "utf-8")
    root = denizen.get_include().parent
    if not (root / "lib/libdenizen_core.a").exists():
        pytest.skip("denizen is not installed with its libraries")
    subprocess.run(f"root={root}; {line}", shell=True, check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, printed)


def nvcc():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/nvcc.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("nvcc is not there")
    return [done.stdout.split()[-1]]


def test_what_is_said_of_cpp_snippets_is_of_one():
    assert not BEFORE.keys() - {(name, number) for name, number, _ in cpp()}
