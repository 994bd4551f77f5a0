# SPDX-License-Identifier: Apache-2.0
"""The runtime: a program that runs on a GPU or on CPU threads, and how to talk to it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from denizen import _core
from denizen import buffer as _buffers
from denizen.actor import ActorType
from denizen.buffer import Buffer
from denizen.closing import Closing
from denizen.device import Device, breath_of, capability, parse_device
from denizen.errors import (
    ArgumentError,
    MessageError,
)
from denizen.life import Lives
from denizen.message import METADATA, MessageType, fields_of, html_table
from denizen.program import Program
from denizen.quick import Exchange, Optimise, chosen, start_of
from denizen.replies import AsyncReplies
from denizen.snapshot import Path, Snapshots
from denizen.telemetry import Telemetry
from denizen.topic import Topics
from denizen.tracing import Tracer, Traces, slots
from denizen.values import address as _address
from denizen.values import seconds as _seconds

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from denizen.arena import ArenaStats
    from denizen.metrics import Server

log = logging.getLogger(__name__)

Messages = NDArray[np.void]
Addresses = NDArray[np.uint32]


class Whole(Enum):
    """In place of an actor: all of them. Not None, which an actor's variable may be by mistake."""

    PROGRAM = "the whole program"


@dataclass(frozen=True)
class ListedActor:
    """One of what :meth:`Runtime.actors` lists.

    ``node`` and ``worker`` are where it is: after a migration not where its address says. ``life``
    is one of ``denizen.life.LIVES``.
    """

    address: int
    type: str
    name: str  # empty: it has none
    node: int
    worker: int
    life: str


@dataclass(frozen=True)
class Received:
    """A message that an actor sent to the host."""

    type: str
    message: np.void
    sender: int


_SIZES = (
    "host_ring_slots",
    "inbox_slots",
    "local_slots",
    "near_slots",
    "urgent_slots",
    "outbox_slots",
    "egress_slots",
    "stash_slots",
    "watch_slots",
    "spawn_room",
    "timer_slots",
    "task_slots",
    "subscriptions",
    "dead_letter_slots",
    "trace_slots",
    "asks",
    "max_actors",
    "state_bytes",
    "arena_bytes",
    "buffers",
    "pool_bytes",
)


def _options(given: Mapping[str, int | str | None], sizes: dict[str, int]) -> dict[str, int | str]:
    """Checks what only this side knows: names, and that nothing is cut off on its way to C++."""
    for name in sizes:
        if name not in _SIZES:
            raise ArgumentError(f'no option is called "{name}"; sizes are {", ".join(_SIZES)}')
    options = {k: v for k, v in {**given, **sizes}.items() if v is not None}
    for name, value in options.items():
        least = 1 if name in given else 0
        most = 2**48 if name in ("state_bytes", "arena_bytes", "pool_bytes") else 2**32 - 1
        if not isinstance(value, int | np.integer) or not least <= value <= most:
            raise ArgumentError(f"{name} = {value!r}; use a whole number from {least} to {most}")
    return {name: int(value) for name, value in options.items()}


