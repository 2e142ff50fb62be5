"""Reads a W&B run file: history, system metrics, captured output, configuration (wandb/proto/wandb_internal.proto)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median
from typing import Literal

import pandas as pd

from tools.documents import parse_json
from tools.errors import InputError
from tools.run.kinds import WANDB_FORMAT
from tools.run.recorded.counters import NONE, CounterRecords
from tools.run.recorded.job_log import MEANS, SINGLE, JobLog, with_steps_of
from tools.sources.decompress import Expansion, Readable
from tools.sources.job_log.collect import Collector
from tools.sources.job_log.lines import LineReader
from tools.sources.job_log.reader import log_of
from tools.sources.options import GIB, Limits
from tools.sources.tracked_steps import TrackedSteps, tracked_log
from tools.sources.utilisation.reader import counters_of
from tools.sources.utilisation.readings import Moment, Readings
from tools.sources.wandb_file.counter_names import DEVICE_COUNTERS
from tools.sources.wandb_file.records import RecordLog
from tools.sources.wire import WireError, fields, number, part

LIMITS = Limits(expanded_bytes=4 * GIB, expand_s=300.0)
MOST_ITEMS = 1 << 14  # of a record
LONGEST_VALUE = 64  # bytes of JSON: numbers and short texts; histograms and tables are passed over
MOST_OUTPUT = 64 << 20
SAME_TICK_S = 2.0  # newer versions write the samples of one moment in two records
IDLE_PCT = 5.0
LARGEST = 1e30
LONGEST_WHOLE = 16
# Nearly all items: a key (or one part of a nested one) and its value, each with a length of one byte.
SHORT_ITEM = re.compile(rb"[\x0a\x12]([\x00-\x7f])(.*?)\x82\x01([\x00-\x7f])(.*)\Z", re.DOTALL)
DECIMAL = re.compile(rb"-?(?:0|[1-9]\d{0,14})\.\d{1,20}\Z")  # as JSON writes numbers, without an exponent
Value = int | float | str
MIB = 1 << 20
DEVICE = re.compile(r"gpu\.(\d{1,4})\.(\w{1,40})\Z")
OF_PROCESS = re.compile(r"gpu\.process\.(\d{1,4})\.\w{1,40}\Z")
CORE = re.compile(r"cpu\.\d{1,5}\.cpu_percent\Z")
# Of the machine or of W&B's own process; MB are MiB there.
MACHINE_COUNTERS = {
    "memory_percent": ("memory_used_pct", 1.0),
    "memory": ("memory_used_pct", 1.0),
    "proc.memory.rssMB": ("process_resident_bytes", float(MIB)),
    "proc.cpu.threads": ("process_threads", 1.0),
    "network.sent": ("network_sent_bytes", 1.0),
    "network.recv": ("network_received_bytes", 1.0),
    "disk.in": ("disk_read_bytes", float(MIB)),
    "disk.out": ("disk_written_bytes", float(MIB)),
}


@dataclass(frozen=True, eq=False)
class WandbRead:
    """What one file holds: the job's series and output, its samples, and what could not be read."""

    log: JobLog | None
    counters: CounterRecords | None
    notes: tuple[str, ...] = ()
    partial: bool = False


