"""Which rank uses a sampled device, as far as NCCL's lines in the job's output and the samples state it.

A rank is known where one of these leads to one device: the PCI address of NCCL's line and of the samples, the process
that the samples list on the device, the number of the device on the machine (``nvmlDev``), or the order of the PCI
addresses where the ranks of a host use all devices sampled there (nvidia-smi numbers devices in that order). What
contradicts another one is left open. The number that a process gives its device (``cudaDev``) is never used: with
CUDA_VISIBLE_DEVICES it is another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import product

from tools.run.model import Run
from tools.run.recorded.counters import CounterRecords
from tools.run.recorded.job_log import RankPlace

SHOWN = 8
UNKNOWN = (
    "which rank uses which sampled device is not stated, and an index is not taken for a rank; NCCL_DEBUG=INFO in the "
    "job's output states both"
)
OF_PROCESSES = ("device_process_busy_pct", "device_process_memory_bytes")
Sampled = tuple[int, str, int]  # the file of samples, the host that it states ("" without one), the device


@dataclass(frozen=True)
class DeviceRanks:
    """The ranks of sampled devices, by what each was found, why others stay open (sentences without an end), and the
    devices that no rank of the job uses: all its ranks are known, and those of the host are on others."""

    ranks: Mapping[Sampled, int] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    hosts: Mapping[int, str] = field(default_factory=dict)  # of files that state none, by their names
    open: tuple[str, ...] = ()
    unused: frozenset[Sampled] = frozenset()


def ranks_of_devices(run: Run) -> DeviceRanks:
    """The rank of each sampled device that the files of the run lead to."""
    if run.counters is None or run.job_log is None or not run.job_log.nccl.places:
        return DeviceRanks()
    if why := _of_a_group(run):
        return DeviceRanks(open=(why,))
    places, moved = _settled(run.job_log.nccl.places)
    complete = len(places) == run.job_log.nccl.places[0].size
    hosts = {_short(each.host) for each in run.job_log.nccl.places}
    named = _hosts_by_name(run.counters, hosts)
    # Where lines of some ranks are missing, samples of no stated host may be of another one.
    only = next(iter(hosts)) if len(hosts) == 1 and complete and not named else ""
    host_of = {(file, host): _short(host) or named.get(file) or only for file, host in _files(run.counters)}
    known = _Known(open=[_moved(moved)] if moved else [])
    for host in dict.fromkeys(each for each in host_of.values() if each):
        devices = [each for each in sorted(_sampled(run.counters)) if host_of[each[:2]] == host]
        own = [each for each in places.values() if _short(each.host) == host]
        known.take(_Host(run.counters, devices, own, {at for at, name in host_of.items() if name == host}), complete)
    return DeviceRanks(
        *(dict(sorted(known.ranks.items())), tuple(known.by), named),
        *(tuple(dict.fromkeys(known.open)), frozenset(known.unused)),
    )


@dataclass
class _Known:
    """What the hosts show, one after the other."""

    open: list[str]
    ranks: dict[Sampled, int] = field(default_factory=dict)
    by: dict[str, None] = field(default_factory=dict)
    unused: set[Sampled] = field(default_factory=set)

    def take(self, host: _Host, complete: bool) -> None:
        """Take the devices of one host; ``complete``: all ranks of the job are known."""
        found: dict[Sampled, set[int]] = {}
        for at, rank, method in host.pairs():
            found.setdefault(at, set()).add(rank)
            self.by[method] = None
        for at, ranks in found.items():
            if len(ranks) == 1:
                self.ranks[at] = next(iter(ranks))
            else:
                self.open.append(f"device {at[2]} has the ranks {', '.join(map(str, sorted(ranks)))}")
        if complete:
            self.unused |= _unused(host.devices, found, {each.rank for each in host.places})


def _unused(devices: Sequence[Sampled], ranks: Mapping[Sampled, set[int]], of_host: set[int]) -> set[Sampled]:
    """The devices of files that show all ranks of the host on others of their devices, one rank on each."""
    found = set()
    for file in dict.fromkeys(device[0] for device in devices):
        own = {device: each for device, each in ranks.items() if device[0] == file}
        placed = [rank for each in own.values() for rank in each]
        if of_host and sorted(placed) == sorted(of_host) and len(own) == len(placed):
            found |= {device for device in devices if device[0] == file and device not in own}
    return found


def _moved(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:SHOWN])) + (f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else "")
    which = f"ranks {shown}" if len(ranks) > 1 else f"rank {shown}"
    return f"{which} joined NCCL from several places, as after a restart"


def device_rank_notes(run: Run) -> tuple[str, ...]:
    """Sentences on which rank uses which sampled device; nothing without sampled devices or with one rank alone."""
    sampled = set() if run.counters is None else _sampled(run.counters)
    if run.counters is None or not sampled or (run.layout.world_size or 0) == 1:
        return ()
    known = ranks_of_devices(run)
    why_open = f": {'; '.join(known.open)}" if known.open else ""
    if not known.ranks:
        return (UNKNOWN + why_open,) if len(sampled) > 1 else ()
    several = len({(file, host) for file, host, _ in sampled}) > 1
    shown = [f"device {_called(run.counters, at, several)} is rank {rank}" for at, rank in known.ranks.items()]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    said = f"by NCCL's lines ({' and '.join(known.by)}) {', '.join(shown[:SHOWN])}{more}"
    files = [f"{run.counters.sources[file].path} is taken to be of {host}" for file, host in known.hosts.items()]
    by_name = (f"by its name {', '.join(files[:SHOWN])}",) if files else ()
    left = len(sampled - known.ranks.keys() - known.unused)
    rest = (f"no file says which rank uses {left} of {len(sampled)} sampled devices{why_open}",) if left else ()
    unused = [_called(run.counters, at, several) for at in sorted(known.unused)]
    more = f" and {len(unused) - SHOWN} more" if len(unused) > SHOWN else ""
    free = (f"by NCCL's lines no rank of the job uses device {', '.join(unused[:SHOWN])}{more}",) if unused else ()
    return (said, *by_name, *free, *rest)


def _of_a_group(run: Run) -> str:
    """The reason why the ranks in NCCL's lines are not those of the job; "" where nothing speaks against it."""
    assert run.job_log is not None
    size = run.job_log.nccl.places[0].size
    whole = run.job_log.whole("world_size") or run.layout.world_size
    highest = max((*run.job_log.ranks, *run.rank_numbers), default=0)
    if (whole is None or whole <= size) and highest < size:
        return ""
    job = f"has {whole}" if whole is not None and whole > size else f"has a rank {highest}"
    return f"NCCL's communicators in the output are of {size} ranks and the job {job}: their ranks are not those of it"


