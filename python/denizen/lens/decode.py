# SPDX-License-Identifier: Apache-2.0
"""What a channel's stream makes the GPU do: launches, copies, semaphores.

A pure function of recorded words. The engines keep what methods set, so a channel's submissions
must be given in order to one :class:`Stream`; what was not recorded only leaves gaps. Nothing is
dropped: a method without a meaning here is counted under its name or number.
"""

from __future__ import annotations

import numpy as np

from denizen.lens import qmd
from denizen.lens.classes import HOST_METHODS_END, EngineClass, engine_class, engine_of, host_class
from denizen.lens.engine import Action, Engine
from denizen.lens.operation import Decoded, Detail, Operation
from denizen.lens.pushbuffer import Kind, Packet, Reader, Words, entry

# What libcuda binds without saying so in what a late capture sees (OGKM, cla06fsubch.h).
_USUAL = {0xC56F: {1: 0xC7C0, 4: 0xC7B5}, 0xC86F: {1: 0xCBC0, 4: 0xC8B5}}
_COMPUTE, _COPY = 1, 4  # their usual subchannels
_QMD_ALIGN = 256
_STREAMS = ("LOAD_INLINE_DATA", "CALL_MME_DATA")  # methods that take words in a row
_KEPT = 1 << 16  # places of inline data kept for launches to find


