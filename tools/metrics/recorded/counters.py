"""Figures of sampled counters: of devices by nvidia-smi and its like, of machines by sar and the kernel's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.run.recorded.counters import COUNTERS
from tools.views.counters import CounterView, DeviceReadings, counter_view
from tools.views.device.clock_levels import lowered
from tools.views.profile import Profile
from tools.views.steps.sampled_levels import in_steps

WAIT, REQUESTS = "disk_wait_ms", "disk_requests_per_s"
IDLE_PCT = 10.0  # of the time some kernel ran: below it the device had next to nothing to do
GIB, MIB = 1 << 30, 1 << 20
FLAGS = tuple(name for name, each in COUNTERS.items() if each.kind == "flag")
AMONG = ("device", "others")


def counters(profile: Profile) -> CounterView:
    """The run's samples; UsageError where there are none."""
    view = counter_view(profile)
    if view is None:
        raise UsageError("the run holds no samples of utilization or of system counters")
    return view


def readings(profile: Profile, device: str) -> DeviceReadings:
    """The readings of a device; UsageError with the known ones where there is no such."""
    known = counters(profile).devices
    return known[choice("device", device, list(known))]


@metric("%", "{statistic} {counter} {among} {device}", "How busy is a device by its samples?")
def device_counter_pct(
    profile: Profile,
    counter: str,
    device: str,
    statistic: str = "median",
    loaded: int = 0,
    among: str = "device",
    during: str = "",
) -> Measurement:
    """Over the readings of one device, with ``loaded`` those under load; of ``others`` of its model the median.

    ``during``: those taken in such steps (see ``DURING``), or while its own clock is lowered or is not.
    """
    return _level(profile, counter, "%", device, statistic, loaded, among, during)


@metric("W", "{statistic} {counter} {among} {device}", "How much power does a device draw?")
def device_counter_w(
    profile: Profile,
    counter: str,
    device: str,
    statistic: str = "median",
    loaded: int = 0,
    among: str = "device",
    during: str = "",
) -> Measurement:
    """Power by the samples, as ``device_counter_pct``."""
    return _level(profile, counter, "W", device, statistic, loaded, among, during)


@metric("C", "{statistic} {counter} {among} {device}", "How hot is a device?")
def device_counter_c(
    profile: Profile,
    counter: str,
    device: str,
    statistic: str = "median",
    loaded: int = 0,
    among: str = "device",
    during: str = "",
) -> Measurement:
    """Temperature by the samples, as ``device_counter_pct``."""
    return _level(profile, counter, "C", device, statistic, loaded, among, during)


@metric("MHz", "{statistic} {counter} {among} {device}", "At which clock does a device run?")
def device_counter_mhz(
    profile: Profile,
    counter: str,
    device: str,
    statistic: str = "median",
    loaded: int = 0,
    among: str = "device",
    during: str = "",
) -> Measurement:
    """Clocks by the samples, as ``device_counter_pct``."""
    return _level(profile, counter, "MHz", device, statistic, loaded, among, during)


@metric("GiB", "{statistic} {counter} {among} {device}", "How much memory of a device is in use?")
def device_counter_gib(
    profile: Profile,
    counter: str,
    device: str,
    statistic: str = "max",
    loaded: int = 0,
    among: str = "device",
    during: str = "",
) -> Measurement:
    """Memory by the samples, as ``device_counter_pct``."""
    found = _level(profile, counter, "bytes", device, statistic, loaded, among, during)
    return Measurement(found.value / GIB, found.rows, found.selector, source=found.source)


def _level(
    profile: Profile, counter: str, unit: str, device: str, statistic: str, loaded: int, among: str, during: str
) -> Measurement:
    view = counters(profile)
    choice("counter", counter, [name for name, each in COUNTERS.items() if each.unit == unit])
    chosen = readings(profile, device)
    if choice("among", among, AMONG) == "device":
        values, rows = _values(chosen, counter, loaded, _of_device(profile, chosen, during))
        return of_rows(view, over_steps(values, statistic), rows, counter)
    others = [each for each in view.peers(device) if each.has(counter)]
    found = [_values(each, counter, loaded, _of_device(profile, each, during)) for each in others]
    if not found:
        raise UsageError(f"no other device like it has {COUNTERS[counter].label} in the samples")
    own = [over_steps(values, statistic) for values, _ in found]
    rows = pd.concat([table for _, table in found], ignore_index=True)
    return of_rows(view, float(np.median(own)), rows, counter)


IN_STEPS = ("longer", "shorter", "long_steps", "other_steps")  # levels of the step time, and steps long by themselves
OF_CLOCK = ("lowered", "unlowered")
DURING = (*IN_STEPS, *OF_CLOCK)


