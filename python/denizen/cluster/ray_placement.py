# SPDX-License-Identifier: Apache-2.0
"""Hosts in Ray actors: placed, asked, and seen to die. Ray is imported when it is used."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from denizen.cluster import control
from denizen.cluster.child import LOOPBACK, given_by
from denizen.cluster.folder import Folder
from denizen.cluster.ray_host import RayHost, here
from denizen.device import parse_device
from denizen.errors import (
    ArgumentError,
    DeadlineError,
    ExhaustedError,
    HostLostError,
    MissingPackageError,
)

log = logging.getLogger(__name__)

STRATEGIES = ("SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK")

_PAUSE = 0.2  # between two attempts to start an actor
_DIES = 10.0  # seconds that Ray may take to end an actor that it is told to kill


@dataclass(frozen=True)
class RayPlacement:
    """Where Ray starts the hosts of a :class:`Cluster`: each but host 0 in an actor of its own.

    Args:
        strategy: of the placement group, as Ray's: "SPREAD", "PACK", "STRICT_SPREAD" or
            "STRICT_PACK".
        nodes: IDs of Ray's nodes, one for each host but host 0, instead of a placement group.
        resources: what each actor takes, as a bundle of a placement group (``{"CPU": 2}``). None:
            what its device says, a CPU for each thread of ``cpu:N``, or its GPU.
        address: of Ray's cluster, as ray.init() takes it, where the process is not connected to one
            yet. None: what ray.init() takes by itself.
    """

    strategy: str = "SPREAD"
    nodes: Sequence[str] = ()
    resources: Mapping[str, float] | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ArgumentError(f'strategy = "{self.strategy}"; use {", ".join(STRATEGIES)}')
        if isinstance(self.nodes, str):
            raise ArgumentError(f'nodes = "{self.nodes}"; give a list of node IDs')
        if self.resources is not None and not any(self.resources.values()):
            raise ArgumentError(
                f"resources = {self.resources}: Ray places what takes something; give "
                '{"CPU": 0.1}, or leave it out'
            )
        if self.address is not None and self.address.startswith("ray://"):
            raise ArgumentError(
                f'address = "{self.address}": host 0 is in this process, which has to be on a node '
                "of Ray's cluster; use its address without ray://, or run this as a Ray job"
            )

    def connect(self) -> Any:
        """The module ray, connected. MissingPackageError if it is not installed."""
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise MissingPackageError("Ray") from None
        if getattr(ray, "__file__", None) is None:  # a stray folder of that name, without a module
            raise MissingPackageError("Ray")
        if not ray.is_initialized():
            try:
                ray.init(address=self.address)
            except ConnectionError as error:
                raise ArgumentError(f'no Ray at address "{self.address}": {error}') from None
        return ray

    def check(self, hosts: int) -> None:
        """Before anything is started: that it is for so many hosts, and that there is Ray."""
        if self.nodes and len(self.nodes) != hosts - 1:
            raise ArgumentError(
                f"{len(self.nodes)} nodes for {hosts - 1} hosts; give one for each host but "
                "host 0, which is in this process"
            )
        self.connect()

    def other_nodes(self) -> list[str]:
        """All that live, without the one that this process is on."""
        ray = self.connect()
        own = ray.get_runtime_context().get_node_id()
        return [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeID"] != own]


class RayActors:
    """Starts hosts as actors where a placement says.

    Args:
        devices: of all hosts.
        transport, address: what the user has given. None or "auto": rings where Ray has placed all
            hosts on this machine, else what each two find, on the address of each one's node.
        end: time.monotonic() by which Ray has to have placed them.
    """

    def __init__(
        self,
        placement: RayPlacement,
        devices: Sequence[str],
        transport: str | None,
        address: str | None,
        end: float,
    ) -> None:
        others = len(devices) - 1
        self._ray = placement.connect()
        self._placement = placement
        self._bundles = [_bundle(d, placement.resources) for d in devices]
        self._group: Any = None
        self._started: set[int] = set()
        self._waiting: dict[int, tuple[Any, Any]] = {}  # actors, and where they are
        self._folder = Folder("cluster")
        self._word = secrets.token_hex(16)
        (self._folder.path / "word").write_text(self._word)
        try:
            if others > 0 and not placement.nodes:
                self._group = self._reserve(end)
            for number in range(1, len(devices)):
                self._waiting[number] = self._make(number)
            own = here(self._ray, same=True)
            places = {n: self._where(n, at, end) for n, (_, at) in self._waiting.items()}
            self._machine = own["machine"]
            away = [n for n, at in places.items() if at["machine"] != self._machine]
            self.one_machine = not away
            if away and transport == "rings":
                at = places[away[0]]["address"]
                raise ArgumentError(
                    'transport = "rings" is for hosts of one machine, and Ray has placed host '
                    f'{away[0]} on {at}; use "tcp", or leave it out'
                )
        except BaseException:
            self.close()
            raise
        self._address = address
        by_itself = "auto" if away else "rings"
        self.here: Mapping[str, Any] = {
            "transport": by_itself if transport in (None, "auto") else transport,
            "why": given_by(transport) or "Ray has placed all hosts on one machine",
            "address": self._listens(own),
            "folder": str(self._folder.path),
            "node": own["node"],
        }

    def start(
        self, number: int, given: Mapping[str, Any], program: bytes, token: bytes, end: float
    ) -> RayChild:
        again = number in self._started
        self._started.add(number)
        if again:
            with suppress(KeyError):  # one that did not come up
                self._ray.kill(self._waiting.pop(number)[0])
            self._waiting[number] = self._make(number)
        at = None
        while at is None:  # ends by where the actor is, or by `end`
            actor, asked = self._waiting[number]
            try:
                at = self._where(number, asked, end)
            except HostLostError as error:
                # Ray starts actors on a node that is gone until it knows.
                if not again or "node" not in str(error.__cause__) or time.monotonic() > end:
                    raise
                log.info("host %d once more: %s", number, error)
                time.sleep(_PAUSE)
                self._waiting[number] = self._make(number)
        del self._waiting[number]  # close() kills those that are still there
        if self.one_machine and at["machine"] != self._machine:
            self._ray.kill(actor)
            raise HostLostError(
                f"host {number} was lost: Ray has started it again on {at['address']}, and the "
                "links of this cluster are on one machine; restore all of it from its snapshot"
            )
        told = {**self.here, **given, "address": self._listens(at), "node": at["node"]}
        return RayChild(self._ray, actor, number, (told, program, token))

    def close(self) -> None:
        self._folder.close()
        with suppress(Exception):  # Ray may be shut down, and all of this with it
            for actor, _ in self._waiting.values():
                self._ray.kill(actor)
            if self._group is not None:
                self._ray.util.remove_placement_group(self._group)

    def _listens(self, at: Mapping[str, Any]) -> str:
        return self._address or (LOOPBACK if self.one_machine else str(at["address"]))

    def _reserve(self, end: float) -> Any:
        """A placement group with a bundle for each host but host 0."""
        bundles, strategy = self._bundles[1:], self._placement.strategy
        group = self._ray.util.placement_group(bundles, strategy=strategy)
        if not group.wait(max(end - time.monotonic(), 0.1)):
            has = self._resources()
            self._ray.util.remove_placement_group(group)
            raise ExhaustedError(
                f"Ray has not placed {len(bundles)} hosts of {bundles[0]} ({strategy}) in time "
                f"(start_timeout); it has {has} left. Use fewer hosts or resources, or another "
                "strategy"
            )
        return group

    def _make(self, number: int) -> tuple[Any, Any]:
        """The actor, and where it is once it runs."""
        of = import_module("ray.util.scheduling_strategies")
        if self._group is not None:
            where = of.PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=number - 1
            )
        else:  # one whose node is gone may be started elsewhere
            node, again = self._placement.nodes[number - 1], number in self._started
            where = of.NodeAffinitySchedulingStrategy(node, soft=again)
        other = {k: v for k, v in self._bundles[number].items() if k not in ("CPU", "GPU")}
        actor = (
            self._ray.remote(RayHost)
            .options(
                num_cpus=self._bundles[number].get("CPU", 0),
                num_gpus=self._bundles[number].get("GPU", 0),
                resources=other,
                scheduling_strategy=where,
                max_restarts=0,  # this one is started again from a snapshot: Processes.restart()
                max_concurrency=2,  # hold(), and one that is asked
            )
            .remote()
        )
        return actor, actor.where.remote(str(self._folder.path / "word"), self._word)

    def _where(self, number: int, asked: Any, end: float) -> dict[str, Any]:
        errors = self._ray.exceptions
        try:
            return dict(self._ray.get(asked, timeout=max(end - time.monotonic(), 0.1)))
        except errors.GetTimeoutError:
            raise DeadlineError(
                f"Ray has not started host {number}, of {self._bundles[number]}, in time; it has "
                f"{self._resources()} left"
            ) from None
        except errors.RayError as error:
            raise HostLostError(
                f"host {number} ended before it was up: {_reason(error)}"
            ) from error

    def _resources(self) -> dict[str, float]:
        left = self._ray.available_resources()
        return {k: v for k, v in left.items() if not k.startswith("node:")}


class RayChild:
    """A host in a Ray actor."""

    ends_within = 5.0

    def __init__(self, ray: Any, actor: Any, number: int, given: tuple[Any, ...]) -> None:
        self._ray, self._actor, self._number = ray, actor, number
        self._lock = threading.Lock()
        self._killed = False
        self._held = actor.hold.remote().future()
        # The token goes to the actor's process alone; arguments of a constructor are kept by Ray.
        self._up = actor.start.remote(*given)

    def hear(self, patience: float) -> dict[str, Any]:
        try:
            said = self._ray.get(self._up, timeout=patience)
        except self._ray.exceptions.RayActorError as error:
            raise HostLostError(
                f"host {self._number} ended before it was up: {_reason(error)}"
            ) from error
        return dict(control.result(said, self._number))

    def call(
        self, method: str, patience: float, lost: Callable[[], str | None], /, **given: Any
    ) -> Any:
        with self._lock:
            # The host keeps the deadline; this one is for a host that does not.
            end = time.monotonic() + patience + 5.0
            asked = self._actor.answer.remote(method, given)
            while not self._ray.wait([asked], timeout=0.05)[0]:  # ends: by its answer, its loss
                if why := lost():
                    raise HostLostError(why)
                if time.monotonic() > end:
                    raise DeadlineError(
                        f"host {self._number} has not answered {method} within "
                        f"{patience + 5.0:.3g} s"
                    )
            try:
                answer = self._ray.get(asked)
            except self._ray.exceptions.RayError as error:
                why = f"host {self._number} was lost: its Ray actor has died ({_reason(error)})"
                raise HostLostError(why) from error
        return control.result(answer, self._number)

    def ended(self, patience: float = 0.0) -> str | None:
        if not self._ray.is_initialized():
            return "Ray was shut down in the cluster's process"
        try:
            self._held.result(patience)
        except NotYet:
            return None
        except Exception as error:  # whatever Ray says, it has none any more
            return f"its Ray actor has died ({_reason(error)})"
        return "its Ray actor was told to end"

    def close(self) -> None:
        with suppress(Exception):  # Ray may be shut down
            self._actor.end.remote()

    def kill(self) -> str:
        if not self._killed:
            self._killed = True
            with suppress(Exception):  # Ray may be shut down
                self._ray.kill(self._actor)
        return self.ended(_DIES) or "Ray was told to kill its actor"


def _bundle(device: str, given: Mapping[str, float] | None) -> dict[str, float]:
    """What an actor of this device takes."""
    if given is not None:
        return dict(given)
    where = parse_device(device)
    return {"GPU": where.nodes} if where.on_gpu else {"CPU": where.nodes * (where.threads or 1)}


def _reason(error: BaseException) -> str:
    """Of what Ray says, the sentence that tells why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("The actor") and " because " in line]
    return (told or lines or [type(error).__name__])[0].split(". ")[0][:200].rstrip(".")
