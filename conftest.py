# SPDX-License-Identifier: Apache-2.0
"""For all tests: Ctrl-C works in what they start, and every process gives them the same names.

A shell has its background jobs ignore SIGINT, and what they start inherits that.
Where tests run so, no test of an interrupt could find one.
"""

import re
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Processes that share a run (pytest -n) compare names: none may have an object's address."""
    for item in items:
        if re.search(r" at 0x[0-9a-f]{6,}", item.nodeid):
            raise pytest.UsageError(
                f"{item.nodeid}: an address is another in each process; use ids="
            )
