"""Makes a synthetic run: traces on disk, and the true step time with and without its faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evals.synthetic.faults import inject_all
from evals.synthetic.healthy import healthy_step
from evals.synthetic.items import Call, Collective, Item, Pause, Work
from evals.synthetic.kineto import write_trace
from evals.synthetic.layout import simulated_ranks
from evals.synthetic.models import Place
from evals.synthetic.records import first_traced_step, write_records
from evals.synthetic.simulate import RankClock, Row, simulate
from evals.synthetic.spec import SyntheticSpec

HOST_NOISE = 0.12  # relative spread of host times


@dataclass(frozen=True)
class Generated:
    """The traces of a run, in order of ranks, and its true mean step time over all steps."""

    paths: tuple[Path, ...]
    step_ms: float


def generate(spec: SyntheticSpec, folder: Path) -> Generated:
    """Writes the traces of the run into ``folder``, and the monitor's records of all ranks where the spec has them."""
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
            return replace(item, host_us=host, work=tuple(_noisy_work(work, place, speed) for work in item.work))
        case Pause(us=us):
            return replace(item, us=us * (1.0 + HOST_NOISE * abs(float(place.rng.standard_normal()))))
        case Collective(us=us):
            return replace(item, us=us * (1.0 + place.spec.noise * abs(float(place.rng.standard_normal()))))
        case _:
            return item


def _noisy_work(work: Work, place: Place, speed: float) -> Work:
    factor = max(0.5, speed + place.spec.noise * float(place.rng.standard_normal()))
    return replace(work, us=work.us * factor)


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
