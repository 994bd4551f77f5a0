# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run fm`` does: turn a station's I/Q into a WAV file, or make a signal."""

from __future__ import annotations

import itertools
import time
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen import terminal
from denizen.apps import iq
from denizen.apps.fm import sigmf
from denizen.apps.iq import DataError
from denizen.errors import ArgumentError
from denizen.radio import broadcast

_RATE = "the station in its middle, at least 200,000 samples a second (--rate)"
_MADE_SNR = 40.0  # dB


def _sixteen_bits(audio: NDArray[np.float32]) -> bytes:
    """Full scale is 32767; what is beyond is clipped."""
    out: bytes = np.clip(np.rint(audio * 32767), -32768, 32767).astype("<i2").tobytes()
    return out


def run(source: str, out: Path, *, rate: int | None, form: str | None, de_emphasis: float) -> int:
    """Write the audio of the I/Q in ``source`` ("-": stdin) to ``out``; the exit status.

    ``rate`` and ``form`` (a key of iq.FORMATS) are needed but for SigMF, which says them.
    ``de_emphasis``: seconds. Raises DataError for what is no such I/Q, and ArgumentError for a rate
    that does not do; what was decoded before the data went wrong is in ``out``.
    """
    if Path(source).suffix in sigmf.SUFFIXES:
        if rate is not None or form is not None:
            raise ArgumentError(f"{source}: SigMF says rate and format: leave out --rate, --format")
        source, form, rate = sigmf.described(Path(source))
    if rate is None:
        raise ArgumentError(f"{source}: raw I/Q does not say its rate: give --rate HZ")
    chosen = iq.FORMATS[form or "u8"]
    receiver = broadcast.FmReceiver(rate, de_emphasis)
    blocks = iq.blocks(source, chosen, f"raw {chosen.name} I/Q (--format), {_RATE}")
    samples, busy = 0, 0.0
    cut: DataError | None = None
    first = next(blocks)  # nothing is written for what is no signal at all
    try:
        with open(out, "wb") as raw, wave.open(raw, "wb") as file:
            file.setparams((2, 2, broadcast.AUDIO_RATE, 0, "NONE", ""))
            try:
                for block in itertools.chain([first], blocks):
                    started = time.perf_counter()
                    audio = receiver.feed(block)
                    busy += time.perf_counter() - started
                    samples += len(block)
                    file.writeframes(_sixteen_bits(audio))
            except DataError as error:  # what came before it is written all the same
                cut = error
    except OSError as error:
        raise DataError(f"{out}: {error.strerror}") from error
    if cut is not None:
        raise cut
    share = receiver.stereo_share
    heard = f"stereo for {share:.0%} of it" if share > 0 else "mono: there is no pilot of 19 kHz"
    terminal.line(
        f"{out}: {samples / rate:,.2f} s of audio at {broadcast.AUDIO_RATE:,} Hz, {heard}; "
        f"demodulated at {samples / max(busy, 1e-9) * 1e-6:,.0f} Msps"
    )
    return 0


def generate(path: Path, *, rate: int, form: str, seconds: float, emphasis: float) -> int:
    """Write a made station to ``path``: 1 kHz on the left and 3 kHz on the right; the exit status.

    Each has a third of full scale; the noise is 40 dB down. ``emphasis``: seconds.
    """
    left, right = [broadcast.Tone(1000, 1 / 3)], [broadcast.Tone(3000, 1 / 3)]
    chosen = iq.FORMATS[form]
    with open(path, "wb") as file:
        for second in range(int(np.ceil(seconds))):
            signal = broadcast.modulate(
                left, right, rate, min(1.0, seconds - second),
                emphasis=emphasis, snr=_MADE_SNR, start=second, seed=second,
            )  # fmt: skip
            file.write(chosen.bytes(signal))
    print(f"{path}: {seconds:g} s of a stereo station, {chosen.name} I/Q at {rate:,} Hz")
    return 0
