# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python read and write files through the host. (What engines, sockets and buffers do
is tests/io/*.cu.)"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from agent import Agent, Begin, Chunk, Finished, Line

import denizen
from denizen import io

EVERYTHING = io.READ | io.WRITE | io.APPEND | io.CREATE | io.EXCLUSIVE | io.TRUNCATE
WAIT = 60.0


@pytest.fixture(scope="module", params=["cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)])
def rt(request):
    try:
        with denizen.Runtime(Agent, request.param) as runtime:
            runtime.spawn(Agent, name="agent")
            yield runtime
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["io_uring", "portable"])
def service(request, rt, tmp_path):
    try:
        made = io.Service(
            rt, tmp_path, modes=EVERYTHING, engine=request.param, listen=["127.0.0.1:0"]
        )
    except denizen.ArgumentError as error:
        assert request.param == "io_uring"
        assert str(error).startswith("the kernel does not allow io_uring here")
        pytest.skip(str(error))
    with made:
        yield made


def told(rt, request):
    rt.send(rt.find("agent"), request)
    return rt.receive(timeout=WAIT).message


def opened(rt, path, mode):
    return told(rt, io.Open(tag=5, mode=mode, path=io.path(path)))


def text(content, length):
    return content[:length].tobytes()


def test_a_handler_writes_lines_whole_and_in_order(rt, service, tmp_path):
    number = service.open("lines", io.WRITE | io.CREATE)
    finished = told(rt, Begin(number, 500))
    assert finished == Finished(500, 0)
    assert (tmp_path / "lines").read_text() == "".join(f"{i:03}\n" for i in range(500))
    stats = service.stats()
    service.drain(timeout=WAIT)
    assert (stats["requests"], stats["answered"], stats["failed"]) == (500, 500, 0)
    assert stats["bytes_written"] == 2000
    assert stats["operations"] < 500  # writes that follow each other are one


def test_a_file_comes_back_as_it_is(rt, service, tmp_path):
    content = np.random.default_rng(1).bytes(2500)
    (tmp_path / "data").write_bytes(content)
    done = opened(rt, "data", io.READ)
    assert (done["error"], done["bytes"], done["tag"]) == (io.Error.NONE, 2500, 5)
    assert done["op"] == io.Op.OPEN
    parts = []
    while not parts or parts[-1]:
        chunk = told(rt, io.Read(file=done["file"], tag=6, length=1000, offset=io.NEXT))
        assert chunk.dtype == Chunk.dtype
        assert chunk["error"] == io.Error.NONE
        parts.append(text(chunk["bytes"], chunk["length"]))
    assert b"".join(parts) == content
    assert [len(part) for part in parts] == [1000, 1000, 500, 0]


def test_errors_are_named(rt, service, tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path, mode, expected in [
        ("none", io.READ, "NOT_FOUND"),
        ("/etc/passwd", io.READ, "ESCAPES"),
        ("link", io.READ, "ESCAPES"),
        ("../x", io.WRITE | io.CREATE, "ESCAPES"),
        (".", io.READ, "NOT_A_FILE"),
        ("old", io.WRITE | io.CREATE | io.EXCLUSIVE, "EXISTS"),
        ("old", 0, "DENIED"),
    ]:
        assert io.Error(opened(rt, path, mode)["error"]).name == expected, path
    done = opened(rt, "old", io.READ)
    refused = told(rt, Line(file=done["file"], length=1))
    assert io.Error(refused["error"]).name == "BAD_FILE"
    assert told(rt, io.Close(file=done["file"], tag=9)) == io.Done(
        file=done["file"], tag=9, op=io.Op.CLOSE
    )
    with pytest.raises(denizen.ArgumentError, match=r'"none" below ".*" in mode 1: not found'):
        service.open("none")


def test_a_user_without_the_right_is_refused(tmp_path):
    """The system's own permissions, for a user who is not root."""
    tmp_path.chmod(0o755)
    (tmp_path / "theirs").write_text("x")
    (tmp_path / "theirs").chmod(0o600)
    script = """
        import os, sys
        sys.path.insert(0, os.path.dirname(sys.argv[2]))
        from agent import *
        with denizen.Runtime(Agent, "cpu:1") as rt, io.Service(rt, sys.argv[1]) as service:
            if os.geteuid() == 0:
                os.seteuid(65534)
            else:
                os.chmod(sys.argv[1] + "/theirs", 0)
            (agent,) = rt.spawn(Agent)
            rt.send(agent, io.Open(mode=io.READ, path=io.path("theirs")))
            done = rt.receive(timeout=60).message
            print(io.Error(done["error"]).name, os.strerror(done["number"]))
            os.seteuid(os.getuid())
    """
    assert ran(script, tmp_path) == "DENIED Permission denied\n"


def ran(script, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments), __file__]
    out = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "MissingPackageError" in out.stderr:
        pytest.skip(out.stderr.splitlines()[-1])
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_close_answers_what_waits(rt, service):
    agent = rt.find("agent")
    rt.send(agent, io.Accept(tag=3, place=0))
    rt.drain(timeout=WAIT)
    service.drain(timeout=WAIT)  # an accept waits on a socket: a drain does not wait for it
    service.close(timeout=WAIT)
    done = rt.receive(timeout=WAIT).message
    assert (done["tag"], io.Error(done["error"])) == (3, io.Error.CANCELLED)
    with pytest.raises(denizen.ClosedError, match="the I/O service is closed"):
        service.open("x")


def test_ctrl_c_ends_a_wait_while_operations_are_outstanding(tmp_path):
    script = """
        import os, sys
        sys.path.insert(0, os.path.dirname(sys.argv[2]))
        from agent import *
        with denizen.Runtime(Agent, "cpu:1") as rt:
            with io.Service(rt, listen=["127.0.0.1:0"]) as service:
                (agent,) = rt.spawn(Agent)
                rt.send(agent, io.Accept(tag=3, place=0))
                rt.drain()
                service.drain()
                try:
                    print("waits", flush=True)
                    rt.receive(timeout=60)
                except KeyboardInterrupt:
                    print("interrupted")
            print(io.Error(rt.receive(timeout=60).message["error"]).name)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path), __file__]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    if not line and "MissingPackageError" in child.stderr.read():
        pytest.skip("handlers in Python need Numba here")
    assert line == "waits\n"
    time.sleep(0.2)
    begin = time.monotonic()
    os.kill(child.pid, signal.SIGINT)
    out, error = child.communicate(timeout=60)
    assert (out, child.returncode) == ("interrupted\nCANCELLED\n", 0), error
    assert time.monotonic() - begin < 30  # and not the 60 s of the wait


def test_a_forked_child_leaves_the_service_alone(tmp_path):
    script = """
        import os, sys
        sys.path.insert(0, os.path.dirname(sys.argv[2]))
        from agent import *
        with denizen.Runtime(Agent, "cpu:1") as rt:
            with io.Service(rt, sys.argv[1]) as service:
                child = os.fork()
                if child == 0:
                    try:
                        service.open("x")
                    except denizen.ClosedError as error:
                        print(str(error).partition(" (")[0], flush=True)
                    service.close()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                service.drain()
                print("the parent's goes on")
    """
    expected = "the I/O service belongs to another process\nthe parent's goes on\n"
    assert ran(script, tmp_path) == expected


def test_what_a_service_does_not_take(rt, tmp_path):
    for options, text in [
        ({"engine": "fast"}, 'engine = "fast"; use automatic, io_uring, portable'),
        ({"files": 0}, "files = 0; use 1 to 4096"),
        ({"requests": -1}, "requests = -1; use a whole number"),
        ({"modes": 64}, "modes = 64; "),
        ({"connect": "127.0.0.1:9"}, 'connect = "127.0.0.1:9"; give a list'),
        ({"listen": ["127.0.0.1"]}, '"127.0.0.1" is no address; '),
    ]:
        with pytest.raises(denizen.ArgumentError) as caught:
            io.Service(rt, tmp_path, **options)
        assert str(caught.value).startswith(text)
    with pytest.raises(denizen.ArgumentError, match=r'root = ".*none": No such file or directory'):
        io.Service(rt, tmp_path / "none")
    with (
        denizen.Runtime(Agent, "python") as interpreted,
        pytest.raises(denizen.ArgumentError, match='device="python" has no I/O service'),
    ):
        io.Service(interpreted, tmp_path)
    with (
        io.Service(rt, tmp_path),
        pytest.raises(denizen.ArgumentError, match="has a service of the host already"),
    ):
        io.Service(rt, tmp_path)


@pytest.mark.parametrize("given", [None, "cpu", Agent], ids=["None", "text", "actor"])
def test_a_service_is_of_a_runtime(given, tmp_path):
    with pytest.raises(denizen.ArgumentError, match="is of a running Runtime, not of "):
        io.Service(given, tmp_path)


def test_types_are_checked():
    for make, expected in [
        (lambda: io.write("W", 0), "message W of 0 bytes; use 1 to 65512, or a buffer for more"),
        (lambda: io.data("D", 65521), "message D of 65521 bytes; use 1 to 65520"),
        (lambda: io.path("x" * 113), "path 'xxx"),
        (lambda: io.path(""), "path ''; use 1 to 112 bytes without a zero"),
    ]:
        with pytest.raises(denizen.ArgumentError) as caught:
            make()
        assert str(caught.value).startswith(expected)


def test_python_and_cpp_name_the_same():
    """Errors, operations and message layouts are those of include/denizen/io/messages.hpp."""
    header = (Path(denizen.get_include()) / "denizen/io/messages.hpp").read_text()
    body = header.partition("enum class Error")[2].partition("};")[0]
    names = [line.split(",")[0].split("=")[0].strip() for line in body.splitlines()[1:]]
    assert [e.name.lower() for e in io.Error] == [name for name in names if name]
    body = header.partition("enum class Op")[2].partition("};")[0]
    names = [line.split(",")[0].split("=")[0].strip() for line in body.splitlines()[1:]]
    assert [o.name.lower() for o in io.Op] == [name for name in names if name]
    sizes = {io.Open: 120, io.Read: 24, io.ReadInto: 40, io.WriteFrom: 40, io.Done: 32}
    assert {m: m.dtype.itemsize for m in sizes} == sizes
