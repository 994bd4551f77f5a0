# SPDX-License-Identifier: Apache-2.0
"""The lab: runs benchmarks, keeps their records, and makes tables from the records alone.

Called by the command line and by ``python -m denizen.lab`` (which needs NumPy and nothing else).
It never measures inside the code under test, and never writes a figure that no record holds.
"""