def _of_device(profile: Profile, device: DeviceReadings, during: str) -> NDArray[np.bool_] | None:
    """The readings that are meant; None of all. UsageError where nothing shows which these are."""
    if not during:
        return None
    if choice("during", during, DURING) in IN_STEPS:
        return _held(in_steps(profile, counters(profile), device.table, during), during)
    low = lowered(device)
    if low is None:
        raise UsageError(f"the clock of device {device.name} is lowered in all or none of its readings")
    return low if during == "lowered" else device.loaded & ~low


def _held(chosen: NDArray[np.bool_], during: str) -> NDArray[np.bool_]:
    if not chosen.any():
        raise UsageError(f"no sample is known to be of {during.replace('_', ' ')} steps")
    return chosen


def _values(
    device: DeviceReadings, counter: str, loaded: int, chosen: NDArray[np.bool_] | None = None
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], pd.DataFrame]:
    """The readings of a counter and the rows; UsageError where the samples lack it."""
    if not device.has(counter):
        raise UsageError(f"the samples of device {device.name} lack {COUNTERS[counter].label}")
    kept = device.loaded if loaded else np.ones(len(device.table), dtype=bool)
    table = device.table[kept if chosen is None else kept & chosen]
    rows = table[table[counter].notna()]
    if rows.empty:
        raise UsageError(f"device {device.name} is under load in no reading")
    return rows[counter].to_numpy(dtype=np.float64), rows[["file", "host", "device", "tick", "line", counter]]


@metric("%", "share of readings of device {device} under load with {flag}", "How often are clocks lowered?")
def device_flag_pct(profile: Profile, flag: str, device: str, during: str = "") -> Measurement:
    """Readings under load in which the flag was set; ``during`` as in ``device_counter_pct``."""
    own = readings(profile, device)
    values, rows = _values(own, choice("flag", flag, FLAGS), 1, _of_device(profile, own, during))
    return of_rows(counters(profile), 100.0 * float((values > 0).mean()), rows, flag)


@metric("%", "share of readings in which device {device} is hardly used", "How often is a device hardly used?")
def device_idle_readings_pct(profile: Profile, device: str) -> Measurement:
    """Readings in which kernels ran for less than a tenth of the time, of those from the first busier reading to the
    last: what lies before and after is a start or an end."""
    values, rows = _in_use(readings(profile, device))
    return of_rows(counters(profile), 100.0 * float((values < IDLE_PCT).mean()), rows, "device_busy_pct")


@metric("times", "stretches in which device {device} is hardly used", "How often does a device run out of work?")
def device_idle_stretches(profile: Profile, device: str) -> Measurement:
    """Stretches of readings in which kernels ran for less than a tenth of the time, between busier readings."""
    values, rows = _in_use(readings(profile, device))
    idle = values < IDLE_PCT
    starts = np.flatnonzero(idle[1:] & ~idle[:-1])
    return of_rows(counters(profile), float(len(starts)), rows, "device_busy_pct")


def _in_use(device: DeviceReadings) -> tuple[NDArray[np.float64], pd.DataFrame]:
    """The utilization from the first busier reading to the last, and its rows; UsageError where there is none."""
    values, rows = _values(device, "device_busy_pct", 0)
    busy = np.flatnonzero(values >= IDLE_PCT)
    if not len(busy):
        raise UsageError(f"device {device.name} is hardly used in any reading")
    part = slice(int(busy[0]), int(busy[-1]) + 1)
    return values[part], rows.iloc[part]


@metric("s", "time between two readings of device {device}", "How often was a device sampled?")
def reading_interval_s(profile: Profile, device: str) -> Measurement:
    """Median difference of the times of two readings that follow each other."""
    own = readings(profile, device)
    if own.interval_s is None:
        raise UsageError(f"the samples of device {device} have no times")
    return of_rows(counters(profile), own.interval_s, own.table[["file", "tick", "line", "time_unix_ns"]], "times")


@metric("s", "time from the first to the last reading of device {device}", "For how long was a device sampled?")
def readings_span_s(profile: Profile, device: str) -> Measurement:
    """Last time less first time of its readings."""
    own = readings(profile, device)
    times = own.table["time_unix_ns"].dropna()
    if len(times) < 2:
        raise UsageError(f"the samples of device {device} have no times")
    rows = own.table[["file", "tick", "line", "time_unix_ns"]]
    return of_rows(counters(profile), float(times.max() - times.min()) / 1e9, rows, "times")


