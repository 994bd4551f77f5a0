# SPDX-License-Identifier: Apache-2.0
"""Requests to hosts: side by side, given up, refused, from a child of fork()."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

import denizen
from denizen import ClosedError, Cluster, DeadlineError, DenizenError

GO = denizen.message("Go")
HANG = denizen.message("Hang")
TOLD = denizen.message("Told", [("times", np.uint32)])
PROGRAM = denizen.Program(
    """
    struct Worker {
        uint32_t times = 0;
        void on(const Go&, auto& ctx) { ctx.reply(Told{++times}); }
        void on(const Hang&, auto&) {
            volatile bool on = true;
            while (on) {}
        }
    };
    """,
    actors=["Worker"],
    messages=[GO, HANG, TOLD],
    name="hanging",
)
LONG = 100.0  # seconds: longer than the whole test may take


def hold(local, path):
    """Returns when another request has written the file."""
    with open(path):
        return "held"


def release(local, path):
    with open(path, "w"):
        return "released"


def no_json(local):
    return {1, 2}


def much(local):
    return "x" * (65 << 20)


@pytest.fixture
def cluster():
    with Cluster(PROGRAM, hosts=2, max_actors=1024) as made:
        yield made


def test_a_request_does_not_wait_for_another_threads(cluster, tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    answers = []
    first = threading.Thread(
        target=lambda: answers.append(cluster.call(1, f"{__name__}:hold", timeout=LONG, path=fifo))
    )
    first.start()
    assert cluster.call(1, f"{__name__}:release", timeout=LONG, path=fifo) == "released"
    first.join()
    assert answers == ["held"]


def test_what_ctrl_c_has_given_up_holds_up_nothing(cluster):
    (worker,) = cluster.spawn("Worker", host=1)
    cluster.send(worker, "Hang")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        cluster.drain(timeout=LONG)
    with pytest.raises(DeadlineError, match="actor Worker #0 of worker 0 has been handling Hang"):
        cluster.drain(timeout=0.5)
    assert set(cluster.stats()) == {0, 1}


def test_an_answer_that_cannot_be_sent_is_an_error_of_its_caller(cluster):
    with pytest.raises(DenizenError, match=r"host 1: the answer to call cannot be sent: .*set"):
        cluster.call(1, f"{__name__}:no_json")
    with pytest.raises(DenizenError, match=r"host 1: .*JSON between hosts; the most is 67,108,864"):
        cluster.call(1, f"{__name__}:much", timeout=LONG)
    assert set(cluster.stats()) == {0, 1}


def test_a_child_of_fork_has_no_cluster(cluster):
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            try:
                cluster.spawn("Worker", host=1)
            except ClosedError as error:
                status = 0 if "belongs to another process" in str(error) else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(cluster.spawn("Worker", 4, host=1)) == 4


def test_a_host_whose_handler_does_not_return_is_ended_without_a_word():
    text = """
import test_cluster_control as sample
from denizen import Cluster
with Cluster(sample.PROGRAM, hosts=2, max_actors=1024) as cluster:
    (worker,) = cluster.spawn("Worker", host=1)
    cluster.send(worker, "Hang")
    try:
        cluster.drain(timeout=0.5)
    except sample.DeadlineError:
        print("hangs")
"""
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hangs\n", "")