class Stream:
    """Decodes the submissions of one channel, in order.

    Args:
        channel_class: the channel's own class (0xc86f on Hopper).
        engines: classes of the engine objects made on it, if known: they are taken to be on their
            usual subchannels until the stream says otherwise.
    """

    def __init__(self, channel_class: int, engines: list[int] | None = None) -> None:
        self._reader = Reader()
        self._base = 0
        self._host = self._made(host_class(channel_class))
        self._bound: dict[int, int] = dict(_USUAL.get(channel_class, {}))
        for number in engines or ():
            at = {"compute": _COMPUTE, "copy": _COPY}.get(engine_of(number))
            if at is not None:
                self._bound[at] = number
        self._engines: dict[int, Engine] = {}
        self._found = Decoded()
        self._inline_at = self._inline_left = 0  # of the inline copy that is being filled
        self._inline: list[Words] = []
        self._memory: dict[int, Words] = {}  # 256-byte places whose words went by, for QMDs
        self._macro: tuple[int, int] | None = None  # of the macro being called: number, words

    # --- the stream ---

    def submission(self, entries: list[int], segments: list[Words | None]) -> Decoded:
        """What one doorbell made new: the entries as they are in memory, and what they point to.

        Where ``segments`` is shorter or None stands in it, the contents were not recorded.
        """
        self._found = found = Decoded()
        for i, raw in enumerate(entries):
            e = entry(raw)
            if (base := e.extended_base) is not None:
                self._base = base
                continue
            if e.words == 0:
                if e.control not in (0,):
                    found.methods[f"entry control {e.control:d}"] += 1
                continue
            words = segments[i] if i < len(segments) else None
            if words is None or len(words) < e.words:
                found.recorded = False
            if words is None:
                self._reader.lost()
                continue
            for packet in self._reader.read(words):
                self._packet(packet)
            if len(words) < e.words:
                self._reader.lost()
        self._end_macro()
        return found

    def _packet(self, packet: Packet) -> None:
        found = self._found
        if packet.kind == Kind.INVALID:
            found.problems.append(f"word {packet.at} ({int(packet.data[0]):#010x}) is no header")
            return
        if packet.kind == Kind.END_SEGMENT:
            found.methods["END_PB_SEGMENT"] += 1
            return
        if packet.kind == Kind.SUBDEVICE:
            found.methods["SUBDEVICE_MASK"] += 1
            return
        data, method = packet.data, packet.method
        if packet.kind == Kind.ONE_INC and len(data):
            self._write(packet.subchannel, method, data[:1].tolist())
            data, method = data[1:], method + 4 & 0x3FFC
        if packet.kind in (Kind.NON_INC, Kind.ONE_INC):
            self._burst(packet.subchannel, method, data)
        else:
            self._write(packet.subchannel, method, data.tolist())

    def _write(self, subchannel: int, offset: int, values: list[int]) -> None:
        """Values to one method after another."""
        methods = self._found.methods
        for value in values:
            engine = self._host if offset < HOST_METHODS_END else self._engine(subchannel)
            if engine is None:
                self._found.unknown[f"{self._bound.get(subchannel, 0):04x}:{offset:#06x}"] += 1
            else:
                engine.values[offset] = value
                name, action = engine.slots[offset >> 2]
                if self._macro is not None and name != "CALL_MME_DATA":
                    self._end_macro()
                if name is None:
                    self._found.unknown[f"{engine.table.number:04x}:{offset:#06x}"] += 1
                else:
                    methods[name] += 1
                if action is not None:
                    action(engine, offset)
                if offset == 0:
                    self._bind(subchannel, value & 0xFFFF)
            offset = offset + 4 & 0x3FFC

    def _burst(self, subchannel: int, offset: int, data: Words) -> None:
        """Many words to one method."""
        engine = self._host if offset < HOST_METHODS_END else self._engine(subchannel)
        if engine is not None and len(data):
            name, action = engine.slots[offset >> 2]
            if self._macro is not None and name != "CALL_MME_DATA":
                self._end_macro()
            if name is not None and (action is None or name in _STREAMS):
                self._found.methods[name] += len(data)
                engine.values[offset] = int(data[-1])
                if name == "LOAD_INLINE_DATA":
                    self._inline_words(data)
                elif name == "CALL_MME_DATA":
                    self._macro_words(len(data))
                return
        for value in data.tolist():
            self._write(subchannel, offset, [value])

    def _engine(self, subchannel: int) -> Engine | None:
        engine = self._engines.get(subchannel)
        if engine is None:
            table = engine_class(self._bound.get(subchannel, 0))
            if table is None:
                return None
            engine = self._engines[subchannel] = self._made(table)
        return engine

    def _made(self, table: EngineClass) -> Engine:
        return Engine(self.actions(engine_of(table.number)), table)

    def _bind(self, subchannel: int, number: int) -> None:
        self._bound[subchannel] = number
        self._engines.pop(subchannel, None)
        detail: dict[str, Detail] = {"class": number, "subchannel": subchannel}
        self._add(Operation("bind", engine_of(number), 0, detail))

    def _add(self, operation: Operation) -> None:
        self._found.operations.append(operation)

    # --- what methods do: the tables of actions by name ---

    def actions(self, engine: str) -> dict[str, Action]:
        match engine:
            case "compute":
                return {
                    "LAUNCH_DMA": self._inline_copy,
                    "LOAD_INLINE_QMD_DATA": self._inline_qmd,
                    "CALL_MME_MACRO": self._call_macro,
                    "CALL_MME_DATA": self._macro_data,
                    "LOAD_INLINE_DATA": self._inline_data,
                    "SEND_SIGNALING_PCAS_B": self._pcas,
                    "SEND_SIGNALING_PCAS2_B": self._pcas,
                    "SET_REPORT_SEMAPHORE_D": self._report,
                    "REPORT_SEMAPHORE_EXECUTE": self._report_execute,
                    "WAIT_FOR_IDLE": self._wait,
                    "INVALIDATE_SHADER_CACHES": self._invalidate,
                    "INVALIDATE_SHADER_CACHES_NO_WFI": self._invalidate,
                    "INVALIDATE_SKED_CACHES": self._invalidate,
                    "INVALIDATE_SAMPLER_CACHE": self._invalidate,
                    "INVALIDATE_SAMPLER_CACHE_NO_WFI": self._invalidate,
                    "INVALIDATE_TEXTURE_HEADER_CACHE": self._invalidate,
                    "INVALIDATE_TEXTURE_HEADER_CACHE_NO_WFI": self._invalidate,
                    "INVALIDATE_TEXTURE_DATA_CACHE": self._invalidate,
                    "INVALIDATE_TEXTURE_DATA_CACHE_NO_WFI": self._invalidate,
                }
            case "copy":
                return {"LAUNCH_DMA": self._copy}
            case "host":
                return {
                    "SEM_EXECUTE": self._semaphore,
                    "SEMAPHORED": self._old_semaphore,
                    "MEM_OP_D": self._memory_operation,
                    "WFI": self._wait,
                    "NON_STALL_INTERRUPT": self._interrupt,
                }
        return {}

    # --- compute ---

    def _inline_copy(self, e: Engine, _offset: int) -> None:
        lines = max(1, e.get("LINE_COUNT"))
        self._inline_at = e.address("OFFSET_OUT_UPPER", "OFFSET_OUT")
        size = e.get("LINE_LENGTH_IN") * lines
        self._inline_left, self._inline = size, []
        detail: dict[str, Detail] = {"to": self._inline_at, "lines": lines}
        if e.word("LAUNCH_DMA", "COMPLETION_TYPE") == "RELEASE_SEMAPHORE":
            detail["release"] = e.address("SET_I2M_SEMAPHORE_A", "SET_I2M_SEMAPHORE_B")
            detail["payload"] = e.get("SET_I2M_SEMAPHORE_C")
        self._add(Operation("inline copy", "compute", size, detail))

    def _inline_data(self, e: Engine, offset: int) -> None:
        self._inline_words(np.array([e.values[offset]], np.uint32))

    def _inline_words(self, data: Words) -> None:
        """Data of an inline copy. What may be a QMD is kept: a launch names it by its address."""
        if self._inline_left <= 0:
            return
        self._inline.append(data)
        self._inline_left -= 4 * len(data)
        if self._inline_left > 0:
            return
        whole = np.concatenate(self._inline)
        first = -(-self._inline_at // _QMD_ALIGN) * _QMD_ALIGN
        skip = (first - self._inline_at) // 4
        if (first - self._inline_at) % 4 == 0:
            for i in range(skip, len(whole) - 63, _QMD_ALIGN // 4):
                self._keep(self._inline_at + 4 * i, whole[i : i + 96])
        self._inline = []

    def _keep(self, address: int, words: Words) -> None:
        self._memory.pop(address, None)
        self._memory[address] = words
        if len(self._memory) > _KEPT:
            del self._memory[next(iter(self._memory))]

    def _inline_qmd(self, e: Engine, offset: int) -> None:
        """A QMD that goes by word for word; the last one schedules the launch."""
        first = e.table["LOAD_INLINE_QMD_DATA"].offset
        i = (offset - first) // 4
        if i < 63:
            return
        version = e.values.get(first + 4 * 18, 0)
        if i + 1 != qmd.words(version):
            return
        words = np.array([e.values.get(first + 4 * k, 0) for k in range(i + 1)], np.uint32)
        address = (
            e.address("SET_INLINE_QMD_ADDRESS_A", "SET_INLINE_QMD_ADDRESS_B") << 8
        ) & 0xFFFF_FFFF_FFFF_FF00
        self._keep(address, words)
        self._launch(address, "inline")

    def _pcas(self, e: Engine, offset: int) -> None:
        name = e.table.name(offset)
        address = e.get("SEND_PCAS_A") << 8
        value = e.table[name].decoded(e.values[offset])
        if name == "SEND_SIGNALING_PCAS_B":
            action = "SCHEDULE" if value["SCHEDULE"] == "TRUE" else "INVALIDATE"
        else:
            action = str(value["PCAS_ACTION"])
        if "SCHEDULE" not in action:
            self._add(Operation("queue", "compute", 0, {"qmd_address": address, "action": action}))
            return
        last = self._found.operations[-1:]
        if last and last[0].kind == "launch":
            detail = last[0].detail
            if detail["qmd_address"] == address and detail["action"] == "inline":
                detail["action"] = f"inline, {action}"  # the same launch
                return
        self._launch(address, action)

    def _launch(self, address: int, action: str) -> None:
        detail: dict[str, Detail] = {"qmd_address": address, "action": action}
        words = self._memory.get(address)
        if words is not None and (found := qmd.launch(words)) is not None:
            detail.update(found)
        # A grid without blocks, or a queue, runs nothing: others wait for it, as in graphs.
        grid = detail.get("grid", [1])
        empty = isinstance(grid, list) and 0 in grid
        runs = not empty and detail.get("type") not in {"GRID_NULL", "QUEUE"}
        self._add(Operation("launch" if runs else "queue", "compute", 0, detail))

    def _report(self, e: Engine, _offset: int) -> None:
        fields = e.table["SET_REPORT_SEMAPHORE_D"].decoded(e.get("SET_REPORT_SEMAPHORE_D"))
        detail: dict[str, Detail] = {
            "address": e.address("SET_REPORT_SEMAPHORE_A", "SET_REPORT_SEMAPHORE_B"),
            "payload": e.get("SET_REPORT_SEMAPHORE_C"),
            "timestamp": fields["STRUCTURE_SIZE"] in (0, "FOUR_WORDS"),
        }
        self._add(Operation(str(fields["OPERATION"]).lower(), "compute", 0, detail))

    def _report_execute(self, e: Engine, _offset: int) -> None:
        fields = e.table["REPORT_SEMAPHORE_EXECUTE"].decoded(e.get("REPORT_SEMAPHORE_EXECUTE"))
        payload = e.get("SET_REPORT_SEMAPHORE_PAYLOAD_LOWER")
        if fields["PAYLOAD_SIZE64"] == "TRUE":
            payload |= e.get("SET_REPORT_SEMAPHORE_PAYLOAD_UPPER") << 32
        upper, lower = "SET_REPORT_SEMAPHORE_ADDRESS_UPPER", "SET_REPORT_SEMAPHORE_ADDRESS_LOWER"
        detail: dict[str, Detail] = {
            "address": e.address(upper, lower),
            "payload": payload,
            "timestamp": fields["STRUCTURE_SIZE"] == "SEMAPHORE_FOUR_WORDS",
        }
        self._add(Operation(str(fields["OPERATION"]).lower(), "compute", 0, detail))

    def _wait(self, e: Engine, _offset: int) -> None:
        self._add(Operation("wait", e.name))

    def _invalidate(self, e: Engine, offset: int) -> None:
        name = e.table.name(offset)
        fields = e.table[name].decoded(e.values[offset])
        which = " ".join(key for key, value in fields.items() if value == "TRUE")
        detail: dict[str, Detail] = {"what": name.removeprefix("INVALIDATE_")}
        if which:
            detail["of"] = which
        self._add(Operation("invalidate", "compute", 0, detail))

    def _call_macro(self, e: Engine, offset: int) -> None:
        self._end_macro()
        number = (offset - e.table["CALL_MME_MACRO"].offset) // 8
        self._macro = (number, 1)

    def _macro_data(self, _e: Engine, _offset: int) -> None:
        self._macro_words(1)

    def _macro_words(self, words: int) -> None:
        if self._macro is not None:
            self._macro = (self._macro[0], self._macro[1] + words)

    def _end_macro(self) -> None:
        if self._macro is not None:
            number, words = self._macro
            self._macro = None
            self._add(Operation("macro", "compute", 0, {"macro": number, "words": words}))

    # --- copy ---

    def _copy(self, e: Engine, _offset: int) -> None:
        fields = e.table["LAUNCH_DMA"].decoded(e.get("LAUNCH_DMA"))
        if fields["DATA_TRANSFER_TYPE"] not in (0, "NONE"):
            self._transfer(e, fields)
        if fields["SEMAPHORE_TYPE"] in ("NONE", 0):
            return
        payload = e.get("SET_SEMAPHORE_PAYLOAD")
        if fields.get("SEMAPHORE_PAYLOAD_SIZE") == "TWO_WORD":
            payload |= e.get("SET_SEMAPHORE_PAYLOAD_UPPER") << 32
        detail: dict[str, Detail] = {
            "address": e.address("SET_SEMAPHORE_A", "SET_SEMAPHORE_B"),
            "payload": payload,
            "timestamp": fields["SEMAPHORE_TYPE"] == "RELEASE_SEMAPHORE_WITH_TIMESTAMP",
        }
        reduces = fields["SEMAPHORE_REDUCTION_ENABLE"] == "TRUE"
        self._add(Operation("reduction" if reduces else "release", "copy", 0, detail))

    def _transfer(self, e: Engine, fields: dict[str, int | str]) -> None:
        lines = max(1, e.get("LINE_COUNT")) if fields["MULTI_LINE_ENABLE"] == "TRUE" else 1
        length = e.get("LINE_LENGTH_IN")
        detail: dict[str, Detail] = {"to": e.address("OFFSET_OUT_UPPER", "OFFSET_OUT_LOWER")}
        kind = "copy"
        if fields["REMAP_ENABLE"] == "TRUE":
            # Lengths are in elements, and what is written may be constants: that is a fill.
            remap = "SET_REMAP_COMPONENTS"
            size = e.field(remap, "COMPONENT_SIZE") + 1
            count = e.field(remap, "NUM_DST_COMPONENTS") + 1
            length *= size * count
            sources = [e.word(remap, f"DST_{axis}") for axis in "XYZW"[:count]]
            detail["element_bytes"] = size * count
            if not any(str(source).startswith("SRC") for source in sources):
                kind = "fill"
                detail["value"] = e.get("SET_REMAP_CONST_A")
        if kind == "copy":
            detail["from"] = e.address("OFFSET_IN_UPPER", "OFFSET_IN_LOWER")
        if lines > 1:
            detail["lines"] = lines
            detail["pitch_out"] = e.get("PITCH_OUT")
            if kind == "copy":
                detail["pitch_in"] = e.get("PITCH_IN")
        for side in ("SRC", "DST"):
            if fields[f"{side}_TYPE"] == "PHYSICAL":
                detail[f"{side.lower()}_physical"] = True
        self._add(Operation(kind, "copy", length * lines, detail))

    # --- host ---

    def _semaphore(self, e: Engine, _offset: int) -> None:
        fields = e.table["SEM_EXECUTE"].decoded(e.get("SEM_EXECUTE"))
        payload = e.get("SEM_PAYLOAD_LO")
        if fields["PAYLOAD_SIZE"] == "64BIT":
            payload |= e.get("SEM_PAYLOAD_HI") << 32
        operation = str(fields["OPERATION"])
        detail: dict[str, Detail] = {
            "address": e.address("SEM_ADDR_HI", "SEM_ADDR_LO") & ~3,
            "payload": payload,
        }
        if operation == "RELEASE":
            detail["timestamp"] = fields["RELEASE_TIMESTAMP"] == "EN"
            detail["waits_for_idle"] = fields["RELEASE_WFI"] == "EN"
        elif operation.startswith("ACQ"):
            detail["condition"] = operation
        kinds = {"RELEASE": "release", "REDUCTION": "reduction"}
        self._add(Operation(kinds.get(operation, "acquire"), "host", 0, detail))

    def _old_semaphore(self, e: Engine, _offset: int) -> None:
        operation = str(e.word("SEMAPHORED", "OPERATION"))
        detail: dict[str, Detail] = {
            "address": e.address("SEMAPHOREA", "SEMAPHOREB") & ~3,
            "payload": e.get("SEMAPHOREC"),
        }
        if operation == "RELEASE":
            detail["timestamp"] = e.word("SEMAPHORED", "RELEASE_SIZE") == "16BYTE"
        kinds = {"RELEASE": "release", "REDUCTION": "reduction"}
        self._add(Operation(kinds.get(operation, "acquire"), "host", 0, detail))

    def _memory_operation(self, e: Engine, _offset: int) -> None:
        what = str(e.word("MEM_OP_D", "OPERATION"))
        if what == "MEMBAR":
            what = str(e.word("MEM_OP_C", "MEMBAR_TYPE"))
        kind = "barrier" if "MEMBAR" in what else "invalidate"
        self._add(Operation(kind, "host", 0, {"what": what}))

    def _interrupt(self, e: Engine, _offset: int) -> None:
        self._add(Operation("interrupt", "host"))
