# SPDX-License-Identifier: Apache-2.0
"""A made FM station through a flow of blocks, and in stereo through the receiver."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place

_RATE = 240_000
_SECONDS = 2.0
_SIDES = (("left", 1000.0), ("right", 3000.0))
_TAPS = 65

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def _spectrum(audio: NDArray[np.float32], rate: int) -> Curve:
    """Frequencies, and the level of a sine at each, in dB of full scale."""
    window = np.hanning(len(audio))
    level = np.abs(np.fft.rfft(audio * window)).astype(np.float64) * 2 / window.sum()
    hertz = np.fft.rfftfreq(len(audio), 1 / rate).astype(np.float64)
    return hertz, 20 * np.log10(np.maximum(level, 1e-6))


def _filtered(
    signal: NDArray[np.complex64], taps: NDArray[np.float32], device: str
) -> NDArray[np.complex64]:
    """The signal through a flow with a filter: on the graph's threads, or resident on a GPU."""
    from denizen import flow  # noqa: PLC0415

    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("station", signal))
        on_gpu = device.startswith("gpu")
        executor = flow.Resident(device) if on_gpu else "cpu"
        fir = graph.add(flow.Fir("channel", taps, executor=executor))
        sink = graph.add(flow.ArraySink("heard", "c8"))
        graph.circuit("samples", source.out, quanta=4, samples=1 << 14)
        graph.connect(source.out, fir.samples)
        graph.connect(fir.samples, sink.port)
        graph.start()
        graph.wait()
    heard: NDArray[np.complex64] = sink.samples
    return heard


def run(place: Place) -> Found:
    from denizen import machine  # noqa: PLC0415
    from denizen.radio import broadcast  # noqa: PLC0415

    place.tell("making a station")
    tones = [[broadcast.Tone(hertz, 1 / 3)] for _, hertz in _SIDES]
    signal = broadcast.modulate(tones[0], tones[1], _RATE, _SECONDS, snr=40.0, seed=5)
    place.tell("through a filter of a flow")
    middle = np.arange(_TAPS) - (_TAPS - 1) / 2
    cut = 2 * 100e3 / _RATE
    taps = (cut * np.sinc(cut * middle) * np.hamming(_TAPS)).astype(np.float32)
    through = _filtered(signal, taps, place.device)
    expected = np.convolve(signal, taps)[: len(through)]
    off = float(np.abs(through - expected).max())
    wrong = None
    if off > 1e-4:
        wrong = f"the flow's filter is {off:.2g} from NumPy's convolution; 1e-4 is allowed"
    place.tell("demodulating")
    receiver = broadcast.FmReceiver(_RATE)
    audio = np.concatenate([receiver.feed(part) for part in np.array_split(through, 16)])
    audio = audio[len(audio) // 4 :]  # what comes before is the pilot's being found
    spectra = [_spectrum(audio[:, side], broadcast.AUDIO_RATE) for side in range(2)]
    levels = {
        (side, tone): _level(spectra[s], hertz)
        for s, (side, _) in enumerate(_SIDES)
        for tone, hertz in _SIDES
    }
    sent = 20 * np.log10(0.9 / 3)  # 0.9 of the deviation is for the audio
    apart = min(levels[a, a] - levels[a, b] for a, b in (("left", "right"), ("right", "left")))
    for side, hertz in _SIDES:
        if wrong is None and abs(levels[side, side] - sent) > 1:
            wrong = (
                f"{hertz:.0f} Hz comes at {levels[side, side]:.1f} dB on the {side}; "
                f"{sent:.1f} was sent"
            )
    if wrong is None and apart < 30:
        wrong = f"the sides are {apart:.0f} dB apart; 30 are expected"
    rows = [
        (side, f"{levels[side, 'left']:.1f} dB", f"{levels[side, 'right']:.1f} dB")
        for side, _ in _SIDES
    ]
    return Found(
        did=f"{_SECONDS:.0f} s of a made station at {_RATE // 1000} kHz went through a filter "
        f"of {_TAPS} "
        "taps, a block of a flow in whose circuit four buffers turn, and then through the stereo "
        "receiver.",
        checked=f"The filter equals NumPy's convolution to {off:.0e}; 1 kHz is on the left "
        "and 3 kHz on "
        f"the right as loud as sent, {apart:.0f} dB apart.",
        wrong=wrong,
        device=place.device if place.device.startswith("gpu") else machine.cpu_name(),
        pictures=[
            Picture(_curves(spectra), "What is heard on the left (blue) and on the right (orange).")
        ],
        table=("audio", ("side", "1 kHz", "3 kHz"), rows),
    )


def _level(spectrum: Curve, hertz: float) -> float:
    frequencies, level = spectrum
    near = np.abs(frequencies - hertz) < 20
    return float(level[near].max())


def _curves(spectra: list[Curve]) -> str:
    most = 6000.0
    lines = []
    for frequencies, level in spectra:
        inside = level[frequencies <= most]
        parts = np.array_split(inside, min(len(inside), 400))
        lines.append(np.array([max(-100.0, float(part.max())) for part in parts]))
    marks = [(-float(mark), f"{-mark} dB") for mark in range(0, 101, 20)]
    below = [(hertz / most, f"{hertz} Hz") for hertz in range(0, 6001, 2000)]
    return draw.curves(lines, (-100.0, 0.0), marks, below, "spectrum of the audio")
