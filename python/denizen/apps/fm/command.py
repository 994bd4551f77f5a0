# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run fm`` does: turn a station's I/Q into a WAV file, or make a signal."""

from __future__ import annotations

import itertools
import sys
import time
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen import iq, terminal
from denizen.errors import ArgumentError
from denizen.files import whole
from denizen.radio import broadcast

_RATE = "the station in its middle, at least 200,000 samples a second (--rate)"
_MADE_SNR = 40.0  # dB


def _sixteen_bits(audio: NDArray[np.float32]) -> bytes:
    """Full scale is 32767; what is beyond is clipped."""
    out: bytes = np.clip(np.rint(audio * 32767), -32768, 32767).astype("<i2").tobytes()
    return out


def run(name: str, out: Path, *, rate: int | None, form: str | None, de_emphasis: float) -> int:
    """Write the audio of the I/Q that ``name`` stands for (iq.open) to ``out``; the exit status.
    Ctrl-C ends a source that has no end.

    ``rate`` and ``form`` (a key of iq.FORMATS) are for a source that does not say them.
    ``de_emphasis``: seconds. Raises DataError for what is no such I/Q, and ArgumentError for a rate
    that does not do; what was decoded before the data went wrong is in ``out``.
    """
    with iq.open(name, form=form, rate=rate, expected=f"I/Q (--format), {_RATE}") as source:
        if source.rate is None:
            raise ArgumentError(f"{name}: raw I/Q does not say its rate: give --rate HZ")
        return _demodulated(source, source.rate, out, de_emphasis)


def _demodulated(source: iq.Source, rate: int, out: Path, de_emphasis: float) -> int:
    receiver = broadcast.FmReceiver(rate, de_emphasis)
    blocks = source.blocks()
    samples, busy = 0, 0.0
    cut: iq.DataError | None = None
    first = next(blocks)  # nothing is written for what is no signal at all
    try:
        with (
            terminal.working(source.name) as tell,
            whole(out) as part,
            open(part, "wb") as raw,
            wave.open(raw, "wb") as file,
        ):
            file.setparams((2, 2, broadcast.AUDIO_RATE, 0, "NONE", ""))
            try:
                for block in itertools.chain([first], blocks):
                    tell(f"{samples / rate:,.1f} s of {source.name}")
                    started = time.perf_counter()
                    audio = receiver.feed(block)
                    busy += time.perf_counter() - started
                    samples += len(block)
                    file.writeframes(_sixteen_bits(audio))
            except KeyboardInterrupt:
                if not source.live:
                    raise
            except iq.DataError as error:  # what came before it is written all the same
                cut = error
    except OSError as error:
        raise iq.DataError(f"{out}: {error.strerror}") from error
    if source.losses:
        terminal.error(f"{source.name}: {source.losses}")
    if cut is not None:
        raise cut
    share = receiver.stereo_share
    heard = f"stereo for {share:.0%} of it" if share > 0 else "mono: there is no pilot of 19 kHz"
    terminal.line(
        f"{out}: {samples / rate:,.2f} s of audio at {broadcast.AUDIO_RATE:,} Hz, {heard}; "
        f"demodulated at {samples / max(busy, 1e-9) * 1e-6:,.0f} Msps"
    )
    return 0


def generate(name: str, *, rate: int, form: str, seconds: float, emphasis: float) -> int:
    """Write a made station to ``name`` (iq.create); the exit status.

    1 kHz is on the left and 3 kHz on the right, each a third of full scale; the noise is 40 dB
    down. ``emphasis``: seconds.
    """
    left, right = [broadcast.Tone(1000, 1 / 3)], [broadcast.Tone(3000, 1 / 3)]
    with (
        terminal.working(f"making {seconds:g} s of signal") as tell,
        iq.create(name, form=form, rate=rate) as sink,
    ):
        for second in range(int(np.ceil(seconds))):
            tell(f"making second {second + 1} of {seconds:g}")
            signal = broadcast.modulate(
                left, right, rate, min(1.0, seconds - second),
                emphasis=emphasis, snr=_MADE_SNR, start=second, seed=second,
            )  # fmt: skip
            sink.write(signal)
    raw = name == "-" or Path(name).suffix not in (".wav", ".sigmf-meta", ".sigmf-data")
    print(
        f"{sink.name}: {seconds:g} s of a stereo station, {sink.form.name} I/Q at {rate:,} Hz"
        + (f", which the file does not say: read it with --rate {rate}" if raw else ""),
        file=sys.stderr if name == "-" else sys.stdout,
    )
    return 0
