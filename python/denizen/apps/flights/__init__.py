# SPDX-License-Identifier: Apache-2.0
"""Real flights through resident actors: one actor per aircraft, one per airport.

The flights of a CSV file are replayed in time order. Each goes to its aircraft's actor, which
messages the airports' actors; at the end every actor is asked, and every figure is compared with a
reference that NumPy computes from the same rows.
"""
