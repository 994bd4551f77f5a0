# SPDX-License-Identifier: Apache-2.0
"""Sound in a box of cells: the acoustic wave equation on a GPU or on CPU threads.

    from denizen import wave

    room = wave.Simulation((64, 64, 64), spacing=0.05, boundary="absorbing")
    room.add_source(wave.Ricker(500.0), at=(32, 32, 32))
    ear = room.add_receiver(at=(32, 32, 50))
    room.run(300)
    print(room.pressure.max(), room.trace(ear))

The equation, its boundaries and its methods: docs/wave.md.
"""

from denizen.wave.files import read_mask, read_wav, write_csv, write_wav
from denizen.wave.simulation import Ran, Simulation, Steered
from denizen.wave.sources import Impulse, Ricker, Samples, Sine

__all__ = [
    "Impulse",
    "Ran",
    "Ricker",
    "Samples",
    "Simulation",
    "Sine",
    "Steered",
    "read_mask",
    "read_wav",
    "write_csv",
    "write_wav",
]
