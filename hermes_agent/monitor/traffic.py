"""What went over the machine's networks, and how much of it twice."""

from __future__ import annotations

from pathlib import Path

from hermes_agent.monitor.kernel import Read, read_text, whole_number

PROC = "/proc"
INFINIBAND = Path("/sys/class/infiniband")
MOST_COUNTERS = 32
# A NAK received, or no answer in time: the sender has to send again. Other vendors name it retransmission.
SENT_AGAIN = frozenset({"packet_seq_err", "local_ack_timeout_err"})
Sample = dict[str, int | float]


def network_sample(proc: str = PROC, read: Read = read_text) -> Sample:
    """Bytes sent and received by all interfaces but the loopback, the loopback's, and TCP segments sent again."""
    sample: Sample = {}
    for line in read(f"{proc}/net/dev").splitlines()[2:]:
        name, _, counters = line.partition(":")
        words = counters.split()
        received, sent = (whole_number(words[at]) if len(words) > 8 else None for at in (0, 8))
        if received is None or sent is None:
            continue
        if name.strip() == "lo":
            sample["lo_sent_bytes"] = sent
        else:
            sample["net_sent_bytes"] = sample.get("net_sent_bytes", 0) + sent
            sample["net_received_bytes"] = sample.get("net_received_bytes", 0) + received
    return sample | _segments(read(f"{proc}/net/snmp"))


def _segments(text: str) -> Sample:
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) != 2:
        return {}
    named = dict(zip(*lines, strict=False))
    known = {"OutSegs": "tcp_sent_segments", "RetransSegs": "tcp_retransmitted_segments"}
    numbers = {name: whole_number(named.get(key, "")) for key, name in known.items()}
    return {name: number for name, number in numbers.items() if number is not None}


class RdmaWatch:
    """Retransmissions that the machine's RDMA devices count; which counters there are is looked up once."""

    def __init__(self, devices: Path = INFINIBAND) -> None:
        try:
            files = sorted(devices.glob("*/ports/*/hw_counters/*"))
        except OSError:
            files = []
        self._files = [file for file in files if _counts_retransmits(file.name)][:MOST_COUNTERS]

    def sample(self) -> Sample:
        """Their sum, nothing where there is no such counter."""
        values = [whole_number(read_text(file).strip()) for file in self._files]
        known = [value for value in values if value is not None]
        return {"rdma_retransmits": sum(known)} if known else {}


def _counts_retransmits(name: str) -> bool:
    lower = name.lower()
    return lower in SENT_AGAIN or ("retrans" in lower and "bytes" not in lower)
