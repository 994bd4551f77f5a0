# SPDX-License-Identifier: Apache-2.0
"""The runtime: a program that runs on a GPU or on CPU threads, and how to talk to it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike

from denizen import _core
from denizen import buffer as _buffers
from denizen.actor import ActorType
from denizen.buffer import Buffer
from denizen.closing import Closing
from denizen.device import breath_of, parse_device
from denizen.errors import ArgumentError
from denizen.life import Lives
from denizen.messaging import Messaging
from denizen.program import Program
from denizen.quick import Exchange, Optimise, chosen
from denizen.replies import AsyncReplies
from denizen.shown import html_table
from denizen.snapshot import Path, Snapshots, file_name
from denizen.starting import options_of, program_of, started
from denizen.telemetry import Telemetry
from denizen.topic import Topics
from denizen.tracing import Tracer, Traces, slots
from denizen.values import address as _address
from denizen.values import flag as _flag
from denizen.values import seconds as _seconds
from denizen.values import whole as _whole

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from denizen.arena import ArenaStats
    from denizen.metrics import Server

log = logging.getLogger(__name__)


class Whole(Enum):
    """In place of an actor: all of them. Not None, which an actor's variable may be by mistake."""

    PROGRAM = "the whole program"


class Runtime(Messaging, Lives, Topics, Snapshots, Traces, Closing):
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
        partition: GPU: so many SMs are the program's partition (a green context): it runs on these
            and no others, and no program of this process with another partition does. A multiple
            of what the GPU is partitioned by, 8 with compute capability 9.0; needs a driver of
            CUDA 12.5. `sms` is all of them by default, and not more. Kernels of programs without a
            partition may run there. See docs/gpu-sharing.md. On CPU threads it means nothing.
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
            "wait": start with the optimised code. None: as $DENIZEN_OPTIMISE says, or "background".
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
        partition: int | None = None,
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
        program = program_of(program)
        where = parse_device(device)
        threads = where.threads
        if threads is not None and workers not in (None, threads):
            raise ArgumentError(f'device "{device}" and workers = {workers}; give one of the two')
        options: dict[str, int | str] = options_of(
            {
                "nodes": where.nodes,
                "workers": threads if workers is None else workers,
                "sms": sms,
                "partition": partition,
                "cluster": cluster,
                "idle_ms": idle_ms,
            },
            slots(trace, sizes),
        )
        if (breath := breath_of(breath_us)) is not None:
            options["breath_us"] = breath
        options["mapped"] = _flag("mapped", mapped)
        options["prefer_l1"] = _flag("prefer_l1", prefer_l1)
        if _place is not None:  # a host's number in its cluster, and how many there are
            if where.interpreted:
                raise ArgumentError('device="python" is of no cluster; use device="cpu"')
            options["host"], options["hosts"] = _place
        if restore is not None:
            options["restore"] = file_name("restore", restore)
        gpu = where.on_gpu
        self.program = program
        self._device = (2, where.first) if gpu else (1, 0)  # as DLPack names it
        self.gpu = where.first if gpu else None  # as CUDA counts them
        self._server: Server | None = None
        self._tracer: Tracer | None = None
        self._closed = False
        self._know(program)
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
            self._core, self._exchange = started(program, where, options, quick)
        self._process = os.getpid()
        if log.isEnabledFor(logging.INFO):
            about = self._core.description
            log.info(
                "%s runs on %s, %d workers, started in %.0f ms%s",
                program.name,
                about["device"],
                about["workers"],
                about["start_ms"],
                f", from {options['restore']}" if restore is not None else "",
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
        runs that was compiled for a quick start (`optimise`), and "why_quick" until when, or why it
        stays so.
        """
        one = self._exchange
        code, why = ("optimised", "") if one is None else (one.code, one.why_quick)
        return {**self._core.description, "code": code, "why_quick": why}

    # ---- buffers

    def buffer(
        self, shape: int | Iterable[int], dtype: DTypeLike = np.float32, kind: str = "device"
    ) -> Buffer:
        """Memory that messages can refer to; its content is undefined.

        Args:
            shape: in elements.
            dtype: of the elements; native integers, floats, complex numbers or bool.
            kind: on a GPU "device" (from a stream-ordered pool), "pinned" (CPU memory that both
                reach) or "mapped" (GPU memory that the CPU can write; of programs on one GPU). A
                program on CPU threads has ordinary memory for all of them.

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
        all go on working), "mean_leaving" (from the word to go until the last had come) and
        "mean_carrying" (in which workers put down and took up what lies in shared memory). Both of
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
        port = _whole("port", port, 65535)
        from denizen.metrics import Server  # noqa: PLC0415  (an optional dependency)

        if self._server is not None:
            raise ArgumentError(f"the metrics of this runtime are served at {self._server.url}")
        self.observe(True)
        self._server = Server(self, port, address, also, hosts)
        log.info("%s: metrics at %s", self.program.name, self._server.url)
        return self._server.url

    def stuck(self, at_least: float = 1.0) -> str:
        """The handler that has been running for longest, if longer than `at_least` seconds.

        Else the workers that have kept a breath from ending for as long, at least a tenth of a
        second and at most one, for which this call waits. Else "".
        """
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
