# SPDX-License-Identifier: Apache-2.0
"""Programs are compiled once, kept on disk by content, and their errors show the user's line."""

import os
import shlex
import shutil
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sample

import denizen
from denizen import _core, cache, compilers

# As the other tests' compiler in make test: a program's first lines are parsed once.
UNOPTIMISED = Path(__file__).parents[1] / "support/unoptimised/g++"
GET = denizen.message("Get")
VALUE = denizen.message("Value", [("n", "u4")])


def constant(text="5", **options):
    """A program whose actor answers with a C++ expression."""
    handler = f"void on(const Get&, auto& ctx) {{ ctx.reply(Value{{{text}}}); }}"
    source = f"struct Constant {{ {handler} }};"
    return denizen.Program(source, actors=["Constant"], messages=[GET, VALUE], **options)


def answer(program, device="cpu:1"):
    with denizen.Runtime(program, device) as rt:
        (actor,) = rt.spawn("Constant")
        return int(rt.ask(actor, "Get", timeout=20)["n"])


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A compiler that counts how often it compiles."""
    log = tmp_path / "calls"
    log.touch()
    compiler = tmp_path / "counting-g++"
    # Unoptimised: these tests are about when it compiles, not what becomes of it.
    count = f'[ "$1" = --version ] || echo call >> "{log}"'
    compiler.write_text(f'#!/bin/sh\n{count}\nexec "{UNOPTIMISED}" "$@"\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    return lambda: len(log.read_text().splitlines())


# ---- the disk cache


def test_the_second_time_no_compiler_runs(empty_cache, calls):
    assert answer(constant()) == 5
    assert calls() == 1
    assert answer(constant()) == 5
    assert calls() == 1
    assert [p.suffix for p in empty_cache.iterdir()] == [".so"]


def test_another_process_finds_it_too(empty_cache, calls, run_python):
    text = """
import denizen
get, value = denizen.message("Get"), denizen.message("Value", [("n", "u4")])
source = "struct Constant { void on(const Get&, auto& ctx) { ctx.reply(Value{6}); } };"
program = denizen.Program(source, actors=["Constant"], messages=[get, value])
with denizen.Runtime(program, "cpu:1") as rt:
    print("answer", rt.ask(rt.spawn("Constant")[0], "Get", timeout=20)["n"])