def _settled(places: Sequence[RankPlace]) -> tuple[dict[int, RankPlace], list[int]]:
    """The place of each rank, and the ranks that have several, as after a restart or of two groups of one size."""
    found: dict[int, RankPlace] = {}
    devices: dict[int, set[tuple[str, int, int | None, int]]] = {}
    for each in places:
        found[each.rank] = each  # of several processes on one device the last
        devices.setdefault(each.rank, set()).add((each.host, each.seen, each.listed, each.bus))
    moved = sorted(rank for rank, own in devices.items() if len(own) > 1)
    return {rank: each for rank, each in found.items() if rank not in moved}, moved


def _hosts_by_name(counters: CounterRecords, hosts: set[str]) -> dict[int, str]:
    """The one host that the name of a file of samples holds, of files that state none."""
    found = {}
    for file, source in enumerate(counters.sources):
        named = [] if source.host else [host for host in hosts if host and _names(source.path, host)]
        longest = max(named, key=len, default="")
        if longest and all(each in longest for each in named):
            found[file] = longest
    return found


def _names(path: str, host: str) -> bool:
    """Whether the name holds the host as a word: ``node1`` is not in ``node12.csv`` nor in ``node1-2.csv``."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(host)}(?!-?\d|[A-Za-z])", path, re.I) is not None


@dataclass(frozen=True)
class _Host:
    """The sampled devices of one host and the ranks on it."""

    counters: CounterRecords
    devices: Sequence[Sampled]
    places: Sequence[RankPlace]
    files: Set[tuple[int, str]]  # all of this host, with the host that they state

    def pairs(self) -> Iterator[tuple[Sampled, int, str]]:
        """Each device with a rank that leads to it, and by what; of a file the surest way that leads to any."""
        for file in dict.fromkeys(device[0] for device in self.devices):
            own = [each for each in self.devices if each[0] == file]
            source = self.counters.sources[file]
            if source.buses:  # a container may number its devices otherwise, and addresses stay
                yield from self._by_bus(own, dict(source.buses))
            elif source.numbered:
                yield from [*self._by_process(own)] or self._by_number(own)

    def _by_bus(self, devices: Sequence[Sampled], buses: Mapping[int, int]) -> Iterator[tuple[Sampled, int, str]]:
        for device, place in product(devices, self.places):
            if place.bus == buses.get(device[2]):
                yield device, place.rank, "PCI addresses"

    def _by_process(self, devices: Sequence[Sampled]) -> Iterator[tuple[Sampled, int, str]]:
        """By the processes that the samples list on each device, in any file of the host."""
        samples = self.counters.samples
        listed = samples[samples["counter"].isin(OF_PROCESSES).to_numpy(dtype=bool)]
        listed = listed[["file", "host", "device", "part"]].drop_duplicates()
        on: dict[str, set[int]] = {}
        for file, host, device, part in listed.itertuples(index=False, name=None):
            if (int(file), str(host)) in self.files:
                on.setdefault(str(part).partition(" ")[0], set()).add(int(device))
        for device, place in product(devices, self.places):
            if on.get(place.process) == {device[2]}:
                yield device, place.rank, "processes"

    def _by_number(self, devices: Sequence[Sampled]) -> Iterator[tuple[Sampled, int, str]]:
        """By the number on the machine. The order of PCI addresses is none: samples may be of other devices of it."""
        for device, place in product(devices, self.places):
            if place.listed == device[2]:
                yield device, place.rank, "device numbers"


def _called(counters: CounterRecords, at: Sampled, several: bool) -> str:
    file, host, device = at
    place = (host or counters.sources[file].path) if several else ""
    return f"{device} of {place}" if place else str(device)


def _sampled(counters: CounterRecords) -> set[Sampled]:
    samples = counters.samples
    own = samples[(samples["device"] >= 0).to_numpy() & (samples["part"] == "").to_numpy(dtype=bool)]
    places = own[["file", "host", "device"]].drop_duplicates()
    return {(int(file), str(host), int(device)) for file, host, device in places.itertuples(index=False, name=None)}


def _files(counters: CounterRecords) -> set[tuple[int, str]]:
    pairs = counters.samples[["file", "host"]].drop_duplicates()
    return {(int(file), str(host)) for file, host in pairs.itertuples(index=False, name=None)}


def _short(host: str) -> str:
    return host.partition(".")[0].lower()