@metric("%", "share of the memory of device {device} in use", "How much of a device's memory is in use?")
def device_memory_held_pct(profile: Profile, device: str) -> Measurement:
    """The most memory in use of the whole memory, over its readings."""
    own = readings(profile, device)
    (used, rows), (whole, _) = (_values(own, f"device_memory_{each}_bytes", 0) for each in ("used", "total"))
    share = 100.0 * float(used.max()) / max(float(whole.max()), 1.0)
    return of_rows(counters(profile), share, rows, "device_memory_used_bytes")


@metric("processes", "processes on device {device}", "How many processes use a device?")
def device_processes(profile: Profile, device: str, least_gib: float = 0.0) -> Measurement:
    """The most processes in one reading; with ``least_gib`` those that hold at least so much of its memory."""
    own = readings(profile, device).table
    samples = counters(profile).records.samples
    held = samples["counter"].isin(["device_process_memory_bytes"]).to_numpy(dtype=bool)
    same = (samples["file"] == own["file"].iloc[0]) & (samples["device"] == own["device"].iloc[0])
    rows = samples[held & same.to_numpy(dtype=bool) & (samples["value"] >= least_gib * GIB).to_numpy(dtype=bool)]
    if rows.empty:
        raise UsageError(f"the samples list no processes of device {device}")
    most = int(rows.groupby("tick")["part"].nunique().max())
    return of_rows(counters(profile), float(most), rows[["file", "device", "part", "value", "line"]], "processes")


@metric("%", "{statistic} {counter}", "How busy is a machine by its samples?")
def machine_counter_pct(
    profile: Profile, counter: str, statistic: str = "mean", part: str = "", during: str = ""
) -> Measurement:
    """Over the readings of machines, all of them together, the mean by the time that each of them is of; ``part`` names
    a disk or a process, ``during`` the steps in which they were taken (see ``IN_STEPS``)."""
    return _machine(profile, counter, ("%",), statistic, part, during)


@metric("ms", "{statistic} {counter}", "How long do requests of a machine take?")
def machine_counter_ms(
    profile: Profile, counter: str, statistic: str = "mean", part: str = "", during: str = ""
) -> Measurement:
    """The same of times, the mean over requests where their number is known."""
    return _machine(profile, counter, ("ms",), statistic, part, during)


@metric("/s", "{statistic} {counter}", "How often does something happen on a machine?")
def machine_counter_per_s(
    profile: Profile, counter: str, statistic: str = "mean", part: str = "", during: str = ""
) -> Measurement:
    """The same of rates."""
    return _machine(profile, counter, ("/s",), statistic, part, during)


@metric("processes", "{statistic} {counter}", "How many processes run or wait on a machine?")
def machine_counter_processes(
    profile: Profile, counter: str, statistic: str = "median", part: str = "", during: str = ""
) -> Measurement:
    """The same of numbers of processes."""
    return _machine(profile, counter, ("processes",), statistic, part, during)


@metric("cores", "processors of the sampled machine", "How many processors has the machine?")
def machine_processors(profile: Profile) -> Measurement:
    """As the title of sar and its like states it; UsageError where none does, or several machines differ."""
    view = counters(profile)
    stated = {each.cores: place for place, each in enumerate(view.records.sources) if each.cores}
    if len(stated) != 1:
        raise UsageError("the samples do not state one number of processors")
    ((cores, file),) = stated.items()
    rows = pd.DataFrame({"file": [file], "cores": [cores]})
    return of_rows(view, float(cores), rows, "title of the table")


@metric("MiB/s", "{statistic} {counter}", "How much does a machine read or write?")
def machine_counter_mib_per_s(
    profile: Profile, counter: str, statistic: str = "mean", part: str = "", during: str = ""
) -> Measurement:
    """The same of bytes per second, in the unit that iostat calls MB."""
    found = _machine(profile, counter, ("bytes/s",), statistic, part, during)
    return replace(found, value=found.value / MIB)


def _machine(
    profile: Profile, counter: str, units: Sequence[str], statistic: str, part: str, during: str
) -> Measurement:
    view = counters(profile)
    choice("counter", counter, [name for name, each in COUNTERS.items() if each.unit in units])
    own = view.machine(counter, part)
    if own.empty:
        raise UsageError(f"the samples lack {COUNTERS[counter].label}")
    if during:
        own = own[_held(in_steps(profile, view, own, choice("during", during, IN_STEPS)), during)]
    rows = own[["file", "host", "part", "tick", "line", "value"]]
    values = own["value"].to_numpy(dtype=np.float64)
    if statistic == "mean":
        value = float(np.average(values, weights=_weights(view, own, counter)))
    else:
        value = over_steps(values, statistic)
    return of_rows(view, value, rows, counter)


