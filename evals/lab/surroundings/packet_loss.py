"""Random packet loss at a port, by whichever way the kernel and the installed programs permit."""

from __future__ import annotations

from dataclasses import dataclass

from evals.lab.surroundings.commands import SurroundingError, not_installed, run
from evals.lab.surroundings.namespaces import Port

# Classic BPF: load a random word (the ancillary field at offset -4096 + 56); above the limit accept, else drop.
LOAD_RANDOM = f"32 0 0 {2**32 - 4096 + 56}"
TC_ACT_OK, TC_ACT_SHOT = 0, 2


@dataclass(frozen=True)
class Way:
    """One way to lose packets that arrive at a port."""

    name: str
    needs: str  # program
    commands: tuple[tuple[str, ...], ...]


def lose(port: Port, loss_pct: float) -> str:
    """Drop that share of the packets arriving at ``port``; gives the name of the way that worked.

    Raises SurroundingError with each way's complaint when none does.
    """
    complaints: list[str] = []
    for way in ways(port, loss_pct / 100):
        complaint = not_installed(way.needs) or _complaint(way)
        if not complaint:
            return way.name
        complaints.append(f"{way.name}: {complaint}")
    raise SurroundingError(f"packets cannot be lost at random here ({'; '.join(complaints)})")


def ways(port: Port, share: float) -> tuple[Way, ...]:
    """In order of preference. All act on arrival, so that the sender learns of a loss as from a real network."""
    inside = ("ip", "netns", "exec", port.namespace)
    tc = ("tc", "-n", port.namespace)
    ingress = (*tc, "qdisc", "replace", "dev", port.interface, "clsact")
    limit = round(share * (2**32 - 1))
    program = f"4,{LOAD_RANDOM},37 0 1 {limit},6 0 0 {TC_ACT_OK},6 0 0 {TC_ACT_SHOT}"
    at_ingress = (*tc, "filter", "add", "dev", port.interface, "ingress")
    return (
        Way("tc bpf", "tc", (ingress, (*at_ingress, "bpf", "direct-action", "bytecode", program))),
        Way("iptables", "iptables", ((*inside, *_iptables(port, share)),)),
        Way("nftables", "nft", _nftables(inside, port, share)),
    )


def _iptables(port: Port, share: float) -> tuple[str, ...]:
    return (
        *("iptables", "-A", "INPUT", "-i", port.interface, "-m", "statistic", "--mode", "random"),
        *("--probability", f"{share:.6f}", "-j", "DROP"),
    )


def _nftables(inside: tuple[str, ...], port: Port, share: float) -> tuple[tuple[str, ...], ...]:
    nft = (*inside, "nft", "add")
    hook = f"{{ type filter hook ingress device {port.interface} priority 0 ; }}"
    one_in = round(1 / share)
    return (
        (*nft, "table", "netdev", "lab"),
        (*nft, "chain", "netdev", "lab", "arriving", hook),
        (*nft, "rule", "netdev", "lab", "arriving", "numgen", "random", "mod", str(one_in), "0", "drop"),
    )


def _complaint(way: Way) -> str:
    try:
        for command in way.commands:
            run(*command)
    except SurroundingError as error:
        return str(error)
    return ""
