# SPDX-License-Identifier: Apache-2.0
import pytest

from denizen import Cluster

# Seconds that a healthy host is given on a machine that does much else, where a test names none.
PATIENCE = 30.0
CALLS = [
    *("ask", "find", "pause", "receive", "restart", "resume", "send", "stop"),
    *("subscribe", "unsubscribe", "unwatch", "watch"),
]


@pytest.fixture(scope="module", params=["cpu:1", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def device(request):
    """Of every host; a GPU has them all."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def patience():
    """A test that is about a deadline says which."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Cluster.__init__.__kwdefaults__, "deadline", PATIENCE)
        for name in CALLS:
            patch.setitem(getattr(Cluster, name).__kwdefaults__, "timeout", PATIENCE)
        yield
