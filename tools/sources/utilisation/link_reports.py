"""What tools print of links: nvidia-smi topo -m, p2pBandwidthLatencyTest, perftest (ib_write_bw), ibstat, perfquery.

Each prints a state or a test of one moment: nothing of it is sampled while a training runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

GB, MIB, GBIT = 1e9, float(1 << 20), 1e9 / 8
NUMBER = r"\d{1,9}(?:\.\d{1,6})?"
TOPOLOGY = re.compile(r"\s*(?:GPU\d{1,3}\s+)+(?:\S.*)?(?:CPU Affinity|NIC\d|mlx5_\d|GPU\d{1,3}\s*\Z)")
PLACED = re.compile(r"(?:GPU|NIC)\d{1,3}\Z|mlx\d_\w{1,20}\Z")
PATHS = re.compile(r"(?:X|SYS|NODE|PHB|PXB|PIX|NV\d{1,3})\Z")
MATRIX = re.compile(
    r"(?:(Unidirectional|Bidirectional) )?P2P=(Enabled|Disabled)\s+(Bandwidth|Latency)\b(.{0,40}?)Matrix \((GB/s|us)\)"
)
MATRIX_HEAD = re.compile(r"\s*(?:D\\D|GPU|CPU)(?:\s+\d{1,3})+\s*\Z")
MATRIX_ROW = re.compile(rf"\s*(\d{{1,3}})((?:\s+{NUMBER})+)\s*\Z")
PERFTEST = re.compile(
    r"\s*((?:RDMA_)?(?:Write|Read|Send|Atomic)\w{0,16}(?: Bidirectional)?) (BW|Latency)(?: Post List)? Test\s*\Z"
)
PERFTEST_HEAD = re.compile(r"\s*#bytes\s+#iterations\s+(\S.*)")
PERFTEST_DEVICE = re.compile(r"\bDevice\s*:\s*(\S{1,32})")
PERFTEST_ROW = re.compile(rf"\s*(\d{{1,12}})\s+\d{{1,12}}((?:\s+{NUMBER})+)\s*\Z")
RULE = re.compile(r"\s*-{8,}\s*\Z")
LONGEST_HEAD = 60  # lines from the title of a test to the head of its rows
ADAPTER = re.compile(r"CA '([\w.-]{1,32})'\s*\Z")
ADAPTER_PORT = re.compile(r"\s+Port (\d{1,3}):\s*\Z")
ADAPTER_STATE = re.compile(r"\s+State: (\w{1,20})\s*\Z")
ADAPTER_RATE = re.compile(r"\s+Rate: (\d{1,4})\b")
STATED = re.compile(r"\s+[A-Za-z][\w ]{1,40}:(?:\s|\Z)")  # what an adapter states of itself
STATUS = re.compile(r"Infiniband device '([\w.-]{1,32})' port (\d{1,3}) status:")
STATUS_STATE = re.compile(r"\s+state:\s+\d: (\w{1,20})")
STATUS_RATE = re.compile(r"\s+rate:\s+(\d{1,4}) Gb/sec")
PORT_HEAD = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,6}) port (\d{1,3})")
PORT_COUNTER = re.compile(r"(\w{4,40}):\.{2,60}(\d{1,20})\s*\Z")
PORT_COUNTERS = {
    **{"SymbolErrorCounter": "link_symbol_errors", "LinkDownedCounter": "link_downed"},
    **{"PortRcvErrors": "interface_errors", "PortXmitDiscards": "interface_dropped"},
}


@dataclass
class LinkReports:
    """One report after the other; the readings are named by the tool that printed the last one."""

    readings: Readings = field(default_factory=lambda: Readings("reports of links"))
    rows: Callable[[int, str], bool] | None = None
    names: tuple[str, ...] = ()
    test: str = ""
    unit: float = 0.0
    column: int = 0
    adapter: str = ""
    first: int = 0  # line of the title of a test
    headed: bool = False  # its head was read
    tick: int = -1
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The head of a report."""
        self.at = at
        if TOPOLOGY.match(text):
            names = [each for each in re.split(r"\s+", text.strip()) if PLACED.match(each)]
            return self._open("nvidia-smi topo -m", self._path, tuple(names))
        if match := MATRIX.search(text):
            way = "" if match[1] is None else f"{match[1].lower()}, "
            reads = " (reads)" if "Reads" in match[4] else ""
            self.test = f"{way}P2P {match[2].lower()}{reads}"
            self.unit = GB if match[5] == "GB/s" else 0.0
            return self._open("p2pBandwidthLatencyTest", self._pair)
        if match := PERFTEST.match(text):
            self.test, self.adapter, self.first, self.headed = f"{match[1]} {match[2]}", "", line, False
            return self._open("perftest", self._size)
        if match := ADAPTER.match(text):
            self.adapter, self.names = match[1], ()
            return self._open("ibstat", self._port)
        if match := STATUS.match(text):
            self.adapter = f"{match[1]}/{match[2]}"
            return self._open("ibstatus", self._status)
        if match := PORT_HEAD.match(text):
            self.adapter = f"lid {match[1]}/{match[2]}"
            return self._open("perfquery", self._counted)
        return False

    def takes(self, line: int, text: str) -> bool:
        """A row of the present report, or an empty line."""
        if self.rows is None:
            return False
        return not text.strip() or self.rows(line, text)

    def _open(self, tool: str, rows: Callable[[int, str], bool], names: tuple[str, ...] = ()) -> bool:
        if self.rows != rows:
            self.tick += 1
        self.readings.tool, self.rows, self.names = tool, rows, names
        return True

    def _path(self, line: int, text: str) -> bool:
        """Of each pair of devices once; columns of adapters run into each other in pasted tables."""
        name, *cells = text.split()
        if name not in self.names or len(cells) < len(self.names):
            return False
        own = self.names.index(name)
        for other, path in zip(self.names[own + 1 :], cells[own + 1 :], strict=False):
            if PATHS.match(path) and name.startswith("GPU") and other.startswith("GPU"):
                self._add("topology_path", 1.0, line, f"{path} {name}-{other}")
        return True

    def _pair(self, line: int, text: str) -> bool:
        if MATRIX_HEAD.match(text):
            self.column = text.lstrip().startswith("CPU")
            return True
        match = MATRIX_ROW.match(text)
        if match is None:
            return False
        for other, cell in enumerate(match[2].split()):
            if other != int(match[1]) and not self.column:
                counter = "tested_bandwidth_bytes_per_s" if self.unit else "tested_latency_us"
                self._add(counter, float(cell) * (self.unit or 1.0), line, f"{self.test}: {match[1]} to {other}")
        return True

    def _size(self, line: int, text: str) -> bool:
        if device := PERFTEST_DEVICE.search(text):
            self.adapter = device[1]
        if head := PERFTEST_HEAD.match(text):
            columns = re.findall(r"(?:BW )?[a-zA-Z_.0-9%]+ ?\[[^\]]{1,16}\]", head[1])
            wanted = [place for place, each in enumerate(columns) if "average" in each or "t_avg" in each]
            self.column, self.headed = (wanted[0] if wanted else -1), True
            self.unit = next((GBIT if "Gb/sec" in each else MIB for each in columns if "average" in each), 0.0)
            return True
        match = PERFTEST_ROW.match(text)
        if match is None:  # addresses, rules and settings stand between the title and the head
            return RULE.match(text) is not None or (not self.headed and line - self.first <= LONGEST_HEAD)
        cells = match[2].split()
        if 0 <= self.column < len(cells) and self.headed:
            counter = "tested_bandwidth_bytes_per_s" if self.unit else "tested_latency_us"
            where = f" on {self.adapter}" if self.adapter else ""
            part = f"{self.test}{where}: {match[1]} bytes"
            self._add(counter, float(cells[self.column]) * (self.unit or 1.0), line, part)
        return True

    def _port(self, line: int, text: str) -> bool:
        if match := ADAPTER_PORT.match(text):
            self.names = (f"{self.adapter}/{match[1]}",)
        elif self.names and (match := ADAPTER_STATE.match(text)):
            self._add("link_active", float(match[1] == "Active"), line, self.names[0])
        elif self.names and (match := ADAPTER_RATE.match(text)):
            self._add("link_rate_gbit_per_s", float(match[1]), line, self.names[0])
        return STATED.match(text) is not None

    def _status(self, line: int, text: str) -> bool:
        if match := STATUS_STATE.match(text):
            self._add("link_active", float(match[1] == "ACTIVE"), line, self.adapter)
        elif match := STATUS_RATE.match(text):
            self._add("link_rate_gbit_per_s", float(match[1]), line, self.adapter)
        return STATED.match(text) is not None

    def _counted(self, line: int, text: str) -> bool:
        match = PORT_COUNTER.match(text)
        if match is not None and (counter := PORT_COUNTERS.get(match[1])):
            self._add(counter, float(match[2]), line, self.adapter)
        return match is not None

    def _add(self, counter: str, value: float, line: int, part: str) -> None:
        self.readings.add(counter, value, line, tick=self.tick, at=self.at, part=part)
