"""NCCL's own output: version, network, communicators with their channels and transports, forced settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tools.run.recorded.job_log import Cited, Communicator, Connected, NcclFacts, RankPlace, RepeatedLine
from tools.sources.job_log.commands import variables_set

# host:pid:tid [device] NCCL INFO text, for a warning with the file of NCCL's source before "NCCL"; two processes may
# write into one line, so it can begin anywhere.
HEAD = re.compile(
    r"([\w.-]{1,255}):(\d{1,10}):(\d{1,10}) \[(-?\d{1,4})\] (?:[\w./-]{1,120}:\d{1,6} )?"
    r"NCCL (INFO|WARN|TRACE|VERSION) ?"
)
# The numbers of the process are masked where people publish a line; a warning needs none.
MASKED_WARN = re.compile(
    r"[\w.-]{1,255}:(?:[Xx*?#]{1,20}|<\w{1,20}>)(?::(?:[Xx*?#]{1,20}|<\w{1,20}>))? \[(?:-?\d{1,4}|[Xx*?#])\] "
    r"(?:[\w./-]{1,120}:\d{1,6} )?NCCL WARN "
)
NVML_DEVICE = re.compile(r"nvmlDev (\d{1,4})")  # its number on the machine, as nvidia-smi shows it
BUS = re.compile(r"busId ([0-9a-f]{1,12})\b")
NEXT = " NCCL "
WARNS = "NCCL WARN"
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]*\d[0-9a-fA-F:.]*")
LONGEST_WARNING = 160  # characters
LONGEST_MESSAGE = 1000  # characters; NCCL's own are shorter
VERSION = re.compile(r"NCCL version (\S{1,60})")
INIT = re.compile(
    r"comm (0x[0-9a-f]+) rank (\d{1,7}) nranks (\d{1,7}) cudaDev -?\d+.*?(?: commId (0x[0-9a-f]+))?"
    r"(?: localSize.*?)? - Init (START|COMPLETE)"
)
TIMINGS = re.compile(r"Init timings.*?: rank (\d+) nranks (\d+) total (\d+(?:\.\d*)?)")
# "Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type NVL/PIX, sameChannels 1": within a host and to its adapters
GRAPH = re.compile(r"Pattern \d{1,2}, crossNic .{1,80}, type ([A-Z]{2,6})/")
TOPOLOGY = re.compile(r"Could not open XML topology file (.{1,160}?)(?: :|\Z)")
CHANNELS = re.compile(r"(\d{1,5}) coll channels")
VIA = re.compile(r" via (NET/[A-Za-z][\w ]*|P2P|SHM|COLLNET|NVLS|DIRECT)(\S*)")
# "Channel 00/0 : 19[8a000] -> 20[1a000] [receive] via NET/IB/3": of a network both ranks print the connection.
END = re.compile(r"(Channel \d{1,5}\S{0,8} : \S{1,40} -> \S{1,40}) \[(send|receive)\] \Z")
MOST_ENDS = 1 << 18  # whose other end is not known yet, about 100 bytes each; beyond these each line counts by itself
NETWORK = re.compile(r"Using network (.{1,60})|Assigned NET plugin (\S{1,60}) to comm")
INTERFACES = re.compile(r"NET/(IB|Socket|\w+) ?: Using (.{1,400})")
GPU_DIRECT = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for (.{1,80})")
# The most bandwidth of a path to an adapter, or to another device where there is none, in GB/s (``src/graph/topo.cc``).
SYSTEM = re.compile(r"=== System : max(?:Bw|Width) (\d{1,6}(?:\.\d{1,6})?)")
SETTING = re.compile(r"(NCCL_\w{1,60}) set by environment to (.{0,200})")
# Why NCCL went on with another network. A plug-in that is not there is no reason: its own network follows.
FALLBACK = re.compile(
    r"NET/IB ?: No device found|Failed to open libibverbs\S{0,20}|Failed to initialize NET plugin (?!Socket)\S{1,60}"
    r"|NET/IB ?: Unable to open device .{1,60}|Call to ibv_\w{1,40} failed"
    r"|NET/OFI .{0,60}(?:[Nn]o eligible|failed|not found).{0,80}"
)
MOST_COMMUNICATORS, MOST_NAMES, MOST_PENDING = 4096, 64, 1 << 16
Process = tuple[str, str, str]  # host, process, device


@dataclass
class _Connections:
    """Channels and transports of a process, until the communicator that they are of is known."""

    channels: int | None = None
    channels_line: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    # By transport, of connections whose other end is not known yet: lines that send less those that receive, by the
    # hash of the connection.
    open_ends: dict[str, dict[int, int]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def connected(self, file: int) -> tuple[Connected, ...]:
        """Connections by transport; what both ends print counts once."""
        return tuple(Connected(kind, self.counts[kind], line, file) for kind, line in self.lines.items())

    def count(self, kind: str, number: int) -> None:
        """Add connections of a transport."""
        self.counts[kind] = self.counts.get(kind, 0) + number

    def join(self, kind: str, connection: int, lines: int) -> int:
        """Lines of one end, negative of those that receive; how many of them are of connections counted before."""
        ends = self.open_ends.setdefault(kind, {})
        known = ends.pop(connection, 0)
        if known + lines:
            ends[connection] = known + lines
        return min(abs(known), abs(lines)) if known * lines < 0 else 0


@dataclass
class _Joined:
    size: int
    line: int
    ranks: set[int] = field(default_factory=set)
    processes: set[Process] = field(default_factory=set)
    complete: bool = False
    connections: _Connections = field(default_factory=_Connections)
    init_s: float | None = None


class NcclReader:
    """Collects what NCCL writes, line by line; ``facts`` gives it."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.lines = 0
        self.version: Cited | None = None
        self.settings: dict[str, Cited] = {}
        self._network: dict[str, Cited] = {}
        self._fallbacks: dict[str, Cited] = {}
        self._unread_topology: dict[str, Cited] = {}
        self._interfaces: dict[str, Cited] = {}
        self._direct: dict[str, dict[str, Cited]] = {"Enabled": {}, "Disabled": {}}
        self._joined: dict[str, _Joined] = {}
        self._places: dict[RankPlace, None] = {}  # of the largest communicators
        self._pending: dict[Process, _Connections] = {}
        self._last: dict[Process, str] = {}
        self._hosts: dict[str, None] = {}
        self._system: dict[str, Cited] = {}  # the bandwidth of the paths by host
        self._warnings: dict[str, RepeatedLine] = {}
        self._open = 0

    def take(self, number: int, text: str, at_s: float | None = None) -> str:
        """Read the messages in a line, and return what stands before them: another process's output may. ``at_s`` is
        when the line was written, on the log's clock."""
        if WARNS in text:
            self._warned(number, text.partition(WARNS)[2], at_s)
        if self.version is None and (version := VERSION.search(text)):
            self.version = Cited(version[1], number, self.file)
        head = HEAD.match(text)
        if head is not None and text.find(NEXT, head.end()) < 0:  # nearly all lines: one message and nothing else
            self.lines += 1
            self._message(number, (self._host(head[1], at_start=True), head[2], head[4]), text[head.end() :])
            return ""
        found = list(HEAD.finditer(text))
        for place, head in enumerate(found):
            end = found[place + 1].start() if place + 1 < len(found) else len(text)
            host = self._host(head[1], at_start=head.start() == 0)
            self.lines += 1
            self._message(number, (host, head[2], head[4]), text[head.end() : end])
        if not found:
            self.lines += WARNS in text and MASKED_WARN.search(text) is not None
            self._set_by_command(number, text)
            return text
        cut = len(head_host) if (head_host := self._host(found[0][1], found[0].start() == 0)) else 0
        return text[: found[0].start() + len(found[0][1]) - cut]

    def _set_by_command(self, number: int, text: str) -> None:
        for name, value in variables_set(text):
            if len(self.settings) < MOST_NAMES:
                self.settings.setdefault(name, Cited(value, number, self.file))

    def _warned(self, number: int, message: str, at_s: float | None) -> None:
        text = message[:LONGEST_WARNING].strip()
        key = NUMBERS.sub("#", text)
        if (known := self._warnings.get(key)) is not None:
            self._warnings[key] = known.again(number, at_s)
        elif text and len(self._warnings) < MOST_NAMES:
            self._warnings[key] = RepeatedLine(text, 0, number, number, self.file, kind=key).again(number, at_s)

    def _host(self, name: str, at_start: bool) -> str:
        """The host's name; of one that other output runs into, a name seen before that it ends with."""
        if at_start:
            if len(self._hosts) < MOST_PENDING:
                self._hosts[name] = None
            return name
        return max((each for each in self._hosts if name.endswith(each)), key=len, default=name)

    def _message(self, number: int, process: Process, message: str) -> None:
        text = message[:LONGEST_MESSAGE]
        for pattern, read in READS:
            if found := pattern.search(text):
                read(self, number, process, found)
                return

    def _counted(self, number: int, process: Process, found: re.Match[str]) -> None:
        own = self._own(process)
        own.channels, own.channels_line = int(found[1]), number

    def _set(self, number: int, process: Process, found: re.Match[str]) -> None:
        if len(self.settings) < MOST_NAMES:
            self.settings.setdefault(found[1], Cited(found[2].strip().rstrip("."), number, self.file))

    def _uses(self, number: int, process: Process, found: re.Match[str]) -> None:
        self._note(self._network, (found[1] or found[2]).strip(), number)

    def _direct_for(self, number: int, process: Process, found: re.Match[str]) -> None:
        self._note(self._direct[found[1]], found[2].strip(), number)

    def _fell_back(self, number: int, process: Process, found: re.Match[str]) -> None:
        self._note(self._fallbacks, found[0].strip(), number)

    def _graph(self, number: int, process: Process, found: re.Match[str]) -> None:
        self._own(process).links.add(found[1])

    def _no_topology(self, number: int, process: Process, found: re.Match[str]) -> None:
        self._note(self._unread_topology, found[1].strip(), number)

    def _listens(self, number: int, process: Process, found: re.Match[str]) -> None:
        self._note(self._interfaces, f"NET/{found[1]} : {found[2].strip()}", number)

    def _mapped(self, number: int, process: Process, found: re.Match[str]) -> None:
        if len(self._system) < MOST_NAMES:
            self._system.setdefault(process[0], Cited(found[1], number, self.file))

    def _note(self, known: dict[str, Cited], name: str, number: int) -> None:
        if len(known) < MOST_NAMES:
            known.setdefault(name, Cited(name, number, self.file))

    def _own(self, process: Process) -> _Connections:
        if process not in self._pending and len(self._pending) >= MOST_PENDING:
            return _Connections()
        return self._pending.setdefault(process, _Connections())

    def _connected(self, number: int, process: Process, found: re.Match[str]) -> None:
        own, kind = self._own(process), found[1].strip()
        kind += "/GDRDMA" if "GDRDMA" in found[2] else ""
        own.lines.setdefault(kind, number)
        end = END.search(found.string, 0, found.start() + 1)
        if end is None or self._open >= MOST_ENDS:
            own.count(kind, 1)
            return
        paired = own.join(kind, hash(end[1]), 1 if end[2] == "send" else -1)
        own.count(kind, 1 - paired)
        self._open += 1 - 2 * paired

    def _initialised(self, number: int, process: Process, found: re.Match[str]) -> None:
        """Without commId communicators of one size cannot be told apart: pointers differ between processes."""
        rank, size = int(found[2]), int(found[3])
        key = found[4] or f"of {size} ranks"
        if key not in self._joined and len(self._joined) >= MOST_COMMUNICATORS:
            return
        joined = self._joined.setdefault(key, _Joined(size, number))
        joined.processes.add(process)
        if found[5] == "START":
            self._settle(process)
            return
        if not joined.complete:
            joined.complete, joined.line = True, number
        joined.ranks.add(rank)
        self._placed(RankPlace(rank, size, process[0], process[1], int(process[2]), *_device_of(found[0])))
        self._last[process] = key
        self._settle(process)

    def _placed(self, place: RankPlace) -> None:
        largest = next((each.size for each in self._places), 0)
        if place.size > largest:
            self._places = {}
        if place.size >= largest and len(self._places) < MOST_PENDING:
            self._places[place] = None

    def _settle(self, process: Process) -> None:
        """Add a process's connections to the communicator that it made last."""
        key, own = self._last.get(process), self._pending.get(process)
        if key is None or own is None:
            return
        del self._pending[process]
        joined = self._joined[key].connections
        if own.channels is not None and (joined.channels is None or own.channels < joined.channels):
            joined.channels, joined.channels_line = own.channels, own.channels_line
        joined.links |= own.links
        self._open -= 2 * _add(joined, own)

    def _timed(self, number: int, process: Process, found: re.Match[str]) -> None:
        if key := self._last.get(process):
            joined = self._joined[key]
            joined.init_s = max(joined.init_s or 0.0, float(found[3]))

    def facts(self) -> NcclFacts:
        """Everything that was read; connections made after the last communicator are of that one."""
        for process in list(self._pending):
            self._settle(process)
        return NcclFacts(
            version=self.version,
            network=tuple(self._network.values()),
            interfaces=tuple(self._interfaces.values()),
            settings=self.settings,
            gpu_direct_off=tuple(self._direct["Disabled"].values()),
            gpu_direct_on=tuple(self._direct["Enabled"].values()),
            fallbacks=tuple(self._fallbacks.values()),
            unread_topology=tuple(self._unread_topology.values()),
            places=tuple(self._places),
            warnings=tuple(self._warnings.values()),
            hosts=tuple(self._hosts),
            path_bandwidths=tuple(self._system.values()),
            lines=self.lines,
            communicators=tuple(self._communicators()),
            unjoined=self._unjoined(),
        )

    def _unjoined(self) -> Communicator | None:
        """The connections of processes whose communicators the output does not name, as of one without ranks."""
        left = {process: each for process, each in self._pending.items() if each.lines}
        if not left:
            return None
        whole = _Joined(0, min(line for each in left.values() for line in each.lines.values()), processes=set(left))
        for each in left.values():
            _add(whole.connections, each)
        return self._communicator("not named", whole)

    def _communicators(self) -> Iterable[Communicator]:
        return (self._communicator(key, joined) for key, joined in self._joined.items())

    def _communicator(self, key: str, joined: _Joined) -> Communicator:
        own = joined.connections
        return Communicator(
            key=key,
            ranks=tuple(sorted(joined.ranks)),
            size=joined.size,
            line=joined.line,
            file=self.file,
            channels=own.channels,
            channels_line=own.channels_line,
            channels_file=self.file,
            connections=own.connected(self.file),
            init_s=joined.init_s,
            links=frozenset(own.links),
            processes=frozenset(joined.processes),
            open_ends=own.open_ends,
        )


