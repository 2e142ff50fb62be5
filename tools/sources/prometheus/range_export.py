"""Reads what Prometheus answers to ``query_range`` (prometheus.io/docs/prometheus/latest/querying/api): the series of
exporters that are known, by host."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec

from tools.errors import InputError
from tools.run.kinds import PROMETHEUS_FORMAT
from tools.run.recorded.counters import CounterRecords, joined_counters
from tools.sources.decompress import beginning
from tools.sources.prometheus.names import Place, place_of, values_of
from tools.sources.utilisation.reader import counters_of
from tools.sources.utilisation.readings import Moment, Readings

LARGEST_BYTES = 256 << 20
MOST_HOSTS = 4096
NO_VALUES = msgspec.Raw(b"[]")
# Where utilization is not sampled, as of parts of a device: the share of the time in which any engine worked.
BUSY, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LATEST_S = 1e10  # seconds since 1970: the year 2286


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw = NO_VALUES  # of a range: [[seconds, "value"], ...]
    value: msgspec.Raw | None = None  # of a moment: [seconds, "value"]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Data


@dataclass(frozen=True, eq=False)
class ExportRead:
    """The samples of one answer; None where none of its series is known."""

    counters: CounterRecords | None
    notes: tuple[str, ...] = ()
    partial: bool = False


@dataclass
class _Export:
    """The readings by host, and what was left out."""

    hosts: dict[str, Readings] = field(default_factory=dict)
    seen: set[tuple[str, Place]] = field(default_factory=set)
    unnamed: int = 0
    unknown: int = 0
    repeated: int = 0
    damaged: int = 0

    def take(self, row: int, series: _Series, busy_sampled: bool) -> None:
        name = series.metric.get("__name__", "")
        scale = 1.0
        if name == ENGINE and not busy_sampled:
            name, scale = BUSY, 100.0
        place = place_of(name, series.metric)
        if place is None:
            self.unnamed += not name
            self.unknown += bool(name)
            return
        if (name, place) in self.seen:
            self.repeated += 1
            return
        if place.host not in self.hosts and len(self.hosts) >= MOST_HOSTS:
            self.unknown += 1
            return
        self.seen.add((name, place))
        try:
            values = msgspec.json.decode(series.values, type=list[tuple[float, str]])
            values += [] if series.value is None else [msgspec.json.decode(series.value, type=tuple[float, str])]
        except UNREADABLE:
            self.damaged += 1
            return
        readings = self.hosts.setdefault(place.host, Readings("Prometheus", host=place.host))
        if place.model and len(readings.devices) < MOST_HOSTS:
            readings.devices.setdefault(place.device, place.model)
        for at_s, text in values:
            if not 0 < at_s < LATEST_S:
                continue
            at_ms = round(at_s * 1000)
            at = Moment(at_ms * 10**6, "unix")
            for counter, each in values_of(name, _number(text) * scale):
                readings.add(counter, each, row, tick=at_ms, at=at, device=place.device, part=place.part)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def read_export(path: Path) -> ExportRead:
    """The samples of the known series; ``InputError`` where it is no whole answer."""
    try:
        content = beginning(path, LARGEST_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its path and permissions") from error
    if content.more:
        raise InputError(f"{path}: is larger than {LARGEST_BYTES >> 20} MiB; export fewer series or a longer step")
    try:
        answer = msgspec.json.decode(content.data, type=_Answer)
    except UNREADABLE as error:
        raise InputError(f"{path}: is no whole answer of Prometheus ({error}); export it again") from error
    return _read(answer, path.name)


def _read(answer: _Answer, name: str) -> ExportRead:
    export = _Export()
    busy_sampled = any(each.metric.get("__name__") == BUSY for each in answer.data.result)
    for row, series in enumerate(answer.data.result, 1):
        export.take(row, series, busy_sampled)
    damage = [f"{export.damaged} series of it cannot be read and were left out"] if export.damaged else []
    notes = []
    if export.unnamed:
        notes.append(f"{export.unnamed} series have no name, as those of expressions: export the metrics themselves")
    if export.unknown:
        notes.append(f"{export.unknown} series are not among those that are read")
    if export.repeated:
        notes.append(f"{export.repeated} series are of a device that another series of that name is of: left out")
    found = [each for each in export.hosts.values() if len(each)]
    for readings in found:
        _count_ticks(readings)
    counters = joined_counters(*(counters_of(each, name, PROMETHEUS_FORMAT) for each in found))
    return ExportRead(counters, (*damage, *notes), bool(damage))


def _count_ticks(readings: Readings) -> None:
    """Number the readings by their time."""
    times_ms = sorted(set(readings.ticks))
    places = {at_ms: place for place, at_ms in enumerate(times_ms)}
    for row, at_ms in enumerate(readings.ticks):
        readings.ticks[row] = places[at_ms]
    if len(times_ms) > 1:
        readings.interval_s = median(later - earlier for earlier, later in pairwise(times_ms)) / 1e3
