# SPDX-License-Identifier: Apache-2.0
"""Aircraft from a recorded or streamed 1090 MHz signal: table, JSON lines, map."""