def _device_of(text: str) -> tuple[int | None, int]:
    """The number of the device on the machine and its PCI address."""
    listed, bus = NVML_DEVICE.search(text), BUS.search(text)
    return None if listed is None else int(listed[1]), -1 if bus is None else int(bus[1], 16)


def _add(whole: _Connections, own: _Connections) -> int:
    """Count the connections of one process with those of others; the first line of each transport stays. Return how
    many of them others have counted."""
    paired = 0
    for kind, count in own.counts.items():
        ends = own.open_ends.get(kind, {}).items()
        counted = sum(whole.join(kind, connection, lines) for connection, lines in ends)
        whole.count(kind, count - counted)
        paired += counted
    for kind, line in own.lines.items():
        whole.lines[kind] = min(whole.lines.get(kind, line), line)
    return paired


Read = Callable[[NcclReader, int, Process, re.Match[str]], None]
READS: tuple[tuple[re.Pattern[str], Read], ...] = (
    (VIA, NcclReader._connected),
    (INIT, NcclReader._initialised),
    (CHANNELS, NcclReader._counted),
    (GRAPH, NcclReader._graph),
    (TOPOLOGY, NcclReader._no_topology),
    (TIMINGS, NcclReader._timed),
    (SETTING, NcclReader._set),
    (NETWORK, NcclReader._uses),
    (GPU_DIRECT, NcclReader._direct_for),
    (FALLBACK, NcclReader._fell_back),
    (INTERFACES, NcclReader._listens),
    (SYSTEM, NcclReader._mapped),
)