@dataclass
class RunRecords:
    """What the records hold, in the order of the file."""

    steps: TrackedSteps = field(default_factory=lambda: TrackedSteps("W&B history"))
    output: bytearray = field(default_factory=bytearray)
    settings: dict[str, tuple[str, int]] = field(default_factory=dict)
    samples: Readings = field(default_factory=lambda: Readings("W&B"))
    ticks_s: list[float] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    own_devices: set[int] = field(default_factory=set)
    unreadable: int = 0
    cut_output: bool = False

    def take(self, record: int, message: memoryview) -> None:
        """One record; one that is no message is counted and left out."""
        try:
            for name, value in fields(message):
                match name:
                    case 2:  # history
                        self.steps.add(record, dict(_items(part(value), 1)))
                    case 4 | 13:  # output, output_raw
                        self._printed(part(value))
                    case 5:  # config
                        self._configured(record, part(value))
                    case 7:  # stats
                        self._sampled(record, part(value))
                    case 17:  # run
                        self._described(record, part(value))
                    case _:
                        pass
        except (WireError, UnicodeDecodeError):
            self.unreadable += 1

    def _printed(self, message: memoryview) -> None:
        for name, value in fields(message):
            if name == 3:
                text = part(value)
                room = MOST_OUTPUT - len(self.output)
                self.output += text[:room]
                self.cut_output |= len(text) > room

    def _configured(self, record: int, message: memoryview) -> None:
        for name, value in _items(message, 1):
            self.settings[name] = (str(value), record)

    def _described(self, record: int, message: memoryview) -> None:
        for name, value in fields(message):
            if name == 4:
                self._configured(record, part(value))
            elif name == 13:
                self.samples.host = bytes(part(value)).decode()[:80]

    def _sampled(self, record: int, message: memoryview) -> None:
        at_ns: int | None = None
        for name, value in fields(message):
            if name == 2:
                at_ns = _time_ns(part(value))
        if at_ns is None:
            return
        items = ((name.removeprefix("system."), value) for name, value in _items(message, 3))
        values = {name: float(value) for name, value in items if not isinstance(value, str)}
        at_s = at_ns / 1e9
        if not self.ticks_s or abs(at_s - self.ticks_s[-1]) > SAME_TICK_S or self.seen & values.keys():
            self.ticks_s.append(at_s)
            self.seen = set()
        self.seen |= values.keys()
        self._add(record, values, Moment(at_ns, "unix"))

    def _add(self, record: int, values: dict[str, float], at: Moment) -> None:
        tick = len(self.ticks_s) - 1
        cores: list[float] = []
        for name, value in values.items():
            place = _place(name)
            if place.kind == "core":
                cores.append(value)
            elif place.kind == "own device":
                self.own_devices.add(place.device)
            elif place.kind == "sample":
                scaled = value * place.scale
                self.samples.add(place.counter, scaled, record, tick=tick, at=at, device=place.device, part=place.part)
        if cores:
            self.samples.add("cpu_busy_pct", fmean(cores), record, tick=tick, at=at)


@dataclass(frozen=True)
class _Place:
    """What a system metric is: a sample, the load of one core, the mark of a device of the run's own, or nothing."""

    kind: Literal["sample", "core", "own device", "other"]
    counter: str = ""
    device: int = NONE
    scale: float = 1.0
    part: str = ""


@lru_cache(maxsize=1 << 12)  # a file names the same metrics in every tick
def _place(name: str) -> _Place:
    if (device := DEVICE.match(name)) and device[2] in DEVICE_COUNTERS:
        return _Place("sample", DEVICE_COUNTERS[device[2]], int(device[1]))
    if own := OF_PROCESS.match(name):
        return _Place("own device", device=int(own[1]))
    if CORE.match(name):
        return _Place("core")
    if name not in MACHINE_COUNTERS:
        return _Place("other")
    counter, scale = MACHINE_COUNTERS[name]
    return _Place("sample", counter, scale=scale, part="W&B's process" if counter.startswith("process_") else "")


def _items(message: memoryview, wanted: int) -> Iterator[tuple[str, Value]]:
    """Name and value of the items of a message: finite numbers and short texts."""
    count = 0
    for name, value in fields(bytes(message)):
        if name != wanted:
            continue
        count += 1
        if count > MOST_ITEMS:
            return
        key, text = _item(part(value))
        decoded = _value(text)
        if decoded is not None:
            yield key[:200], decoded


def _item(message: bytes) -> tuple[str, bytes]:
    """Name and JSON of one item; no JSON where it is longer than a number or a short text."""
    if (found := SHORT_ITEM.match(message)) and found[1][0] == len(found[2]) and found[3][0] == len(found[4]):
        return found[2].decode(), found[4] if len(found[4]) <= LONGEST_VALUE else b""
    key, text = "", b""
    nested: list[str] = []
    for own, content in fields(message):
        if own == 1:
            key = part(content).decode()
        elif own == 2 and len(nested) < 16:
            nested.append(part(content).decode())
        elif own == 16 and len(part(content)) <= LONGEST_VALUE:
            text = part(content)
    return key or "/".join(nested), text


def _value(text: bytes) -> Value | None:
    """A number or a text of JSON; None where it is another thing or no JSON."""
    if text.isdigit() and len(text) < LONGEST_WHOLE and (text[:1] != b"0" or text == b"0"):  # most values are numbers
        return int(text)
    if DECIMAL.match(text):
        return float(text)
    try:
        value = parse_json(text)
    except ValueError:
        return None
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return value if abs(value) < LARGEST else None
    return value if isinstance(value, str) else None


def _time_ns(message: memoryview) -> int | None:
    """google.protobuf.Timestamp: seconds 1, nanos 2."""
    found = {name: number(value) for name, value in fields(message)}
    seconds, nanos = found.get(1, 0), found.get(2, 0)
    return seconds * 10**9 + nanos if 0 < seconds < 1 << 33 and 0 <= nanos < 10**9 else None


