"""Makes a synthetic run: traces, the monitor's records, and the true step time with and without its faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.synthetic.faults import inject_all
from evals.synthetic.items import Call, Collective, Item, Pause
from evals.synthetic.kineto import BASE_NS, write_trace
from evals.synthetic.models import Place, healthy_step
from evals.synthetic.simulate import RankClock, Row, simulate
from evals.synthetic.spec import FaultSpec, SyntheticSpec, simulated_ranks
from hermes_agent.demo.data import demo_fixed_run
from hermes_agent.monitor.format import (
    CAPTURE_ENDED,
    CAPTURED,
    FIELDS,
    FIRST,
    STEPS_MAGIC,
    UNKNOWN_DEPTH,
    Description,
    Workload,
)
from tools.errors import InputError

WARM_UP = 4
MOST_DEVIATION = 4.0  # in standard deviations; what is beyond came from the machine, not from the training


@cache
def recorded_shape(folder: Path | None = None) -> NDArray[np.float64]:
    """Deviations of recorded steps from their rank's median, with mean 0 and standard deviation 1.

    ``folder`` is a run folder with ``steps_rank*.jsonl``, by default the bundled recorded run without a fault. Raises
    InputError when it holds too few steps.
    """
    run = demo_fixed_run() if folder is None else folder
    lines = [file.read_text(encoding="utf-8").splitlines()[WARM_UP:] for file in sorted(run.glob("steps_rank*.jsonl"))]
    logs = [np.array([json.loads(line)["wall_ms"] for line in log], dtype=float) for log in lines]
    relative = [log / np.median(log) - 1.0 for log in logs if len(log) > 1]
    if not relative or sum(len(each) for each in relative) < 20:
        raise InputError(f"{run} holds too few logged steps to learn their scatter from; name another recorded run")
    together = np.concatenate(relative)
    deviations = np.clip((together - together.mean()) / together.std(), -MOST_DEVIATION, MOST_DEVIATION)
    return np.asarray((deviations - deviations.mean()) / deviations.std())


# Steps scatter as those of a recorded training do. A rank's own time is what it would take alone; all ranks leave a
# step together, when the last one is done, so the others wait. A fault shows only in what it does to the process: time
# in the loader, pauses of the collector, time off the CPU.


CODES = {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4"}
DTYPE = np.dtype([(name, CODES[code]) for name, code in FIELDS])
TOGETHER_SHARE = 0.03  # of a healthy step: what follows the last gradient, on all ranks alike
FIRST_FACTOR, CAPTURED_FACTOR = 5.0, 1.2
SCATTER_SHARE = 0.4  # of the spec's noise: a step averages over its kernels
SAMPLES = 12  # of process and machine, over the run
HOST_CORES, TICKS_PER_S = 96, 100
PULSES = {"garbage_collection": 2, "checkpoint": 3}  # one step in so many is hit, by so many times the share
IN_LOADER = ("loader_single_process", "loader_transform", "loader_workers", "loader_reading")
OFF_CPU = ("host_contention", "unrecorded_stall", "checkpoint", "loader_workers", "loader_reading")
Table = NDArray[np.float64]  # (steps, ranks), in ms


@dataclass(frozen=True)
class Course:
    """The events of every step of every rank; times in ms. ``extra_ms`` is by kind of fault."""

    own_ms: Table
    wall_ms: Table
    extra_ms: dict[str, Table]
    end_ns: NDArray[np.int64]


def first_traced_step(spec: SyntheticSpec) -> int:
    """Number of the first step in the traces: with records, near the end of what was recorded."""
    return 10 if spec.records is None else spec.records.steps - spec.steps - 3


def write_records(spec: SyntheticSpec, step_ms: float, healthy_ms: float, folder: Path) -> None:
    """Write ``monitor/rank*.steps`` and ``.events.jsonl`` for all ranks."""
    assert spec.records is not None
    target = folder / "monitor"
    target.mkdir(parents=True, exist_ok=True)
    course, batch = _course(spec, step_ms, healthy_ms), Workload(batch_size=32)
    for rank in range(spec.ranks):
        host, local = divmod(rank, spec.records.ranks_per_host)
        about = Description(rank, spec.ranks, local, f"node{host:03d}", 4000 + local, BASE_NS, 4096, batch)
        stem = target / about.stem
        stem.with_suffix(".steps").write_bytes(about.pack(STEPS_MAGIC) + _rows(spec, course, rank).tobytes())
        lines = (json.dumps(event) + "\n" for event in _events(spec, course, rank))
        stem.with_suffix(".events.jsonl").write_text("".join(lines), encoding="utf-8")


def _course(spec: SyntheticSpec, step_ms: float, healthy_ms: float) -> Course:
    assert spec.records is not None
    steps = spec.records.steps
    rng = np.random.default_rng([spec.seed, 21])
    scatter = 1.0 + SCATTER_SHARE * spec.noise * rng.choice(recorded_shape(), (steps, spec.ranks))
    drift = 1.0 + spec.drift * np.arange(steps)[:, None] / max(spec.steps, 1)
    own = (1.0 - TOGETHER_SHARE) * healthy_ms * scatter * drift
    extra = {fault.kind: _extra_ms(spec, fault, healthy_ms, rng) for fault in spec.faults}
    added = sum(extra.values(), np.zeros_like(own))
    mean_added = float(added.max(axis=1).mean())
    if mean_added > 0:  # as much as the simulation of the traced steps says that it costs
        scale = max(step_ms - healthy_ms, 0.0) / mean_added
        extra, added = {kind: table * scale for kind, table in extra.items()}, added * scale
    own = own + added
    own[0] *= FIRST_FACTOR
    traced = slice(first_traced_step(spec), first_traced_step(spec) + spec.steps)
    own[traced] *= CAPTURED_FACTOR if spec.traced_ranks != () else 1.0
    together = TOGETHER_SHARE * healthy_ms * (1.0 + 0.05 * rng.random((steps, spec.ranks)))
    wall = own.max(axis=1, keepdims=True) + together
    return Course(own, wall, extra, BASE_NS + (np.cumsum(wall.max(axis=1)) * 1e6).astype(np.int64))


def _extra_ms(spec: SyntheticSpec, fault: FaultSpec, healthy_ms: float, rng: np.random.Generator) -> Table:
    """Time that the fault adds to each rank's own time, before it is scaled to what the simulation says."""
    assert spec.records is not None
    step = np.arange(spec.records.steps)[:, None] - first_traced_step(spec)
    rank = np.arange(spec.ranks)[None, :]
    hit = np.isin(rank, list(range(spec.ranks) if fault.ranks is None else fault.ranks)) & (step == step)
    if fault.steps is not None:  # the pattern of the traced steps, again and again
        hit &= np.isin(step % spec.steps, fault.steps)
    if fault.kind == "garbage_collection":
        hit &= (rank + step) % 2 == 0
    elif fault.kind == "checkpoint":
        hit &= step % 3 == 2
    size = fault.strength * healthy_ms * PULSES.get(fault.kind, 1)
    return np.where(hit, size * (1.0 + 0.08 * rng.standard_normal(hit.shape)).clip(0.2), 0.0)


