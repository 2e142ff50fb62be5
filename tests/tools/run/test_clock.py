"""Clocks are aligned by what ranks did together, and only as far as that goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.kineto_text import JsonEvent, kernel, launch, rank_info, span, write_trace
from tools.run.clock import SMALLEST_UNCERTAINTY_NS, estimate
from tools.run.clock_programme import bounded_offsets, excess_ns
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.options import LoadOptions

COLLECTIVE = {"Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100, "dtype": "Float"}
BASE_US = 1_700_000_000_000_000


def group_args(name: str, ranks: list[int]) -> JsonEvent:
    described = {"Process Group Name": name, "Process Group Description": "pg", "Process Group Ranks": str(ranks)}
    return COLLECTIVE | described | {"Group size": len(ranks)}


def rank_events(ends_us: list[float], offset_us: float, args: JsonEvent, rank: int, first: int = 0) -> list[JsonEvent]:
    """One step; all-reduces that end at the given moments and began at a different time on every rank."""
    events = [span("ProfilerStep#1", BASE_US + offset_us, 1_000_000, "user_annotation")]
    for number, end in enumerate(ends_us):
        length = 20.0 + 7 * rank
        events += [
            launch(BASE_US + offset_us + end - 100, 3, first + number),
            kernel("ncclDevKernel_AllReduce_Sum", BASE_US + offset_us + end - length, length, first + number, **args),
        ]
    return events


def load(tmp_path: Path, events: dict[int, list[JsonEvent]]) -> Run:
    for rank, own in events.items():
        write_trace(tmp_path / f"rank{rank}.json", own, distributedInfo=rank_info(rank, len(events)))
    return load_run([tmp_path], LoadOptions(workers=1))


def moments(count: int = 40) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.cumsum(np.random.default_rng(1).uniform(200, 900, count))


def test_known_offsets_are_found_within_their_uncertainty(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    true_us = {0: 0.0, 1: 5000.0, 2: -3200.0, 3: 40.0}
    ends = moments()
    noisy = {rank: (ends + random.normal(0, 3, len(ends))).round(3).tolist() for rank in true_us}
    args = group_args("0", [0, 1, 2, 3])

    run = load(tmp_path, {rank: rank_events(noisy[rank], true_us[rank], args, rank) for rank in true_us})

    for rank, offset_us in true_us.items():
        clock = run.rank(rank).clock
        assert clock.method == "collective_ends"
        assert clock.uncertainty_ns is not None
        assert abs(clock.offset_ns + offset_us * 1000) <= max(clock.uncertainty_ns, 1)
        assert clock.uncertainty_ns < 10_000
    assert len([note for note in run.notes if "clock" in note]) == 3


def test_hosts_with_one_name_but_several_clocks_keep_a_clock_for_each_rank(tmp_path: Path) -> None:
    offsets_us, args = {0: 0.0, 1: 5000.0, 2: -3200.0, 3: 900.0}, group_args("0", [0, 1, 2, 3])
    for rank, offset_us in offsets_us.items():
        file = tmp_path / f"{'ab'[rank // 2]}_{rank}.1700000000000.pt.trace.json"
        events = rank_events(moments().tolist(), offset_us, args, rank)
        write_trace(file, events, distributedInfo=rank_info(rank, 4))

    run = load_run([tmp_path], LoadOptions(workers=1))

    assert [each.host for each in run.ranks] == ["a", "a", "b", "b"]
    for each in run.ranks:  # one clock per host would let collectives end before others have started them
        assert each.clock.method == "collective_ends"
        assert abs(each.clock.offset_ns + offsets_us[each.rank] * 1000) <= (each.clock.uncertainty_ns or 0) + 1


def test_ranks_of_one_known_host_share_its_clock_unless_that_is_impossible(tmp_path: Path) -> None:
    ends = moments()

    def uncertain_offsets(folder: Path, late_us: float, length_us: float) -> list[tuple[int, int | None, str]]:
        folder.mkdir()
        for rank in range(2):
            starts = BASE_US + ends + rank * late_us - length_us
            described = [span("gloo:all_reduce", each, length_us, "user_annotation") for each in starts.tolist()]
            file = folder / f"a_{rank}.1700000000000.pt.trace.json"
            write_trace(file, described, distributedInfo=rank_info(rank, 2))
        run = load_run([folder], LoadOptions(workers=1))
        return [(each.clock.offset_ns, each.clock.uncertainty_ns, each.clock.method) for each in run.ranks]

    leaves_later = uncertain_offsets(tmp_path / "leaves_later", late_us=90, length_us=150)
    other_clock = uncertain_offsets(tmp_path / "other_clock", late_us=900, length_us=150)

    assert leaves_later == [(0, 0, "collective_ends_by_host"), (0, 90_000, "collective_ends_by_host")]
    assert other_clock == [(0, 0, "collective_ends"), (-900_000, SMALLEST_UNCERTAINTY_NS, "collective_ends")]


def test_events_and_steps_are_moved_onto_one_axis(tmp_path: Path) -> None:
    ends, args = moments().round(3).tolist(), group_args("0", [0, 1])

    run = load(tmp_path, {0: rank_events(ends, 0, args, 0), 1: rank_events(ends, -2500, args, 1)})

    first, second = run.ranks
    assert second.clock.offset_ns == 2_500_000
    assert first.steps == second.steps
    assert first.events.frame["start_ns"].iloc[0] == second.events.frame["start_ns"].iloc[0] == 0
    kernels = [rank.events.frame.loc[rank.events.frame["kind"] == 5, "end_ns"].tolist() for rank in run.ranks]
    assert kernels[0] == kernels[1]
    assert run.origin_unix_ns == BASE_US * 1000


def test_a_difference_within_the_uncertainty_moves_nothing(tmp_path: Path) -> None:
    ends, args = moments().round(3).tolist(), group_args("0", [0, 1])

    run = load(tmp_path, {0: rank_events(ends, 0, args, 0), 1: rank_events(ends, 3, args, 1)})

    assert run.rank(1).clock.offset_ns == 0
    assert run.rank(1).clock.uncertainty_ns == SMALLEST_UNCERTAINTY_NS
    assert run.rank(1).steps[0].start_ns == 3000


def test_three_ends_that_scatter_around_nothing_show_no_clock_that_is_off(tmp_path: Path) -> None:
    args = group_args("0", [0, 1])
    late_us = [-3013.0, -2530.0, 40.0]  # as recorded on one machine, whose ranks wait for a busy core
    ends = [10_000.0, 120_000.0, 240_000.0]
    late = [end + each for end, each in zip(ends, late_us, strict=True)]

    run = load(tmp_path, {0: rank_events(ends, 0, args, 0), 1: rank_events(late, 0, args, 1)})

    assert run.rank(1).clock.offset_ns == 0
    assert (run.rank(1).clock.uncertainty_ns or 0) >= 2_530_000


def test_an_estimate_that_would_end_a_collective_before_all_have_started_gives_way(tmp_path: Path) -> None:
    ends = [10_000.0 * (number + 1) for number in range(12)]

    def spans(late_us: float, first_us: float) -> list[JsonEvent]:
        lengths = [first_us, *(1500.0 for _ in ends[1:])]
        lates = [0.0, *(late_us for _ in ends[1:])]
        starts = [BASE_US + end + late - length for end, late, length in zip(ends, lates, lengths, strict=True)]
        described = zip(starts, lengths, strict=True)
        return [span("gloo:all_reduce", start, length, "user_annotation") for start, length in described]

    run = load(tmp_path, {0: spans(0, 100), 1: spans(900, 1500)})

    clock = run.rank(1).clock  # moved by 900 us, rank 1 would leave the first 800 us before rank 0 starts it
    assert clock.method == "collective_ends_kept_possible"
    assert clock.offset_ns == 0
    assert clock.uncertainty_ns == pytest.approx(800_000 - SMALLEST_UNCERTAINTY_NS, abs=1000)


def test_the_convex_programme_is_the_nearest_point_that_keeps_the_limits() -> None:
    design = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, -1.0]])
    spread, measured = np.array([1.0, 2.0, 1.0]), 1000 * np.array([30.0, -10.0, -45.0])
    weighted = design / spread[:, None]
    free = np.linalg.lstsq(weighted, measured / spread, rcond=None)[0]
    least, most = 1000 * np.array([-np.inf, -20.0, -np.inf]), 1000 * np.array([20.0, np.inf, np.inf])
    found = bounded_offsets(design, np.linalg.inv(weighted.T @ weighted), free, least, most)
    assert excess_ns(design @ found, least, most) < 1
    axis = 1000 * np.linspace(-60, 60, 481)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    leads = grid @ design.T
    allowed = ((leads >= least) & (leads <= most)).all(axis=1)
    squares = (((leads - measured) / spread) ** 2).sum(axis=1)
    best = grid[np.flatnonzero(allowed)[squares[allowed].argmin()]]
    assert found == pytest.approx(best, abs=260)


def test_ranks_that_never_met_keep_an_unknown_uncertainty(tmp_path: Path) -> None:
    ends = moments().round(3).tolist()
    events = {
        0: rank_events(ends, 0, group_args("a", [0, 1]), 0),
        1: rank_events(ends, 900, group_args("a", [0, 1]), 1),
        2: rank_events(ends, 0, group_args("b", [2, 3]), 2),
    }

    run = load(tmp_path, events)

    assert run.rank(1).clock.offset_ns == -900_000
    assert run.rank(2).clock.uncertainty_ns is None
    assert run.rank(2).clock.offset_ns == 0


def test_ranks_are_aligned_through_a_third_they_both_met(tmp_path: Path) -> None:
    ends = moments().round(3).tolist()
    left, right = group_args("a", [0, 1]), group_args("b", [1, 2])
    both = rank_events(ends, 700, left, 1) + rank_events(ends, 700, right, 1, first=1000)[1:]
    events = {0: rank_events(ends, 0, left, 0), 1: both, 2: rank_events(ends, -1500, right, 2)}

    run = load(tmp_path, events)

    assert run.rank(1).clock.offset_ns == -700_000
    assert run.rank(2).clock.offset_ns == 1_500_000


def test_collectives_are_not_matched_where_ranks_recorded_different_numbers_of_them(tmp_path: Path) -> None:
    ends, args = moments().round(3).tolist(), group_args("0", [0, 1])

    run = load(tmp_path, {0: rank_events(ends, 0, args, 0), 1: rank_events(ends[1:], 0, args, 1)})

    assert run.rank(1).clock.uncertainty_ns is None


def test_gloo_spans_of_the_host_align_ranks_without_a_device(tmp_path: Path) -> None:
    ends = moments().round(3).tolist()

    def spans(offset: float, length: float) -> list[JsonEvent]:
        return [span("gloo:all_reduce", BASE_US + offset + end - length, length, "user_annotation") for end in ends]

    run = load(tmp_path, {0: spans(0, 30), 1: spans(-4000, 75)})

    assert run.rank(1).clock.offset_ns == 4_000_000


def test_one_rank_needs_no_clock(tmp_path: Path) -> None:
    run = load(tmp_path, {0: rank_events([500.0], 0, group_args("0", [0, 1]), 0)})

    assert estimate(run.ranks)[0].method == "none"
    assert run.rank(0).clock.uncertainty_ns is None


def test_the_ranks_of_dlrm_are_on_one_host_and_stay_together(traces: Path) -> None:
    run = load_run([traces / "param" / "dlrm_8rank"], LoadOptions(workers=1))

    assert run.rank_numbers == tuple(range(8))
    assert [rank.clock.offset_ns for rank in run.ranks] == [0] * 8
    assert [rank.clock.uncertainty_ns for rank in run.ranks[1:]] == [5_000, 7_000, 5_000, 5_000, 5_000, 5_000, 5_000]
    exchanged = {}
    for rank in run.ranks:
        frame = rank.events.frame
        exchange = frame[frame["name"].astype(str).str.startswith("ncclKernel_SendRecv")]
        exchanged[rank.rank] = int((exchange["end_ns"] - exchange["start_ns"]).sum())
    assert min(exchanged, key=exchanged.__getitem__) == 7
    assert (exchanged[7], exchanged[1]) == (389_000, 9_506_000)
