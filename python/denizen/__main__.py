# SPDX-License-Identifier: Apache-2.0
"""``python -m denizen`` is the command ``denizen``."""

import sys

from denizen.cli import main

sys.exit(main())
