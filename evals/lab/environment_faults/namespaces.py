"""Hosts made of network namespaces, and cables between them made of veth pairs."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from evals.lab.environment_faults.commands import EnvironmentFaultError, run
from evals.lab.environment_faults.leftovers import NAME, is_abandoned, mark

EMPTY_LIMIT_S = 3.0
POLL_S = 0.02
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
    remove_abandoned()
    name = f"{mark()}{next(_serial)}-{role}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        remove(name)


def remove(name: str) -> None:
    """Kill what runs in the namespace and delete it; its interfaces go with it."""
    deadline = time.monotonic() + EMPTY_LIMIT_S
    while (pids := run("ip", "netns", "pids", name).split()) and time.monotonic() < deadline:
        for pid in map(int, pids):
            if pid <= 1:
                raise EnvironmentFaultError(
                    f"the network namespace {name} holds processes that are not the lab's; remove it"
                )
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
    run("ip", "netns", "del", name)


def remove_abandoned() -> None:
    """Remove namespaces left by a lab process that was killed before it could."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.strip() else ""
        if name.startswith(f"{NAME}-") and is_abandoned(name):
            remove(name)


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
    """How many packets pass the cable as one piece: as many as the rate lets through in FRAME_S.

    One by one they would cost the hosts so much processor time that a slow cable slowed the computing too; 64 kilobytes
    at once, which a veth pair passes by itself, would come in lumps on a slow one.
    """
    return min(MOST_PACKETS, max(1, int(rate_mbit * 1e6 / 8 * FRAME_S / PACKET_BYTES)))


def address(port: Port, cidr: str) -> None:
    """Give the port an address such as 10.77.0.1/24."""
    run("ip", "-n", port.namespace, "address", "add", cidr, "dev", port.interface)


def switch(name: str, interfaces: tuple[str, ...]) -> None:
    """Make one switch of the interfaces of the namespace ``name``."""
    bridge = f"switch-{interfaces[0]}"[:15]
    run("ip", "-n", name, "link", "add", bridge, "type", "bridge")
    for interface in interfaces:
        run("ip", "-n", name, "link", "set", interface, "master", bridge)
    run("ip", "-n", name, "link", "set", bridge, "up")


def _limit_rate(port: Port, rate_mbit: float) -> None:
    """Let the port send no more than its rate, with a queue of QUEUE_MS before it drops."""
    burst = max(SPARE_BYTES + packets_a_frame(rate_mbit) * PACKET_BYTES, round(rate_mbit * 1e6 / 8 * BURST_S))
    run(
        *("tc", "-n", port.namespace, "qdisc", "replace", "dev", port.interface, "root", "tbf"),
        *("rate", f"{round(rate_mbit * 1e3)}kbit", "burst", str(burst), "latency", f"{QUEUE_MS}ms"),
    )


def counters(name: str) -> dict[str, int]:
    """The TCP counters of a namespace, as in /proc/net/snmp: OutSegs, RetransSegs and so on."""
    lines = run("ip", "netns", "exec", name, "cat", "/proc/net/snmp").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("Tcp:"))
    return dict(zip(names, map(int, values), strict=True))