def _rows(spec: SyntheticSpec, course: Course, rank: int) -> NDArray[np.void]:
    wall = course.wall_ms[:, rank]
    rows = np.zeros(len(wall), DTYPE)
    collected, stolen = _of(course, ("garbage_collection",), rank), _of(course, OFF_CPU, rank)
    rows["sequence"] = rows["step"] = np.arange(len(wall))
    rows["end_unix_ns"] = course.end_ns
    rows["wall_us"] = wall * 1e3
    rows["own_us"] = course.own_ms[:, rank] * 1e3
    rows["data_wait_us"] = 120 + _of(course, IN_LOADER, rank) * 1e3
    rows["gc_us"] = rows["gc_longest_us"] = collected * 1e3
    rows["gc_runs"] = collected > 0
    rows["thread_cpu_us"] = 0.96 * (wall - stolen).clip(0) * 1e3
    rows["voluntary_switches"] = 6
    rows["involuntary_switches"] = 1 + _of(course, ("host_contention",), rank)
    rows["fetches"], rows["samples"] = 1, 32
    rows["in_flight"] = rows["result_queue"] = rows["pinned_queue"] = UNKNOWN_DEPTH
    first = first_traced_step(spec)
    rows["flags"][0] |= FIRST
    if spec.traced_ranks is None or rank in spec.traced_ranks:
        rows["flags"][first : first + spec.steps] |= CAPTURED
        rows["flags"][first + spec.steps] |= CAPTURE_ENDED
    return rows


def _of(course: Course, kinds: tuple[str, ...], rank: int) -> NDArray[np.float64]:
    """Time that the faults of these kinds add to the rank's steps, in ms."""
    chosen = [table[:, rank] for kind, table in course.extra_ms.items() if kind in kinds]
    return sum(chosen, np.zeros(len(course.end_ns)))