"""
    assert "answer 6" in run_python(text)
    assert "answer 6" in run_python(text)
    assert calls() == 1


def test_what_changes_the_program_compiles_it_anew(empty_cache, calls):
    assert answer(constant("5")) == 5
    assert answer(constant("6")) == 6
    assert calls() == 2
    assert answer(constant("FIVE", flags=["-DFIVE=5"])) == 5
    assert answer(constant("FIVE", flags=["-DFIVE=7"])) == 7
    assert calls() == 4
    extra = denizen.message("Extra", [("x", "f8")])
    source = constant().source
    more = denizen.Program(source, actors=["Constant"], messages=[GET, VALUE, extra])
    assert answer(more) == 5
    assert calls() == 5
    assert answer(constant("5")) == 5
    assert calls() == 5


def test_another_compiler_compiles_it_anew(empty_cache, calls, monkeypatch):
    assert answer(constant()) == 5
    monkeypatch.setenv("CXX", shlex.quote(str(UNOPTIMISED)))
    assert answer(constant()) == 5
    assert calls() == 1
    assert len(list(empty_cache.iterdir())) == 2


def test_changed_headers_of_denizen_compile_it_anew(empty_cache, calls, monkeypatch):
    assert answer(constant()) == 5
    monkeypatch.setattr(compilers, "_headers_digest", lambda: "another state of the headers")
    assert answer(constant()) == 5
    assert calls() == 2


def test_a_changed_header_of_the_user_compiles_it_anew(empty_cache, calls, tmp_path):
    folder = tmp_path / "headers"
    folder.mkdir()
    (folder / "outer.hpp").write_text('#include "inner.hpp"\n')
    (folder / "inner.hpp").write_text("#define CHOSEN 1\n")
    for flags in (["-I", str(folder)], [f"-I{folder}"]):
        source = "#include <outer.hpp>\n" + constant("CHOSEN").source
        arguments = {"actors": ["Constant"], "messages": [GET, VALUE], "flags": flags}
        for number in (2, 3):
            (folder / "inner.hpp").write_text(f"#define CHOSEN {number}\n")
            assert answer(denizen.Program(source, **arguments)) == number
            assert answer(denizen.Program(source, **arguments)) == number
    assert calls() == 4


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "flipped"])
def test_a_damaged_file_is_compiled_again(empty_cache, calls, damage):
    assert answer(constant()) == 5
    (kept,) = empty_cache.iterdir()
    data = bytearray(kept.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    kept.unlink()
    kept.write_bytes({"empty": b"", "cut": data[:4000], "garbage": b"x" * 9000}.get(damage, data))
    assert answer(constant()) == 5
    assert calls() == 2
    assert answer(constant()) == 5
    assert calls() == 2


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("DENIZEN_CACHE", str(blocked))
    with pytest.raises(denizen.CompileError, match=r"cannot be kept in .*; set DENIZEN_CACHE to"):
        answer(constant())


def test_where_the_cache_lies(monkeypatch, tmp_path):
    assert str(cache.cache_folder()) == os.environ["DENIZEN_CACHE"]
    monkeypatch.delenv("DENIZEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "denizen"


@pytest.fixture
def any_mask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_the_cache_is_this_users_alone_under_any_umask(tmp_path, monkeypatch, any_mask):
    folder = tmp_path / "a" / "b"
    monkeypatch.setenv("DENIZEN_CACHE", str(folder))
    assert answer(constant()) == 5
    for made in folder, folder.parent:
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (kept,) = folder.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_cache_that_others_can_write_is_refused(empty_cache):
    assert answer(constant()) == 5
    for mode in 0o777, 0o1777, 0o775, 0o702:
        empty_cache.chmod(mode)
        with pytest.raises(denizen.CompileError, match=rf"others can write .* \(mode {mode:04o}"):
            answer(constant())
    empty_cache.chmod(0o755)
    assert answer(constant()) == 5


def test_a_cache_that_is_a_link_is_refused(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir(0o700)
    (tmp_path / "link").symlink_to("there")
    monkeypatch.setenv("DENIZEN_CACHE", str(tmp_path / "link"))
    with pytest.raises(denizen.CompileError, match="link: it is a symbolic link; set"):
        answer(constant())


def test_a_cache_of_another_user_is_refused(empty_cache):
    assert answer(constant()) == 5
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(empty_cache, 12345, 12345)
    with pytest.raises(denizen.CompileError, match=r"belongs to another user \(uid 12345\)"):
        answer(constant())


def test_a_kept_file_that_is_a_link_or_a_fifo_is_compiled_again(empty_cache, calls):
    assert answer(constant()) == 5
    (kept,) = empty_cache.iterdir()
    kept.rename(empty_cache.parent / "elsewhere")
    kept.symlink_to(empty_cache.parent / "elsewhere")
    assert answer(constant()) == 5
    assert calls() == 2
    assert not kept.is_symlink()
    kept.unlink()
    os.mkfifo(kept)
    assert answer(constant()) == 5
    assert calls() == 3


def test_what_is_loaded_is_what_was_read(empty_cache, monkeypatch):
    """Between the check and the loading, somebody puts another library in its place."""
    assert answer(constant("7")) == 7
    (seven,) = empty_cache.iterdir()
    assert answer(constant("5")) == 5
    (five,) = set(empty_cache.iterdir()) - {seven}
    load = _core.load_library

    def replaced(library, *arguments):
        five.write_bytes(seven.read_bytes())
        return load(library, *arguments)

    monkeypatch.setattr(_core, "load_library", replaced)
    assert answer(constant("5")) == 5


# ---- compilers


def test_no_compiler_is_a_clear_error(empty_cache, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(empty_cache))
    compilers._find_compiler.cache_clear()
    with pytest.raises(
        denizen.CompileError, match=r"looked for g\+\+, clang\+\+, c\+\+\); install g"
    ):
        answer(constant())
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(denizen.CompileError, match="looked for no-such-compiler -m64"):
        answer(constant())


def test_a_compiler_that_does_not_even_tell_its_version(empty_cache, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(denizen.CompileError, match="false --version fails"):
        answer(constant())


WRONG = """struct Constant {
    uint32_t n = 0;
    void on(const Get&, auto& ctx) {
        ctx.reply(Value{no_such_name});
    }
};
"""


def test_errors_of_the_host_compiler_show_the_users_line(empty_cache):
    program = denizen.Program(WRONG, actors=["Constant"], messages=[GET, VALUE], name="mine")
    with pytest.raises(denizen.CompileError, match=r"mine does not compile") as caught:
        program.compile_cpu()
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("mine:4: ")
    assert "no_such_name" in lines[1]
    assert lines[2:4] == ["    ctx.reply(Value{no_such_name});", " " * 20 + "^"]
    assert lines[5] == "In full:"
    assert "mine:4:25: error:" in str(caught.value)
    assert list(empty_cache.iterdir()) == []


# A mistake that a compiler finds in a header of denizen's, by way of the user's line.
INDIRECT = WRONG.replace("Value{no_such_name}", "3")


def test_errors_in_headers_of_denizen_lead_to_the_users_line(empty_cache, nvrtc):
    program = denizen.Program(INDIRECT, actors=["Constant"], messages=[GET, VALUE], name="mine")
    for compile_it in (program.compile_cpu, lambda: program.compile_gpu(90)):
        with pytest.raises(denizen.CompileError) as caught:
            compile_it()
        lines = str(caught.value).splitlines()
        assert lines[1].startswith("mine:4: static assertion failed")
        assert "not a message type of this program" in lines[1]
        assert lines[2] == "    ctx.reply(3);"


def test_errors_of_nvrtc_show_the_users_line(empty_cache, nvrtc):
    program = denizen.Program(WRONG, actors=["Constant"], messages=[GET, VALUE], name="mine")
    with pytest.raises(denizen.CompileError, match=r'cannot compile "mine"') as caught:
        program.compile_gpu(90)
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("mine:4: ")
    assert "no_such_name" in lines[1]
    assert lines[2:4] == ["    ctx.reply(Value{no_such_name});", " " * 20 + "^"]
    assert "mine(4)" in str(caught.value)
    assert list(empty_cache.iterdir()) == []


def test_a_member_that_is_not_there_is_told_with_those_that_are(empty_cache, nvrtc):
    text = WRONG.replace("Value{no_such_name}", "Value{1}").replace("Get&", "Value& m")
    text = text.replace("ctx.reply", "n += m.sum; ctx.reply")
    program = denizen.Program(text, actors=["Constant"], messages=[GET, VALUE], name="mine")
    for compile_it in (program.compile_cpu, lambda: program.compile_gpu(90)):
        with pytest.raises(denizen.CompileError) as caught:
            compile_it()
        line = str(caught.value).splitlines()[1]
        assert line.startswith("mine:4: "), line
        assert line.endswith("; Value has uint32_t n"), line


def test_names_with_quotes_and_backslashes(empty_cache):
    program = denizen.Program(
        WRONG, actors=["Constant"], messages=[GET, VALUE], name='a "quoted" \\ name\nof two lines'
    )
    with pytest.raises(denizen.CompileError) as caught:
        program.compile_cpu()
    assert 'a "quoted" \\ name of two lines:4:' in str(caught.value)


def test_an_actor_that_the_text_does_not_define(empty_cache):
    with pytest.raises(denizen.ArgumentError, match="no text that defines Ghost"):
        denizen.Program("", actors=["Ghost"], messages=[GET], name="empty")
    program = denizen.Program("struct A {};", actors=["Ghost"], messages=[GET], name="empty")
    with pytest.raises(denizen.CompileError, match=r"does not compile:\nempty: .*Ghost"):
        program.compile_cpu()


def test_a_program_from_a_file(empty_cache, tmp_path):
    file = tmp_path / "constant.hpp"
    (tmp_path / "beside.hpp").write_text("#define NUMBER 8\n")
    file.write_text('#include "beside.hpp"\n' + constant("NUMBER").source)
    arguments = {"actors": ["Constant"], "messages": [GET, VALUE]}
    assert answer(denizen.Program.from_file(file, **arguments)) == 8
    (tmp_path / "beside.hpp").write_text("#define NUMBER 9\n")
    assert answer(denizen.Program.from_file(str(file), **arguments)) == 9
    file.write_text(WRONG)
    with pytest.raises(denizen.CompileError, match=r"constant\.hpp:4:"):
        denizen.Program.from_file(file, **arguments).compile_cpu()
    with pytest.raises(FileNotFoundError):
        denizen.Program.from_file(tmp_path / "none.hpp", **arguments)


# ---- NVRTC, which needs no GPU


@pytest.mark.usefixtures("unoptimised")
def test_nvrtc_makes_a_cubin_with_the_same_table(empty_cache, nvrtc):
    program = sample.program()
    on_gpu, on_cpu = program.compile_gpu(90), program.compile_cpu()
    assert sorted(p.suffix for p in empty_cache.iterdir()) == [".cubin", ".so"]
    assert on_gpu.state_sizes == on_cpu.state_sizes
    names = list(program.messages)
    for actor in range(len(program.actors)):
        for message in range(len(names)):
            assert on_gpu.handles(actor, message) == on_cpu.handles(actor, message)
    assert on_cpu.handles(0, names.index("Add"))
    assert not on_cpu.handles(0, names.index("Hop"))


@pytest.fixture(scope="module")
def cubin(nvrtc):
    """Of ``constant()``, for an H100."""
    program = constant()
    return compilers.compile_text(program.text(), program.name, 90, program.flags)


def code_bytes(elf):
    """Bytes of the sections of an ELF file that can be executed."""
    first, many = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    sections = [struct.unpack_from("<IIQQQQ", elf, first + 64 * i) for i in range(many)]
    return sum(size for _, _, flags, _, _, size in sections if flags & 4)


def test_a_small_program_is_small(cubin):
    """Compiling takes as long as there is code, every first start of a new program. What is rare
    must not be expanded at each of its calls, nor once for each type of message: with 435 KB it
    took twice as long, most of it ptxas on a main loop that held everything. Nor may what is copied
    by words be copied by bytes: nvcc does it where it is told no alignment."""
    assert 100_000 < code_bytes(cubin) < 300_000


@pytest.mark.usefixtures("unoptimised")
def test_a_cubin_is_kept_and_checked(empty_cache, cubin, monkeypatch):
    program = constant()
    compiled = []

    def counting(*arguments, **_):
        compiled.append(arguments)
        return cubin

    monkeypatch.setattr(compilers, "compile_apart", counting)
    program.compile_gpu(90)
    (kept,) = empty_cache.iterdir()
    compiled.clear()
    program.compile_gpu(90)
    assert compiled == []
    kept.write_bytes(kept.read_bytes()[:-100])
    program.compile_gpu(90)
    assert len(compiled) == 1
    program.compile_gpu(80)
    assert len(compiled) == 2
    assert len(list(empty_cache.iterdir())) == 2


def test_a_compiler_that_dies_is_an_error_and_nothing_is_kept(empty_cache, nvrtc, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(denizen.CompileError, match="compiles for the GPU died"):
        constant().compile_gpu(90)
    assert list(empty_cache.iterdir()) == []


def test_the_compiler_of_a_process_that_is_killed_ends_too(empty_cache, nvrtc, tmp_path):
    """It would go on for its half minute otherwise."""
    script = "from denizen.apps.transactions.stage import program; program().compile_gpu(90)"
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}
    )
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        deadline = time.monotonic() + 60
        while not (child := children.read_text().split()):
            assert parent.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        parent.kill()
        parent.wait()
        while Path(f"/proc/{child[0]}").exists():
            # A zombie of a machine without an init counts as ended.
            if "State:\tZ" in Path(f"/proc/{child[0]}/status").read_text():
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        parent.kill()


def test_an_architecture_that_nvrtc_does_not_know(empty_cache, nvrtc):
    with pytest.raises(denizen.CompileError, match="gpu-architecture"):
        constant().compile_gpu(12)


def test_no_nvrtc_is_a_clear_error(run_python, monkeypatch, tmp_path):
    monkeypatch.setenv("DENIZEN_NVRTC", str(tmp_path))
    text = """