LONGEST_INTERVAL = 10.0  # times the usual one: a longer pause is one of the recording


def _weights(view: CounterView, own: pd.DataFrame, counter: str) -> NDArray[np.float64]:
    """The time that each reading is of, since the one before, of a wait times the requests of that time; equal where
    times are not known."""
    weights = pd.Series(1.0, own.index)
    times = own["time_unix_ns"]
    if times.notna().all():
        passed = times.groupby([own[name] for name in ("file", "host", "part")], observed=True).diff()
        usual = float(passed.median()) if passed.notna().any() else 0.0
        if usual > 0:
            weights = passed.fillna(usual).clip(0.0, LONGEST_INTERVAL * usual)
    keys = ["file", "host", "part", "tick"]
    requests = view.machine(REQUESTS, None) if counter == WAIT else own.iloc[:0]
    if len(requests):
        rates = requests.drop_duplicates(keys).set_index(keys)["value"]
        found = rates.reindex(pd.MultiIndex.from_frame(own[keys])).to_numpy(dtype=np.float64)
        weights = weights * np.where(np.isfinite(found), found, 0.0)
    total = np.asarray(weights, dtype=np.float64)
    return total if total.sum() > 0 else np.ones(len(own), dtype=np.float64)


@metric("events", "{counter} between the first and the last reading", "Does a counter rise while the training runs?")
def counted_rise(profile: Profile, counter: str) -> Measurement:
    """The rise of a total, summed over interfaces, adapters and devices that were read at least twice."""
    view = counters(profile)
    choice("counter", counter, [name for name, each in COUNTERS.items() if each.kind == "total"])
    rows = view.rises(counter)
    rows = rows[rows["readings"] > 1]
    if rows.empty:
        raise UsageError(f"{COUNTERS[counter].label} were not read twice")
    return of_rows(view, float(rows["rise"].sum()), rows, counter)


@metric("/s", "{counter} per second between the readings", "How fast does a counter rise while the training runs?")
def counted_per_s(profile: Profile, counter: str) -> Measurement:
    """The rise of a total over the time between its first and last reading, summed over interfaces, adapters and
    devices; UsageError where the times of the readings are not known."""
    view = counters(profile)
    choice("counter", counter, [name for name, each in COUNTERS.items() if each.kind == "total"])
    rows = view.rises(counter)
    rows = rows[(rows["readings"] > 1) & (rows["passed_s"] > 0.0)]
    if rows.empty:
        raise UsageError(f"{COUNTERS[counter].label} were not read twice at known times")
    return of_rows(view, float((rows["rise"] / rows["passed_s"]).sum()), rows, counter)


@metric("events", "{counter} since the start of the counters", "What has a counter reached?")
def counted_total(profile: Profile, counter: str) -> Measurement:
    """The first reading of a total, summed over interfaces, adapters and devices."""
    view = counters(profile)
    choice("counter", counter, [name for name, each in COUNTERS.items() if each.kind == "total"])
    rows = view.rises(counter)
    if rows.empty:
        raise UsageError(f"the samples lack {COUNTERS[counter].label}")
    return of_rows(view, float(rows["first"].sum()), rows, counter)


@metric("%", "share of TCP segments sent again", "Are TCP segments retransmitted?")
def tcp_sent_again_pct(profile: Profile, of: str = "rise") -> Measurement:
    """Retransmitted of sent segments: of the ``rise`` between two readings, of rates (``rate``), or of the first
    reading (``total``), which counts since the machine was started or since nstat was run before."""
    view = counters(profile)
    match choice("of", of, ("rise", "rate", "total")):
        case "rate":
            again, sent = (
                machine_counter_per_s(profile, counter=f"tcp_{name}_segments_per_s")
                for name in ("retransmitted", "sent")
            )
        case "rise":
            again, sent = (counted_rise(profile, counter=f"tcp_{name}_segments") for name in ("retransmitted", "sent"))
        case _:
            again, sent = (counted_total(profile, counter=f"tcp_{name}_segments") for name in ("retransmitted", "sent"))
    if sent.value <= 0.0:
        raise UsageError("no TCP segments were sent between the readings")
    return of_rows(view, 100.0 * again.value / sent.value, again.rows(), "TCP segments")


def of_rows(view: CounterView, value: float, rows: pd.DataFrame, selector: str) -> Measurement:
    """A figure with the samples that it is of."""
    shown = rows.reset_index(drop=True)
    formats = [view.records.sources[int(file)].format for file in sorted(set(shown["file"]))] if "file" in shown else []
    return Measurement(value, lambda: shown, selector, source=formats[0] if formats else "")