def _events(spec: SyntheticSpec, course: Course, rank: int) -> Iterator[dict[str, Any]]:
    assert spec.records is not None
    collected = _of(course, ("garbage_collection",), rank)
    for step in np.flatnonzero(collected > 1.0):
        fields = {"step": int(step), "end_unix_ns": int(course.end_ns[step]), "generation": 2}
        yield {"event": "gc", **fields, "pause_us": int(collected[step] * 1e3), "collected": 0}
    stolen_us = np.cumsum(_of(course, ("host_contention",), rank)) * 1e3
    elapsed_us = np.cumsum(course.wall_ms[:, rank]) * 1e3
    for step in np.unique(np.linspace(0, len(elapsed_us) - 1, SAMPLES).astype(int)):
        elapsed, stolen = float(elapsed_us[step]), float(stolen_us[step])
        used = 0.96 * (elapsed - stolen)
        sample = {"event": "system", "unix_ns": int(course.end_ns[step]), "step": int(step), "threads": 40.0}
        sample |= {"process_cpu_us": round(1.05 * used), "training_cpu_us": round(used)}
        sample |= {"training_run_delay_us": round(0.002 * elapsed + stolen), "throttled_us": 0}
        sample |= {"allowed_cores": HOST_CORES, "cores": HOST_CORES}
        if rank % spec.records.ranks_per_host == 0:  # one rank of a host reports the host
            ticks = elapsed / 1e6 * TICKS_PER_S * HOST_CORES
            idle = ticks * (1.0 - min(1.0, spec.records.ranks_per_host / HOST_CORES + (0.9 if stolen else 0.0)))
            sample |= {"cpu_total_ticks": round(ticks), "cpu_idle_ticks": round(idle), "cpu_steal_ticks": 0}
        yield sample


HOST_NOISE = 0.12  # relative spread of host times


@dataclass(frozen=True)
class Generated:
    """The traces of a run, in order of ranks, and its true mean step time over all steps."""

    paths: tuple[Path, ...]
    step_ms: float


def generate(spec: SyntheticSpec, folder: Path) -> Generated:
    """Write the traces of the run into ``folder``, and the monitor's records of all ranks where the spec has them."""
    clocks = _simulated(spec)
    skew = np.random.default_rng([spec.seed, 99]).uniform(-1, 1, spec.ranks) * spec.clock_skew_us
    by_rank = {clock.rank: clock for clock in clocks}
    traced = range(spec.ranks) if spec.traced_ranks is None else spec.traced_ranks
    folder.mkdir(parents=True, exist_ok=True)
    named = [_with_hostile_names(by_rank[rank], spec) for rank in traced]
    paths = tuple(write_trace(clock, spec, folder, float(skew[clock.rank])) for clock in named)
    step_ms = _step_ms(clocks, spec)
    if spec.records is not None:
        write_records(spec, step_ms, fixed_step_ms(spec), folder)
    return Generated(paths, step_ms)


def fixed_step_ms(spec: SyntheticSpec) -> float:
    """The true mean step time of the same run with every fault fixed."""
    return true_step_ms(spec.without_faults(), simulated_ranks(spec))


def true_step_ms(spec: SyntheticSpec, ranks: Sequence[int] | None = None) -> float:
    """The mean step time of the run as it is, with these ranks simulated (by default those that matter)."""
    return _step_ms(_simulated(spec, ranks), spec)


def _simulated(spec: SyntheticSpec, ranks: Sequence[int] | None = None) -> list[RankClock]:
    chosen = simulated_ranks(spec) if ranks is None else ranks
    steps = [[_items(spec, rank, step) for rank in chosen] for step in range(spec.steps)]
    return simulate(steps, first_traced_step(spec), chosen)


def _items(spec: SyntheticSpec, rank: int, step: int) -> list[Item]:
    place = Place(spec, rank, step, np.random.default_rng([spec.seed, rank, step]))
    speed = 1.0 + spec.drift * step + 0.004 * float(np.random.default_rng([spec.seed, rank]).standard_normal())
    return inject_all([_noisy(item, place, speed) for item in healthy_step(place)], place)


def _noisy(item: Item, place: Place, speed: float) -> Item:
    match item:
        case Call():
            host = item.host_us * (1.0 + HOST_NOISE * abs(float(place.rng.standard_normal())))
            factors = [max(0.5, speed + place.spec.noise * float(place.rng.standard_normal())) for _ in item.work]
            work = tuple(replace(work, us=work.us * by) for work, by in zip(item.work, factors, strict=True))
            return replace(item, host_us=host, work=work)
        case Pause(us=us):
            return replace(item, us=us * (1.0 + HOST_NOISE * abs(float(place.rng.standard_normal()))))
        case Collective(us=us):
            return replace(item, us=us * (1.0 + place.spec.noise * abs(float(place.rng.standard_normal()))))
        case _:
            return item


def _step_ms(clocks: Sequence[RankClock], spec: SyntheticSpec) -> float:
    end = max(row.start_us + row.us for clock in clocks for row in clock.rows)
    begin = min(row.start_us for clock in clocks for row in clock.rows)
    return (end - begin) / spec.steps / 1e3


def _with_hostile_names(clock: RankClock, spec: SyntheticSpec) -> RankClock:
    """The same rank with every fortieth name of an operator, span or kernel replaced by hostile text."""
    if not spec.hostile_names:
        return clock
    names, rows = spec.hostile_names, list[Row]()
    for place, row in enumerate(clock.rows):
        marked = row.name.startswith(("ProfilerStep#", "enumerate(", "nccl", "Memcpy", "cuda"))
        hit = place % 40 == 0 and not marked
        rows.append(replace(row, name=f"{row.name} {names[place // 40 % len(names)]}") if hit else row)
    return replace(clock, rows=rows)