import denizen, sample
try:
    sample.program().compile_gpu(90)
except denizen.CompileError as error:
    print(error)
"""
    out = run_python(text)
    assert "no NVRTC (12.9 or newer)" in out
    assert "pip install" in out


# ---- what a program may be made of


def test_programs_that_make_no_sense():
    cases = [
        ({"actors": [], "messages": [GET]}, "program has no actors"),
        ({"actors": "Constant", "messages": [GET]}, 'actors = "Constant"; give a list'),
        ({"actors": ["Constant"], "messages": "Get"}, 'messages = "Get"; give a list'),
        ({"actors": ["Constant"], "messages": ["Get"]}, "'Get' is no message type"),
        ({"actors": ["A", "A"], "messages": [GET]}, "program defines A twice"),
        ({"actors": ["Get"], "messages": [GET]}, "program defines Get twice"),
        ({"actors": ["1"], "messages": [GET]}, 'actor "1" is not an identifier'),
        ({"actors": ["A"], "messages": [], "flags": "-O3"}, 'flags = "-O3"; give a list'),
    ]
    for arguments, text in cases:
        with pytest.raises(denizen.ArgumentError, match=text):
            denizen.Program("", **arguments)


def test_the_headers_are_where_get_include_says():
    assert (denizen.get_include() / "denizen" / "actor" / "runtime.hpp").is_file()
