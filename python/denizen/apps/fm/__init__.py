# SPDX-License-Identifier: Apache-2.0
"""Broadcast FM from a recorded or streamed signal: a WAV file."""