def read_wandb(path: Readable) -> WandbRead:
    """The records of a file in bounded memory; ``InputError`` where it cannot be read."""
    expansion = Expansion(path, LIMITS)
    log, run, count = RecordLog(expansion), RunRecords(), 0
    for record, message in log:
        run.take(record, message)
        count += 1
    if not count:
        raise InputError(f"{path}: {log.damage or 'it holds no records'}")
    damage = [f"{reason}, and what follows was left out" for reason in (expansion.damage, log.damage) if reason]
    if log.damaged_blocks:
        damage.append(f"{log.damaged_blocks} blocks of it are damaged and were left out")
    if lost := run.unreadable + log.dropped:
        damage.append(f"{lost} records of it cannot be read and were left out")
    if run.cut_output:
        damage.append(f"its captured output is longer than {MOST_OUTPUT >> 20} MiB; the first part is used")
    name = getattr(path, "name", str(path))
    job, said = _job(run, name)
    counters, kept = _counters(run, name)
    return WandbRead(job, counters, (*damage, *said, *kept), bool(damage))


def _job(run: RunRecords, name: str) -> tuple[JobLog | None, list[str]]:
    """The steps of the history, or of the captured output where that states them and the history does not."""
    series, notes = run.steps.series()
    history = tracked_log(f"{name} (history)", series, run.settings) if series or run.settings else None
    collector = Collector(0)
    for raw in LineReader((bytes(run.output),), collector.wants_all):
        collector.take(raw)
    collector.close()
    output, said = log_of(collector, f"{name} (captured output)")
    if history is None or output is None:
        return history or output, notes if output is None else said
    stated = series is not None and series.step_time != "stamps"
    printed = output.steps if output.step_time in (*SINGLE, *MEANS) else output.steps.iloc[:0]
    if stated or len(history.steps) >= max(len(printed), 1):
        return with_steps_of(output, history), notes
    return with_steps_of(output, history, steps=False), said


LIKE_POINTS = 10.0  # by which the devices of ranks of one job differ at most, in their highest use and memory
OF_OTHERS = (
    "no process of the run was seen on device{} {}, used otherwise than its own: those of others, or idle; left out"
)
OF_RANKS = "device{} {}: used like those on which the run's process was seen: taken for its other ranks"


def _counters(run: RunRecords, name: str) -> tuple[CounterRecords | None, list[str]]:
    """The samples, without devices on which no process of the run was seen, but for those that are used alike: of a job
    of several ranks W&B sees only the processes that its own one started."""
    if not len(run.samples):
        return None, []
    run.samples.interval_s = _interval_s(run.ticks_s)
    records = counters_of(run.samples, name, WANDB_FORMAT)
    samples = records.samples
    seen = {int(device) for device in samples["device"].unique() if device >= 0}
    others = sorted(seen - run.own_devices) if run.own_devices & seen else []
    if not others:
        return records, []
    ranks = _used_alike(samples, run.own_devices & seen, others)
    foreign = [each for each in others if each not in ranks]
    kept = samples[~samples["device"].isin(foreign).to_numpy(dtype=bool)].reset_index(drop=True)
    notes = [
        text.format("s" * (len(devices) > 1), ", ".join(map(str, devices)))
        for text, devices in ((OF_OTHERS, foreign), (OF_RANKS, ranks))
        if devices
    ]
    return CounterRecords(kept, records.sources), notes


def _used_alike(samples: pd.DataFrame, own: set[int], others: Sequence[int]) -> list[int]:
    """Those of the other devices that were in use, and as much as one of the run's own."""
    used = samples[samples["counter"].isin(["device_busy_pct", "device_memory_used_pct"]).to_numpy(dtype=bool)]
    most = used.groupby(["device", "counter"], observed=True)["value"].max().unstack()
    if "device_busy_pct" not in most:
        return []
    found = []
    for device in others:
        apart = (most.reindex([*own]) - most.reindex([device]).iloc[0]).abs()
        alike = ((apart <= LIKE_POINTS) | apart.isna()).all(axis=1) & apart["device_busy_pct"].notna()
        if bool(alike.any()) and most["device_busy_pct"].get(device, 0.0) >= IDLE_PCT:
            found.append(device)
    return found


def _interval_s(times_s: Iterable[float]) -> float | None:
    times = sorted(times_s)
    return median(later - earlier for earlier, later in pairwise(times)) if times[1:] else None
