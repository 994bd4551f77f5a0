# SPDX-License-Identifier: Apache-2.0
"""I/O from handlers: actors that write their own log, while the host does something else.

    python log_writer.py [device]

A sensor makes a record for each reading that is out of range, and sends it to the host's I/O
service as a message. Nobody receives on the host: a thread of the service writes the records, in
each sensor's order.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import denizen
from denizen import io

SENSORS, READINGS, LIMIT = 8, 20_000, 990

Record = io.write("Record", 16)  # up to 16 bytes


@denizen.message
class Begin:
    file: np.uint32
    number: np.uint32


@denizen.message
class Reading:
    value: np.uint32


@denizen.message
class Ask:
    pass


@denizen.message
class Written:
    records: np.uint64
    bytes: np.uint64
    errors: np.uint64


@denizen.actor
class Sensor:
    file: np.uint32
    number: np.uint32
    records: np.uint64
    bytes: np.uint64
    errors: np.uint64

    def on_begin(self, m: Begin):
        self.file = m.file
        self.number = m.number

    def on_reading(self, m: Reading, ctx):
        if m.value >= LIMIT:
            record = Record(file=self.file, length=6, offset=io.NEXT)
            record.bytes[0] = 48 + self.number
            record.bytes[1] = 32  # a space
            record.bytes[2] = 48 + m.value // 100
            record.bytes[3] = 48 + m.value // 10 % 10
            record.bytes[4] = 48 + m.value % 10
            record.bytes[5] = 10  # the end of the line
            ctx.send(denizen.HOST, record)

    def on_done(self, m: io.Done):
        self.records += 1
        self.bytes += m.bytes
        self.errors += m.error != io.Error.NONE

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Written(self.records, self.bytes, self.errors))


def main(device: str = "auto") -> None:
    values = np.random.default_rng(1).integers(0, 1000, READINGS)
    with tempfile.TemporaryDirectory() as folder, denizen.Runtime(Sensor, device) as rt:
        with io.Service(rt, folder, modes=io.APPEND | io.CREATE) as files:
            sensors = rt.spawn(Sensor, SENSORS)
            log = files.open("sensors.log", io.APPEND | io.CREATE)
            for number, sensor in enumerate(sensors):
                rt.send(sensor, Begin(log, number))
            readings = Reading.zeros(READINGS)
            readings["value"] = values
            rt.send_many(np.resize(sensors, READINGS), readings)
            rt.drain()  # all readings are handled,
            files.drain()  # and all records written
            written = rt.ask_many(sensors, Ask(), Written)
            operations = files.stats()["operations"]
        lines = (Path(folder) / "sensors.log").read_text().splitlines()
        where = rt.description["device"]
    print(f"{len(lines)} records by {operations} operations of the system, on {where}")
    for number in range(SENSORS):
        mine = values[number::SENSORS]
        expected = [f"{number} {value}" for value in mine[mine >= LIMIT]]
        if [line for line in lines if line[0] == str(number)] != expected:
            sys.exit(f"sensor {number}: the log has other lines than it wrote")
    if written["errors"].any() or written["bytes"].sum() != 6 * len(lines):
        sys.exit(f"not all was written: {written}")


if __name__ == "__main__":
    main(*sys.argv[1:])
