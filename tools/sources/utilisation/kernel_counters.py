"""Counters of the kernel and its drivers: nstat, netstat -s, pressure stall information, RDMA and ethtool counters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

NSTAT_HEAD = re.compile(r"#\s*kernel\s*\Z")
NSTAT = re.compile(r"(?P<name>[A-Z][A-Za-z0-9]{2,60})\s+(?P<value>\d{1,20})\s+(?:[\d.]+|-)\s*\Z")
NSTAT_NAMES = {"TcpOutSegs": "tcp_sent_segments", "TcpRetransSegs": "tcp_retransmitted_segments"}
NETSTAT = re.compile(r"\s+(\d{1,20}) (segments? sent out|segments? retransmitt?ed)\s*\Z")
PRESSURE = re.compile(
    r"(?:.{0,60}?pressure[/_.](?P<which>cpu|io|memory)\S*\s*:?\s*)?(?P<kind>some|full) avg10=(?P<value>\d{1,3}\.\d\d)"
    r" avg60=\d{1,3}\.\d\d avg300=\d{1,3}\.\d\d total=\d{1,20}\s*\Z"
)
PRESSURE_FILE = re.compile(r".{0,20}?/proc/pressure/(cpu|io|memory)|.{0,20}?\b(?:cpu|io|memory)\.pressure\b")
CGROUP_FILE = re.compile(r"\b(cpu|io|memory)\.pressure\b")
NO_RESOURCE = "lines of pressure stall information do not say of what; print them with `grep . /proc/pressure/*`"
RDMA = re.compile(r"link (?P<link>[a-z0-9_\-]{2,32}/\d{1,3}) (?P<rest>(?:[a-z0-9_]+ \d{1,20}(?: +|\Z))+)\Z")
SYSFS = re.compile(
    r".{0,40}?/infiniband/([a-z0-9_\-]{2,32})/ports/(\d{1,3})/(?:hw_)?counters/([A-Za-z0-9_]+):(\d{1,20})\s*\Z"
)
ETHTOOL_HEAD = re.compile(r"\s*NIC statistics(?: for (\S{1,32}))?:\s*\Z")
ETHTOOL = re.compile(r"\s+([A-Za-z0-9_\-\[\]. ]{3,60}?): (\d{1,20})\s*\Z")
ADAPTER = {
    **dict.fromkeys(("out_of_sequence", "packet_seq_err"), "rdma_out_of_sequence"),
    **dict.fromkeys(("local_ack_timeout_err", "retry_exceeded_err", "roce_adp_retrans_to"), "rdma_timeouts"),
    **dict.fromkeys(("roce_adp_retrans", "rnr_nak_retry_err", "tx_retransmits", "retransmits"), "rdma_retransmissions"),
    **dict.fromkeys(("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets"), "rdma_congestion_notices"),
    "out_of_buffer": "interface_dropped",
    **dict.fromkeys(("resp_cqe_error", "req_cqe_error"), "rdma_completion_errors"),  # those that were flushed included
    "symbol_error": "link_symbol_errors",
    "link_downed": "link_downed",
}
PAUSE = re.compile(r"(rx|tx)_(?:prio\d_|global_|)pause(?:_ctrl_phy|_phy)?\Z|(rx|tx)_(?:ppp|pfc)\w{0,20}\Z")
# What an adapter has no buffer for is missed, and lost like what the kernel drops.
DROPPED = re.compile(r"(?:rx|tx)_(?:discards|dropped|out_of_buffer|drops|missed_errors|fifo_errors)(?:_phy)?\Z")
ERRORS = re.compile(r"(?:rx|tx)_(?:errors|crc_errors|symbol_err)(?:_phy)?\Z")


@dataclass
class KernelCounters:
    """Listings one after the other; a counter that appears again begins the next reading."""

    readings: Readings = field(default_factory=lambda: Readings("kernel counters"))
    kind: str = ""
    resource: str = ""
    interface: str = ""
    tick: int = 0
    seen: set[tuple[str, str]] = field(default_factory=set)
    sums: dict[str, float] = field(default_factory=dict)
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A head, or a line that is known by itself."""
        self.at = at
        if NSTAT_HEAD.match(text):
            self.kind, self.readings.tool = "nstat", "nstat"
            return True
        if match := ETHTOOL_HEAD.match(text):
            self.kind, self.interface, self.readings.tool = "ethtool", match[1] or "", "ethtool"
            return True
        if PRESSURE_FILE.match(text) and not PRESSURE.match(text):
            found = CGROUP_FILE.search(text) or PRESSURE_FILE.match(text)
            self.kind, self.resource = "pressure", (found[1] or "") if found else ""
            return True
        return self._known(line, text)

    def takes(self, line: int, text: str) -> bool:
        """A line of the present listing."""
        if not text.strip():
            return True
        if self._known(line, text):
            return True
        if self.kind == "nstat" and (match := NSTAT.match(text)):
            if counter := NSTAT_NAMES.get(match["name"]):
                self._add(counter, float(match["value"]), line, "")
            return True
        if self.kind == "ethtool" and (match := ETHTOOL.match(text)):
            self._interface(line, match[1].strip(), float(match[2]))
            return True
        return False

    def _known(self, line: int, text: str) -> bool:
        """Lines that say by themselves what they are."""
        if match := PRESSURE.match(text):
            self._pressure(line, match)
        elif match := RDMA.match(text.strip()):
            self._adapter(line, match)
        elif match := SYSFS.match(text):
            self._adapter_counter(line, f"{match[1]}/{match[2]}", match[3], float(match[4]))
        elif match := NETSTAT.match(text):
            sent = match[2].endswith("sent out")
            self._add("tcp_sent_segments" if sent else "tcp_retransmitted_segments", float(match[1]), line, "")
        else:
            return False
        return True

    def _pressure(self, line: int, match: re.Match[str]) -> None:
        which = match["which"] or self.resource
        self.readings.tool = "pressure stall information"
        if not which:
            self.readings.remark = NO_RESOURCE
            return
        self.kind, self.resource = "pressure", which
        self._add(f"pressure_{which}_{match['kind']}_pct", float(match["value"]), line, "")

    def _adapter(self, line: int, match: re.Match[str]) -> None:
        words = match["rest"].split()
        self.readings.tool = "rdma statistic"
        totals: dict[str, float] = {}
        for name, value in zip(words[::2], words[1::2], strict=True):
            if counter := ADAPTER.get(name):
                totals[counter] = totals.get(counter, 0.0) + float(value)
        for counter, total in totals.items():
            self._add(counter, total, line, match["link"])

    def _adapter_counter(self, line: int, link: str, name: str, value: float) -> None:
        """One file of the adapter; several that make one counter stay apart."""
        if counter := ADAPTER.get(name):
            self._add(counter, value, line, f"{link} {name}")

    def _interface(self, line: int, name: str, value: float) -> None:
        counter = ""
        if match := PAUSE.match(name):
            counter = "pause_frames_received" if (match[1] or match[2]) == "rx" else "pause_frames_sent"
        elif DROPPED.match(name):
            counter = "interface_dropped"
        elif ERRORS.match(name):
            counter = "interface_errors"
        if counter:
            self._add(counter, value, line, f"{self.interface} {name}".strip())

    def _add(self, counter: str, value: float, line: int, part: str) -> None:
        if (counter, part) in self.seen:
            self.tick += 1
            self.seen = set()
        self.seen.add((counter, part))
        self.readings.add(counter, value, line, tick=self.tick, at=self.at, part=part)