class Runtime(Lives, Topics, Snapshots, Traces, Closing):
    """A running program.

    Args:
        program: what to run; compiled now unless it is cached. An actor type, or a list of them,
            is the program of these (see Program).
        device: "auto" or None (the first GPU, else the CPU), "cpu", "cpu:THREADS", "gpu" or
            "gpu:N". Several GPUs of one host: "gpu:FIRST-LAST", at most 5; each is a node of the
            program.
            "cpu:NODESxTHREADS": groups of CPU threads that stand for them.
            "python": handlers in Python are run by the interpreter, one after the other, in the
            thread that calls: for breakpoints, print and coverage.
        workers: of each node. GPU: warps, by default as many as the registers of `sms` hold, at
            most 8 on each; CPU: threads, by default one on each core but one, which is left to the
            caller, shared out among the nodes. ``description["geometry"]`` says what was chosen.
        sms: GPU: most SMs to use, by default half of those that no other program of this process
            has, or as many as `workers` needs. Kernels whose blocks need a whole SM (large matrix
            products) run only on the others.
        idle_ms: GPU: leave the GPU after this long without work, and return at the next send.
            None: stay until closed. For one node only.
        breath_us: GPU: no kernel of the program lasts longer than that and a handler; the next one
            is queued behind it, so that whoever waits for the whole device (torch.cuda.synchronize,
            cudaMalloc, the first launch of a kernel) waits for two of them at most. "auto": 2000
            on a GPU, and up to 16,000 where handlers take hundreds of microseconds. None or 0: one
            kernel for ever, beside which such calls do not return. See docs/gpu-sharing.md. On the
            CPU the option is for tests ("auto": 0).
        cluster: SMs whose workers reach each other through shared memory: a power of two up to 16.
            By default 8 where the GPU has clusters; CPU: workers, by default 4.
        mapped: GPU: write messages straight into device memory where the machine can.
        prefer_l1: GPU: what the program does not need of an SM's shared memory is L1, and not for
            kernels beside it. For handlers that read much of the GPU's memory.
        optimise: GPU, of a program that is compiled for the first time. "background": start with
            code that is compiled in a fraction of the time and is slower; a process beside compiles
            the optimised code, which takes over while the program runs (``description["code"]``).
            "wait": start with the optimised code. None: as $DENIZEN_OPTIMISE says, else "wait".
            With breath_us=None, and where C++ text has variables in the GPU's memory, it waits in
            any case. What is compiled is kept: later starts have the optimised code.
        restore: a file that save() wrote, of the same program, sizes and workers: go on from there.
        trace: with memory for rt.trace(): 256 KB for each worker (trace_slots=4096).
        host_ring_slots, inbox_slots, local_slots, near_slots, urgent_slots, outbox_slots,
            egress_slots, stash_slots, watch_slots, spawn_room, timer_slots, task_slots,
            subscriptions, dead_letter_slots, trace_slots, asks, max_actors, state_bytes: sizes of
            the rings and stashes (64-byte slots), of what may be unanswered, and of the actors'
            memory; see denizen::Options (denizen/actor/any_runtime.hpp). 0 for inbox_slots,
            local_slots and near_slots is what suits the device, for spawn_room what suits the
            program.

    Addresses are uint32. Deadlines are seconds. Calls may be made from any thread. Errors are
    subclasses of denizen.DenizenError. Ctrl-C ends any wait with KeyboardInterrupt, as a passed
    deadline would, and the runtime can be used on; what had been sent by then is sent, what had
    arrived waits for the next call.
    """

    def __init__(
        self,
        program: Program | ActorType | Sequence[ActorType],
        device: str | None = "auto",
        *,
        workers: int | None = None,
        sms: int | None = None,
        cluster: int | None = None,
        idle_ms: int | None = None,
        breath_us: int | Literal["auto"] | None = "auto",
        mapped: bool = True,
        prefer_l1: bool = False,
        optimise: Optimise | None = None,
        restore: Path | None = None,
        trace: bool = False,
        _place: tuple[int, int] | None = None,
        **sizes: int,
    ) -> None:
        program = _program_of(program)
        where = parse_device(device)
        threads = where.threads
        if threads is not None and workers not in (None, threads):
            raise ArgumentError(f'device "{device}" and workers = {workers}; give one of the two')
        options: dict[str, int | str] = _options(
            {
                "nodes": where.nodes,
                "workers": threads if workers is None else workers,
                "sms": sms,
                "cluster": cluster,
                "idle_ms": idle_ms,
            },
            slots(trace, sizes),
        )
        if (breath := breath_of(breath_us)) is not None:
            options["breath_us"] = breath
        options["mapped"] = int(mapped)
        options["prefer_l1"] = int(prefer_l1)
        if _place is not None:  # a host's number in its cluster, and how many there are
            if where.interpreted:
                raise ArgumentError('device="python" is of no cluster; use device="cpu"')
            options["host"], options["hosts"] = _place
        if restore is not None:
            options["restore"] = os.fspath(restore)
        gpu = where.on_gpu
        self.program = program
        self._device = (2, where.first) if gpu else (1, 0)  # as DLPack names it
        self.gpu = where.first if gpu else None  # as CUDA counts them
        self._server: Server | None = None
        self._tracer: Tracer | None = None
        self._closed = False
        self._types = list(program.messages.values())
        self._ids = {m.name: i for i, m in enumerate(self._types)}
        # By the dtypes themselves, which the types keep: what most messages are made with.
        self._by_dtype = {id(m.dtype): i for i, m in enumerate(self._types)}
        self._actors = {name: i for i, name in enumerate(program.actors)}
        self._core: _core.Runtime
        self._exchange: Exchange | None = None
        if where.interpreted:
            from denizen.handlers.interpreter import Interpreter  # noqa: PLC0415

            plan = program.plan(interpreted=True)
            messages = list(program.messages.values())
            slots_of_dead = int(options.get("dead_letter_slots", 4096))
            self._core = cast(
                _core.Runtime, Interpreter(plan, program.actors, messages, slots_of_dead)
            )
        else:
            quick = chosen(optimise) and gpu and breath != 0
            self._core, self._exchange = _started(program, where, options, quick)
        self._process = os.getpid()
        if log.isEnabledFor(logging.INFO):
            about = self._core.description
            log.info(
                "%s runs on %s, %d workers, started in %.0f ms%s",
                program.name,
                about["device"],
                about["workers"],
                about["start_ms"],
                f", from {os.fspath(restore)}" if restore is not None else "",
            )
        self._async = AsyncReplies(self._core)

    def __repr__(self) -> str:
        return f"<denizen.Runtime {self.program.name}: {'; '.join(map(' '.join, self._facts()))}>"

    def _repr_html_(self) -> str:
        return html_table(f"denizen.Runtime {self.program.name}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        if self._closed:
            return [("is", "closed")]
        about = self._core.description
        nodes = "" if about["nodes"] == 1 else f" on each of {about['nodes']} nodes"
        stats = self._core.stats()
        return [
            ("on", str(about["device"])),
            ("workers", f"{about['workers']}{nodes}"),
            ("mode", str(stats["mode"])),
            ("handled", f"{stats['handled']:,}"),
        ]

    @property
    def description(self) -> dict[str, Any]:
        """Device, nodes, workers of each, how they lie together, memory taken, start time in ms.

        "geometry": why it is these workers. "code": "optimised", or "quick" as long as a program
        runs that was compiled for a quick start (`optimise`).
        """
        code = "optimised" if self._exchange is None else self._exchange.code
        return {**self._core.description, "code": code}

    # ---- life of actors

    def spawn(
        self,
        actor: str | ActorType,
        count: int = 1,
        *,
        timeout: float = 10.0,
        near: int | None = None,
        how: str = "worker",
        node: int | None = None,
        name: str | None = None,
    ) -> Addresses:
        """Spawns actors over all workers of all nodes; they exist when the call returns.

        Args:
            name: of one actor, by which :meth:`find` finds it, also after a restore. ArgumentError
                if another that lives has it.
            near: an address: near that actor. `how` says what near is: "worker": on the same
                worker; "sm": on the other workers of its SM; "cluster": on the other SMs of its
                cluster; "node": on its GPU outside its cluster, if there is anything outside.
            node: only on this node (GPU, or group of CPU threads), counted from 0.

        Returns their addresses: uint32, shape (count,).
        """
        if not isinstance(count, int | np.integer) or not 0 <= count < 2**32:
            raise ArgumentError(f"count = {count!r}; use a whole number from 0 to {2**32 - 1}")
        if near is not None and node is not None:
            raise ArgumentError(f"near = {near} and node = {node}; give one of the two")
        if how not in _core.near:
            raise ArgumentError(f'how = "{how}"; use {", ".join(_core.near)}')
        kind = self._actor(actor)
        if name is not None:
            if not isinstance(name, str) or count != 1 or near is not None or node is not None:
                raise ArgumentError(
                    f"name = {name!r} with count = {count}, near = {near}, node = {node}; a name "
                    "is a str and of one actor, which is placed anywhere"
                )
            return self._core.spawn_named(kind, name, _seconds(timeout))
        if near is not None:
            return self._core.spawn_near(
                kind, int(count), _address(near), _core.near.index(how), _seconds(timeout)
            )
        if node is not None:
            nodes = self._core.description["nodes"]
            if not isinstance(node, int | np.integer) or not 0 <= node < nodes:
                raise ArgumentError(f"node = {node!r}; the program has {nodes}, counted from 0")
            return self._core.spawn_on_node(kind, int(count), int(node), _seconds(timeout))
        return self._core.spawn(kind, int(count), _seconds(timeout))

    def find(self, name: str, *, timeout: float = 1.0) -> int:
        """The address of the actor that was spawned by this name; NoActorError if none lives."""
        if not isinstance(name, str):
            raise ArgumentError(f"name = {name!r}; use a str")
        return self._core.find(name, _seconds(timeout))

    def actors(self) -> list[ListedActor]:
        """All actors that have not stopped, worker by worker.

        Also those that handlers have spawned, and supervisors (type ``supervisor``). Read while the
        program goes on.
        """
        return [ListedActor(*one) for one in self._core.actors()]

    def stop(self, actor: int, *, drain: bool = False, timeout: float = 1.0) -> None:
        """Ends an actor; no handler of it runs once the call has returned.

        `drain`: only when all that had been sent to it before has been handled. The whole program
        ends by close().
        """
        end = self._core.drain_actor if drain else self._core.stop
        end(_address(actor), _seconds(timeout))

    # ---- messages

    def send(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> None:
        """Sends one message: a record of a message dtype, or a type's name with its fields."""
        kind, record = self._one(message, fields)
        self._core.send(_address(address), kind, record, _seconds(timeout))

    def send_many(self, addresses: ArrayLike, messages: Messages, *, timeout: float = 60.0) -> None:
        """Sends an array of messages of one type, shape (n,), to one address or to n of them.

        An error says how many were accepted before it. Ctrl-C cannot: those before the full ring
        that it waited for are sent, in order.
        """
        kind, array = self._array(messages)
        self._core.send_many(
            _addresses(addresses),
            kind,
            array.view(np.uint8),
            array.dtype.itemsize,
            array.size,
            _seconds(timeout),
        )

    def broadcast(
        self,
        actor: str | ActorType,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> None:
        """Sends one message to every actor of a type."""
        kind, record = self._one(message, fields)
        self._core.broadcast(self._actor(actor), kind, record, _seconds(timeout))

    def ask(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> np.void:
        """Sends a message and waits for the reply, which it returns as a record."""
        kind, record = self._one(message, fields)
        reply, data = self._core.ask(_address(address), kind, record, _seconds(timeout))
        return np.frombuffer(data, self._types[reply].dtype)[0]  # type: ignore[no-any-return]

    def ask_many(
        self,
        addresses: ArrayLike,
        messages: np.void | Messages | str,
        reply: MessageType | str,
        *,
        timeout: float = 10.0,
    ) -> Messages:
        """Asks n actors and waits for all replies.

        Args:
            addresses: one, or n.
            messages: one for all, or n.
            reply: the type of every reply.

        Returns the replies in the order of the addresses, shape (n,).
        """
        to = _addresses(addresses)
        if isinstance(messages, str):
            messages = self._own(messages)()
        one = isinstance(messages, np.void) or np.ndim(messages) == 0
        kind, array = self._array(np.atleast_1d(np.asarray(messages)))
        count = to.size if one else array.size
        answer = self._own(reply)
        replies = np.zeros(count, answer.dtype)
        self._core.ask_many(
            to,
            kind,
            array.view(np.uint8),
            array.dtype.itemsize,
            one,
            count,
            self._ids[answer.name],
            replies.view(np.uint8),
            answer.dtype.itemsize,
            _seconds(timeout),
        )
        return replies

    async def ask_async(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> np.void:
        """As ask, for asyncio: other coroutines run until the reply is there."""
        kind, record = self._one(message, fields)
        address = _address(address)
        name = self._types[kind].name
        reply, data = await self._async.ask(
            lambda: self._core.ask_begin(address, kind, record, 0.0),
            _seconds(timeout),
            f"ask {name} to address {address:#010x} was not answered within {timeout} s",
        )
        return np.frombuffer(data, self._types[reply].dtype)[0]  # type: ignore[no-any-return]

    def receive(self, *, timeout: float = 1.0) -> Received:
        """The next message that an actor sent to the host (`ctx.send(denizen::host, ...)`)."""
        kind, data, sender = self._core.receive(_seconds(timeout))
        dtype = self._types[kind].dtype
        return Received(self._types[kind].name, np.frombuffer(data, dtype)[0], sender)

    def receive_many(self, type: MessageType | str, count: int) -> tuple[Messages, Addresses]:
        """Messages of one type that have arrived, at most `count`, and their senders."""
        wanted = self._own(type)
        messages = np.empty(count, wanted.dtype)
        senders = np.empty(count, np.uint32)
        n = self._core.receive_many(
            self._ids[wanted.name], messages.view(np.uint8), wanted.dtype.itemsize, count, senders
        )
        return messages[:n], senders[:n]

    # ---- buffers

    def buffer(
        self, shape: int | Iterable[int], dtype: DTypeLike = np.float32, kind: str = "device"
    ) -> Buffer:
        """Memory that messages can refer to; its content is undefined.

        Args:
            shape: in elements.
            dtype: of the elements; native integers, floats, complex numbers or bool.
            kind: on a GPU "device" (from a stream-ordered pool), "pinned" (CPU memory that both
                reach) or "mapped" (GPU memory that the CPU can write). A program on CPU threads has
                ordinary memory for all of them.

        On a GPU the first buffer of a kind takes the program off the GPU for a moment, and so does
        one for which the pool has to grow (`pool_bytes`). ExhaustedError if there is no memory, or
        no entry in the table (`buffers`, 1024 by default).
        """
        return _buffers.make(self._native("buffers"), self._device, shape, dtype, kind)

    def wrap(self, tensor: Any) -> Buffer:
        """A buffer around memory that is there: messages refer to it, nothing is copied.

        Args:
            tensor: anything contiguous and writable with `__dlpack__` (PyTorch, CuPy, NumPy, JAX),
                `__cuda_array_interface__` or the buffer protocol (bytearray), on the GPU of the
                program, or in CPU memory for a program on CPU threads. It is kept until the buffer
                is closed and no message refers to it.
        """
        return _buffers.wrap(self._native("buffers"), self._device, tensor)

    def buffers(self) -> dict[str, int]:
        """Buffers that are open, closed ones that messages still refer to (waiting), and bytes.

        Frees those that nothing refers to any more; so do buffer(), wrap(), Buffer.close() and
        drain().
        """
        counts = _core.buffer_stats(self._native("buffers"))
        return dict(zip(("open", "waiting", "bytes"), counts, strict=True))

    def arena(self, node: int = 0) -> ArenaStats:
        """What handlers on a node have allocated by `ctx.arena()` (`arena_bytes`).

        ArgumentError if no actor of the program declares `allocates`.
        """
        from denizen.arena import ArenaStats  # noqa: PLC0415  (which knows devices from here)

        return ArenaStats(*_core.arena_stats(self._native("arenas"), node))

    def _native(self, what: str) -> _core.Runtime:
        """The core, for what the interpreter has not."""
        if not isinstance(self._core, _core.Runtime):
            raise ArgumentError(f'device="python" has no {what}; use device="cpu"')
        return self._core

    # ---- life of the program

    def drain(self, actor: None = None, *, timeout: float = 60.0) -> None:
        """Waits until nothing is under way: all that was sent, and all that it caused, is handled.

        Messages that other threads send meanwhile count too. This is about the whole program; what
        ends one actor so is `stop(actor, drain=True)`.
        """
        if actor is not None:
            raise ArgumentError(
                f"drain({actor!r}): drain() waits for the whole program; stop(actor, drain=True) "
                "ends one actor when it has handled what was sent, and a deadline is timeout=..."
            )
        self._core.drain(_seconds(timeout))

    def pause(self, actor: int | Whole = Whole.PROGRAM, *, timeout: float = 1.0) -> None:
        """Lets the messages of an actor wait until resume(actor), or those of all, until resume().

        An actor's messages wait in order, in its worker's store of stash_slots; when that is full,
        the worker takes no more from a ring whose first message is for such an actor, and what lies
        behind it waits too. restart(actor) ends the pause too. Done to a supervisor, this, resume,
        restart and stop reach all of its children.

        Without an actor the whole program stops handling; what is sent meanwhile waits in the
        rings.
        """
        if isinstance(actor, Whole):
            self._core.pause(_seconds(timeout))
        else:
            self._core.pause_actor(_address(actor), _seconds(timeout))

    def resume(self, actor: int | Whole = Whole.PROGRAM, *, timeout: float = 1.0) -> None:
        """Goes on: with an actor, or without one with the whole program, after pause().

        An actor goes on also after create() and after a failure, with the state as it is; what
        waited comes first.
        """
        if isinstance(actor, Whole):
            self._core.resume()
        else:
            self._core.resume_actor(_address(actor), _seconds(timeout))

    def park(self, *, timeout: float = 1.0) -> None:
        """Leaves the GPU now; the next send brings the program back. Nothing on the CPU."""
        self._core.park(_seconds(timeout))

    @property
    def parked(self) -> bool:
        """Whether the program has left the GPU for now."""
        return self._core.parked()

    def stats(self) -> dict[str, Any]:
        """Messages handled, stashed and dead, errors with the first one's text, launches.

        "incarnations": kernels that have been queued, where no kernel lasts (`breath_us`).
        "handover_ns": how long nobody was there between two of them, in ns: "count", "min", "mean"
        and "max"; "attempts" to hand over, "mean_asking" (until all workers had acknowledged, while
        all go on working) and "mean_leaving" (from the word to go until the last had come). Both of
        the first node.

        "sent_by_route": messages that actors sent, by the way they took: "worker" (to the same),
        "sm", "cluster", "gpu", "peer" (to another node), "host". A worker tells when it has nothing
        to do, so these are behind while it works.
        """
        return self._core.stats()

    def observe(self, on: bool) -> None:
        """Switches the measuring of handlers' durations on or off; off at first.

        When the call returns, every worker measures (or has stopped) except one that is in a
        handler of more than 0.1 s. Each `observe(True)` begins a new search for the slowest
        handlers; counts and histograms go on.
        """
        self._core.observe(on)

    def telemetry(self) -> Telemetry:
        """What all workers count, their queues and what they do, without stopping them."""
        return Telemetry.from_dict(self._core.telemetry())

    def serve_metrics(
        self,
        port: int = 0,
        address: str = "127.0.0.1",
        also: Sequence[Collector] = (),
        hosts: Sequence[str] = (),
    ) -> str:
        """Serves Prometheus metrics and what `denizen top` shows; returns the URL.

        Observes the program from now on (`observe(False)` ends that), and serves until close.

        Args:
            port: 0: any that is free.
            address: where to listen. The default can only be reached from this machine; what is
                served names the program, its actors and its messages, to whoever asks.
            also: Prometheus collectors to serve with it, which are called from another thread.
            hosts: names by which others ask for this machine, if they are neither its host name
                nor "localhost"; a request's Host that is no address must be one of these.

        Raises MissingPackageError without prometheus-client (`pip install prometheus-client`), and
        DenizenError if it is being served or the port is taken.
        """
        from denizen.metrics import Server  # noqa: PLC0415  (an optional dependency)

        if self._server is not None:
            raise ArgumentError(f"the metrics of this runtime are served at {self._server.url}")
        self.observe(True)
        self._server = Server(self, port, address, also, hosts)
        log.info("%s: metrics at %s", self.program.name, self._server.url)
        return self._server.url

    def stuck(self, at_least: float = 1.0) -> str:
        """The handler that has been running for longest, if longer than `at_least` seconds."""
        return self._core.stuck(_seconds(at_least))

    def close(self, *, timeout: float = 5.0) -> None:
        """Drains and stops. Raises StuckError if a handler does not return in time.

        In a forked child, whose every other call raises ClosedError, it does nothing.

        Coroutines that still wait in ask_async get ClosedError. A trace ends, and is written.
        """
        timeout = _seconds(timeout)
        if os.getpid() != self._process:  # threads, server and files are the parent's
            return
        try:
            if self._tracer is not None:
                self._tracer.end()
        finally:
            if self._server is not None:
                self._server.close()
                self._server = None
            self._async.close()
            if self._exchange is not None:
                self._exchange.end()
            if not self._closed:
                log.info("%s is closing", self.program.name)
            self._closed = True
            self._core.close(timeout)

    # ---- types

    def _actor(self, actor: str | ActorType) -> int:
        name = actor.name if isinstance(actor, ActorType) else actor
        if name not in self._actors:
            raise ArgumentError(
                f'the program has no actor "{name}"; it has {", ".join(self._actors)}'
            )
        return self._actors[name]

    def _own(self, given: MessageType | str) -> MessageType:
        """The program's message type of that name; one with other fields is refused."""
        if isinstance(given, str):
            if given not in self._ids:
                raise MessageError(
                    f'the program has no message "{given}"; it has {", ".join(self._ids)}'
                )
            return self._types[self._ids[given]]
        if not isinstance(given, MessageType):
            raise MessageError(f"{given!r} is no message type; use one of {', '.join(self._ids)}")
        return self._types[self._id_of(given.dtype)]

    def _one(
        self, message: np.void | Messages | str, fields: dict[str, Any]
    ) -> tuple[int, np.void | Messages]:
        if isinstance(message, str):
            own = self._own(message)
            return self._ids[own.name], own(**fields)
        if fields:
            raise ArgumentError("fields belong to a message given by its name")
        if not isinstance(message, np.void | np.ndarray):
            raise MessageError(_no_message(message))
        return self._id_of(message.dtype), message

    def _array(self, messages: Messages) -> tuple[int, Messages]:
        if not isinstance(messages, np.ndarray):
            raise MessageError(f"{messages!r} is no array of messages; give one, shape (n,)")
        if messages.ndim != 1:
            raise MessageError(f"messages have shape {messages.shape}; give one dimension")
        return self._id_of(messages.dtype), np.ascontiguousarray(messages)

    def _id_of(self, dtype: np.dtype[Any]) -> int:
        own = self._by_dtype.get(id(dtype))
        if own is not None:
            return own
        name = dtype.metadata.get(METADATA) if dtype.metadata else None
        if name in self._ids:
            # Defined anew with the same fields, it is the same message.
            own = self._ids[name]
            if dtype != self._types[own].dtype:
                raise MessageError(
                    f"this {name} is not the program's: it has {fields_of(dtype)}, the program's "
                    f"has {fields_of(self._types[own].dtype)}; make it with the program's type"
                )
            return own
        if name is not None:
            raise MessageError(
                f"{name} is no message of this program; it has {', '.join(self._ids)}"
            )
        same = [m.name for m in self._types if m.dtype == dtype]
        alike = [m for m in self._types if m.dtype.names == dtype.names]
        if not same and len(alike) == 1 and dtype.names:
            raise MessageError(
                f"the array has {fields_of(dtype)}, and {alike[0].name} has "
                f"{fields_of(alike[0].dtype)}: make it with {alike[0].name}.zeros() or its dtype"
            )
        if len(same) != 1:
            which = "the same for " + ", ".join(same) if same else "no message"
            raise MessageError(
                f"dtype {dtype} is {which} of this program; make the array with the message's own"
            )
        return self._ids[same[0]]


def _started(
    program: Program, where: Device, options: dict[str, int | str], quick: bool
) -> tuple[_core.Runtime, Exchange | None]:
    """The program, running; with what will give it other code, if it started quickly."""
    on_gpu = where.on_gpu

    def run(image: _core.Image) -> _core.Runtime:
        return _core.Runtime(image, on_gpu, where.first, options)

    if not quick:
        image = program.compile_gpu(capability(where)) if on_gpu else program.compile_cpu()
        return run(image), None
    image, background = start_of(program, capability(where))
    if background is None:
        return run(image), None
    try:
        core = run(image)
    except ArgumentError as error:
        # The quick code leaves room for any code. The optimised code may do with less.
        if "registers per thread" not in str(error):
            raise
        return run(program.compile_gpu(capability(where))), None
    return core, Exchange(core, program, background)


def _program_of(given: Program | ActorType | Sequence[ActorType]) -> Program:
    if isinstance(given, Program):
        return given
    actors = [given] if isinstance(given, ActorType | type | str) else list(given)
    return Program(actors=actors, name=" and ".join(getattr(a, "name", str(a)) for a in actors))


def _no_message(given: object) -> str:
    if isinstance(given, MessageType):
        return f"{given!r} is a type, not a message; call it: {given.name}(...)"
    return f"{given!r} is no message; call a message type, or use its array of records"


def _addresses(addresses: ArrayLike) -> Addresses:
    array = np.atleast_1d(np.asarray(addresses))
    if array.ndim != 1:
        raise ArgumentError(f"addresses have shape {array.shape}; give one dimension")
    if array.dtype != np.uint32 and array.size > 0:
        outside = array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= 2**32
        if outside:
            raise ArgumentError(
                f"these {array.dtype} are no addresses; use those that spawn() returned"
            )
    return np.ascontiguousarray(array, np.uint32)
