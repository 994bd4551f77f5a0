# SPDX-License-Identifier: Apache-2.0
"""``denizen tour``: every part once, on real or made input, each checked against a reference.

:mod:`~denizen.tour.steps` has a module for each stop; ``command`` runs them one after the other and
``page`` makes one HTML page of what they found. Called by the command line alone.
"""
