# SPDX-License-Identifier: Apache-2.0
"""``denizen top``: a served program, live in a terminal. command.py asks, screen.py shows."""
