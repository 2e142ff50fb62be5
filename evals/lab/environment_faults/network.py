"""Ranks on hosts of their own: network namespaces joined by veth pairs whose rate, loss and other users are known."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.lab.environment_faults.placement import (
    EnvironmentFaultError,
    Placement,
    background,
    entering,
    is_abandoned,
    kill_members,
    mark,
    run,
)

QUEUE_MS = 25  # what a switch port buffers
BURST_S = 0.0008  # tokens a shaper saves up; less does not reach the rate with the kernel's timers
PACKET_BYTES = 1514
MOST_PACKETS = 43
FRAME_S = 0.0005
SPARE_BYTES = 3_000
_serial = itertools.count()


@dataclass(frozen=True)
class Port:
    """One end of a cable."""

    namespace: str
    interface: str


@contextmanager
def namespace(role: str) -> Iterator[str]:
    """A new network namespace with ``lo`` up; its name. At the end its processes are killed and it is removed."""
    for line in run("ip", "netns", "list").splitlines():
        if is_abandoned(left := line.partition(" ")[0]):
            remove(left)  # by a lab process that was killed before it could
    name = f"{mark()}{next(_serial)}-{role}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        remove(name)


def remove(name: str) -> None:
    """Kill what runs in the namespace and delete it; its interfaces go with it."""
    kill_members(f"network namespace {name}", lambda: [int(pid) for pid in run("ip", "netns", "pids", name).split()])
    run("ip", "netns", "del", name)


def join(one: Port, other: Port, rate_mbit: float) -> None:
    """Lay a cable of that rate between two ports; both come up, without an address."""
    run(
        *("ip", "link", "add", one.interface, "netns", one.namespace, "type", "veth"),
        *("peer", "name", other.interface, "netns", other.namespace),
    )
    frame = ("gso_max_segs", str(packets_a_frame(rate_mbit)))
    for port in (one, other):
        run("ip", "-n", port.namespace, "link", "set", "dev", port.interface, *frame, "up")
        _limit_rate(port, rate_mbit)


def packets_a_frame(rate_mbit: float) -> int:
    """Packets that pass the cable as one piece: as many as the rate lets through in FRAME_S.

    One by one they would cost the hosts so much processor time that a slow cable slowed the computing too; 64 kilobytes
    at once, which a veth pair passes by itself, would come in lumps on a slow one.
    """
    return min(MOST_PACKETS, max(1, int(rate_mbit * 1e6 / 8 * FRAME_S / PACKET_BYTES)))


def _limit_rate(port: Port, rate_mbit: float) -> None:
    """Let the port send no more than its rate, with a queue of QUEUE_MS before it drops."""
    burst = max(SPARE_BYTES + packets_a_frame(rate_mbit) * PACKET_BYTES, round(rate_mbit * 1e6 / 8 * BURST_S))
    run(
        *("tc", "-n", port.namespace, "qdisc", "replace", "dev", port.interface, "root", "tbf"),
        *("rate", f"{round(rate_mbit * 1e3)}kbit", "burst", str(burst), "latency", f"{QUEUE_MS}ms"),
    )


# Classic BPF: load a random word (the ancillary field at offset -4096 + 56); above the limit accept, else drop.
LOAD_RANDOM = f"32 0 0 {2**32 - 4096 + 56}"
TC_ACT_OK, TC_ACT_SHOT = 0, 2


def lose(port: Port, loss_pct: float) -> None:
    """Drop that share of the packets arriving at ``port``, so that the sender learns of a loss as from a real network.

    Raises EnvironmentFaultError where the kernel does not permit a classic BPF filter at ingress.
    """
    limit = round(loss_pct / 100 * (2**32 - 1))
    program = f"4,{LOAD_RANDOM},37 0 1 {limit},6 0 0 {TC_ACT_OK},6 0 0 {TC_ACT_SHOT}"
    tc = ("tc", "-n", port.namespace)
    run(*tc, "qdisc", "replace", "dev", port.interface, "clsact")
    bpf = ("bpf", "direct-action", "bytecode", program)
    run(*tc, "filter", "add", "dev", port.interface, "ingress", *bpf)


Chosen = Literal["fast", "slow"]
FAST_INTERFACE, SLOW_INTERFACE = "eth0", "eth1"
MASTER_PORT = 29500
TRAFFIC_PORT = 7011


@dataclass(frozen=True)
class LinkedHosts:
    """Every rank is a host: a network namespace and a host name of its own. Two hosts share a cable, more a switch.

    ``slow_rate_mbit`` lays a second network of that rate; ``use`` names the one that the training uses.
    ``slow_host`` has a worse cable than the others: its rate on the first network is ``slow_host_rate_mbit``.
    """

    rate_mbit: float  # of the first network, each direction
    slow_rate_mbit: float | None = None
    use: Chosen = "fast"
    loss_pct: float = 0.0  # of what arrives at a host, on every network
    other_traffic_mbit: float = 0.0  # what another job pushes between hosts 0 and 1 on the used network, each direction
    slow_host: int | None = None
    slow_host_rate_mbit: float | None = None

    def missing(self) -> str:
        if absent := [program for program in ("ip", "tc") if shutil.which(program) is None]:
            return f"{' and '.join(absent)} not installed"
        try:
            with self._hosts(max(2, (self.slow_host or 0) + 1)):
                return ""
        except EnvironmentFaultError as error:
            return f"network namespaces with shaped links are not permitted here ({error})"

    @property
    def interface(self) -> str:
        """The interface the training is configured to use."""
        return SLOW_INTERFACE if self.use == "slow" else FAST_INTERFACE

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with self._hosts(ranks) as hosts, self._other_job(hosts):
            yield tuple(self._placement(rank, host) for rank, host in enumerate(hosts))

    def _placement(self, rank: int, host: str) -> Placement:
        environment = {
            "GLOO_SOCKET_IFNAME": self.interface,
            "NCCL_SOCKET_IFNAME": self.interface,
            "MASTER_ADDR": host_address(self.use, 0),
            "MASTER_PORT": str(MASTER_PORT),
        }
        return Placement(("ip", "netns", "exec", host, *entering("--host", f"node-{rank}")), environment)

    @contextmanager
    def _hosts(self, ranks: int) -> Iterator[list[str]]:
        """The namespaces, linked as asked."""
        if self.use == "slow" and self.slow_rate_mbit is None:
            raise EnvironmentFaultError("the slow network is to be used, but slow_rate_mbit gives it no rate")
        with ExitStack() as stack:
            hosts = [stack.enter_context(namespace(f"host{rank}")) for rank in range(ranks)]
            middle = stack.enter_context(namespace("switch")) if ranks > 2 else None
            self._network(hosts, middle, "fast", self.rate_mbit)
            if self.slow_rate_mbit is not None:
                self._network(hosts, middle, "slow", self.slow_rate_mbit)
            yield hosts

    def _network(self, hosts: Sequence[str], middle: str | None, kind: Chosen, rate_mbit: float) -> None:
        """Lay one network between all hosts."""
        interface = FAST_INTERFACE if kind == "fast" else SLOW_INTERFACE
        ports = [Port(host, interface) for host in hosts]
        cables = _cables(ports, middle)
        for cable in cables:
            join(*cable, min(self._rate(port, hosts, kind, rate_mbit) for port in cable))
        for rank, port in enumerate(ports):
            own = f"{host_address(kind, rank)}/24"
            run("ip", "-n", port.namespace, "address", "add", own, "dev", port.interface)
        if middle is not None:
            bridge = f"switch-{cables[0][1].interface}"[:15]
            run("ip", "-n", middle, "link", "add", bridge, "type", "bridge")
            for _, far in cables:
                run("ip", "-n", middle, "link", "set", far.interface, "master", bridge)
            run("ip", "-n", middle, "link", "set", bridge, "up")
        for port in ports if self.loss_pct else ():
            lose(port, self.loss_pct)

    def _rate(self, port: Port, hosts: Sequence[str], kind: Chosen, rate_mbit: float) -> float:
        slow = self.slow_host is not None and kind == "fast" and port.namespace == hosts[self.slow_host]
        return self.slow_host_rate_mbit if slow and self.slow_host_rate_mbit is not None else rate_mbit

    @contextmanager
    def _other_job(self, hosts: Sequence[str]) -> Iterator[None]:
        with ExitStack() as stack:
            if self.other_traffic_mbit:
                for own, other in ((0, 1), (1, 0)):
                    arguments = (host_address(self.use, own), host_address(self.use, other), str(TRAFFIC_PORT))
                    inside = ("ip", "netns", "exec", hosts[own])
                    stack.enter_context(background("traffic", *arguments, str(self.other_traffic_mbit), prefix=inside))
            yield


def host_address(kind: Chosen, rank: int) -> str:
    """The address of a rank's host on the first or the second network."""
    return f"10.77.{0 if kind == 'fast' else 1}.{rank + 1}"


def _cables(ports: Sequence[Port], middle: str | None) -> list[tuple[Port, Port]]:
    if middle is None:
        return [(ports[0], ports[1])] if len(ports) == 2 else []
    return [(port, Port(middle, f"{port.interface}-{rank}")) for rank, port in enumerate(ports)]
