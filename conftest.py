# SPDX-License-Identifier: Apache-2.0
"""For all tests: Ctrl-C works in what they start.

A shell has its background jobs ignore SIGINT, and what they start inherits that.
Where tests run so, no test of an interrupt could find one.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
