"""Collections, saves, page faults and retransmissions, as monitor records show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.asked import NETWORK, STEP_TIME, STORAGE, ask, asking
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows, untraced_profile
from tests.synthetic import RankBuilder
from tools.analyzers.storage.saves import RARER
from tools.judgement.ranking import ranking
from tools.knowledge.taxonomy import causes, optimizations
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.run.recorded.records import Interface
from tools.whatif.change import Scale

step_time = asking(*STEP_TIME)
retransmission = asking(*NETWORK)
garbage_collection = asking("cpu.garbage_collection")
page_faults = asking("memory.page_faults")
checkpoint = asking(*STORAGE)


def pausing(rank: int, every: int, phase: int, pause_ms: float = 60.0) -> list[float]:
    return [pause_ms if step % every == phase else 0.0 for step in range(60)]


def test_collections_in_different_steps_on_each_rank_cost_the_sum() -> None:
    pauses = {0: pausing(0, 6, 1), 1: pausing(1, 6, 4)}
    walls = [50.0 + first + second for first, second in zip(pauses[0], pauses[1], strict=True)]
    steps = [step_rows(rank, walls, gc_ms=own, gc_longest_ms=own, gc_runs=1) for rank, own in pauses.items()]
    (check,) = garbage_collection(recorded_profile(records_of(steps)))
    (finding,) = check.findings
    assert finding.ranks == (0, 1)
    cost, longest = finding.claim.facts
    assert cost.value == pytest.approx(20.0, rel=0.05)
    assert longest.value == 60.0
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(19.0, rel=0.05)
    assert any("different steps" in sentence.template for sentence in finding.details)


def test_a_heap_on_one_rank_is_named_there_and_short_collections_are_clean() -> None:
    own = pausing(1, 6, 2)
    steps = [
        step_rows(0, [50.0 + pause for pause in own]),
        step_rows(1, [50.0 + pause for pause in own], gc_ms=own, gc_longest_ms=own),
    ]
    (finding,) = garbage_collection(recorded_profile(records_of(steps)))[0].findings
    assert finding.ranks == (1,)
    quick = step_rows(0, [50.0] * 60, gc_ms=0.2, gc_longest_ms=0.2)
    assert garbage_collection(recorded_profile(records_of([quick])))[0].status == "clean"


def collections(rank: int, steps: pd.DataFrame, every: int, generation: int = 2) -> pd.DataFrame:
    """A long collection of that generation at the end of every so manieth step, as the monitor writes it down later."""
    ends = steps["end_unix_ns"].to_numpy(np.int64)[::every] - 1_000
    table = {"rank": rank, "attempt": 0, "step": 0, "end_unix_ns": ends, "generation": generation}
    return pd.DataFrame(table | {"pause_ms": 30.0, "collected": 0})


@pytest.mark.parametrize(
    ("runs", "every", "generation", "environment", "called"),
    [
        pytest.param(1, 1, 2, {}, True, id="nothing but full collections"),
        pytest.param(132, 1, 2, {}, False, id="as often as the thresholds make them"),
        pytest.param(40, 1, 2, {}, True, id="three times as often"),
        pytest.param(1, 1, 1, {}, False, id="of the middle generation only"),
        pytest.param(100, 1, 2, {"gc_thresholds": (0, 10, 10)}, True, id="automatic ones are switched off"),
        pytest.param(1000, 1, 2, {"gc_enabled": False}, True, id="the collector is disabled"),
        pytest.param(2, 1, 2, {"gc_thresholds": (700, 0, 0)}, False, id="thresholds that make full ones often"),
        pytest.param(1, 1, 2, {"gc_thresholds": ()}, False, id="thresholds not recorded"),
    ],
)
def test_full_collections_that_no_threshold_makes_are_calls(
    runs: int, every: int, generation: int, environment: dict[str, Any], called: bool
) -> None:
    steps = step_rows(0, [90.0] * 60, gc_ms=30.0, gc_longest_ms=30.0, gc_runs=runs)
    records = records_of([steps], environments=[environment_of(0, **environment)])
    records = replace(records, gc=collections(0, steps, every, generation))
    (finding,) = garbage_collection(recorded_profile(records))[0].findings
    assert finding.mechanism == ("explicit_collection" if called else None)
    assert any("gc.collect()" in each.template for each in finding.details) == called


def test_calls_are_counted_against_what_the_thresholds_allow() -> None:
    steps = step_rows(0, [90.0] * 60, gc_ms=30.0, gc_longest_ms=30.0, gc_runs=2)
    profile = recorded_profile(replace(records_of([steps]), gc=collections(0, steps, 1)))
    assert measure(profile, "full_collections_pct", rank=0).value == pytest.approx(50.0)
    assert measure(profile, "automatic_full_pct", rank=0).value == pytest.approx(100.0 / 133)


def test_disabling_the_automatic_collector_alone_disproves_nothing() -> None:
    cause = causes()["garbage_collection"]
    assert "without calls of gc.collect()" in cause.found_by["cpu.garbage_collection"].disproved_by
    for mechanism in (None, *cause.mechanisms):
        assert all("gc.disable()` does not stop" in row.how for row in optimizations(cause.id, mechanism))


def test_of_ranks_that_collect_together_the_one_that_takes_longest_is_named() -> None:
    both = {rank: [own] * 60 for rank, own in ((0, 18.0), (1, 34.0))}
    steps = [step_rows(rank, [60.0] * 60, gc_ms=own, gc_longest_ms=own, gc_runs=1) for rank, own in both.items()]
    (finding,) = garbage_collection(recorded_profile(records_of(steps)))[0].findings
    assert (finding.ranks, finding.also_on) == ((1,), (0,))
    assert "not on all ranks" not in finding.claim.template
    assert any("on rank 0" in each.template and each.facts[0].value == 18.0 for each in finding.details)
    alike = [step_rows(rank, [60.0] * 60, gc_ms=30.0 + rank, gc_longest_ms=31.0, gc_runs=1) for rank in (0, 1)]
    (finding,) = garbage_collection(recorded_profile(records_of(alike)))[0].findings
    assert finding.ranks == (0, 1)


def saving_steps(every: int = 10, stall_ms: float = 150.0) -> list[float]:
    return [50.0 + (stall_ms if step % every == every - 1 else 0.0) for step in range(60)]


def test_periodic_stalls_in_which_the_process_writes_are_a_synchronous_save() -> None:
    steps = step_rows(0, saving_steps())
    records = records_of([steps])
    ends = steps["end_unix_ns"].to_numpy()[9::10]
    system = records.system.copy()
    system["write_bytes"] = 30e6 * np.searchsorted(ends, system["unix_ns"].to_numpy(), side="right")
    profile = recorded_profile(replace(records, system=system))
    check = checkpoint(profile)[0]
    (finding,) = check.findings
    assert (finding.cause, finding.mechanism) == ("checkpoint_stall", "synchronous_save")
    period, excess, cost = finding.claim.facts
    assert period.value == 10
    assert excess.value == pytest.approx(150.0)
    assert cost.value == pytest.approx(150.0 * 6 / 54)
    written, speed = finding.details[0].facts
    assert written.value == pytest.approx(30e6, rel=0.25)
    assert speed.value == pytest.approx(200e6, rel=0.25)
    assert finding.confidence > 0.8
    top = ranking(profile).causes[0]
    assert top.finding.cause == "checkpoint_stall"
    assert top.impact_pct == pytest.approx(100 * cost.value / (50 + cost.value), rel=0.01)
    assert top.method.startswith("monitor:")
    assert top.alone is not None
    assert top.alone.speedup == pytest.approx((50 + cost.value) / 50, rel=0.01)


def test_samples_too_far_apart_to_fall_between_stalls_still_show_when_is_written() -> None:
    steps = step_rows(0, saving_steps(every=5, stall_ms=100.0))
    records = records_of([steps])
    system = records.system[records.system["unix_ns"] % 200_000_000 == 0].copy()
    ends = steps["end_unix_ns"].to_numpy()[4::5]
    system["write_bytes"] = 30e6 * np.searchsorted(ends, system["unix_ns"].to_numpy(), side="right")
    (finding,) = checkpoint(recorded_profile(replace(records, system=system)))[0].findings
    assert finding.mechanism == "synchronous_save"
    assert finding.confidence > 0.8
    assert finding.details[0].facts[0].value == pytest.approx(30e6, rel=0.35)


def test_what_is_written_around_a_few_stalls_alone_is_no_save_of_all_of_them() -> None:
    steps = step_rows(0, saving_steps())
    records = records_of([steps])
    once = int(steps["end_unix_ns"].iloc[39])
    system = records.system.copy()
    system["write_bytes"] = 180e6 * (system["unix_ns"].to_numpy() >= once)
    (finding,) = checkpoint(untraced_profile(replace(records, system=system)))[0].findings
    assert finding.mechanism is None, "five of the six long steps write nothing"
    assert finding.confidence < 0.5
    each = 30e6 * np.searchsorted(steps["end_unix_ns"].to_numpy()[9::10], system["unix_ns"].to_numpy(), side="right")
    (finding,) = checkpoint(untraced_profile(replace(records, system=system.assign(write_bytes=each))))[0].findings
    assert finding.mechanism == "synchronous_save"


def test_bytes_counted_over_several_stalls_are_not_placed_in_them() -> None:
    steps = step_rows(0, saving_steps())
    records = records_of([steps])
    system = records.system.iloc[::12].copy()  # 1.2 s apart, stalls 0.65 s
    system["write_bytes"] = 40e6 * np.arange(len(system))
    (finding,) = checkpoint(untraced_profile(replace(records, system=system)))[0].findings
    assert finding.mechanism == "synchronous_save", "20 MB in each of six stalls of 150 ms"
    assert 0.5 < finding.confidence <= 0.65
    assert [each.template for each in finding.details] == [RARER], "no bytes are placed in the stalls"


def test_recurring_steps_in_which_the_thread_computes_may_evaluate_and_their_lead_names_what_looks_alike() -> None:
    walls = saving_steps()
    profile = untraced_profile(records_of([step_rows(0, walls, thread_cpu_ms=[each - 5.0 for each in walls])]))
    (finding,) = checkpoint(profile)[0].findings
    assert (finding.cause, finding.ranks) == ("evaluation_stall", (0,))
    assert finding.confidence < 0.5
    period, excess, cost, computing = (fact.value for fact in finding.claim.facts)
    assert period == 10
    assert excess == pytest.approx(150.0)
    assert computing == pytest.approx(100.0)
    assert cost == pytest.approx(150.0 * 6 / 54)
    lead = ranking(profile).leads[0]
    assert [each.cause for each in lead.candidates] == ["evaluation_stall", "operator_dispatch", "checkpoint_stall"]
    assert "py-spy dump" in lead.decide_by


def test_recurring_steps_of_which_nothing_else_is_recorded_may_save_or_evaluate() -> None:
    profile = untraced_profile(records_of([step_rows(0, saving_steps())]))
    lead = ranking(profile).leads[0]
    assert [each.cause for each in lead.candidates][:2] == ["checkpoint_stall", "evaluation_stall"]
    assert lead.place.steps == "every 10th step"


def test_periodic_stalls_without_writes_are_a_hypothesis_and_those_of_the_collector_none() -> None:
    (finding,) = checkpoint(recorded_profile(records_of([step_rows(0, saving_steps())])))[0].findings
    assert finding.mechanism is None
    assert finding.confidence < 0.5
    pauses = [150.0 if step % 10 == 9 else 0.0 for step in range(60)]
    collecting = step_rows(0, saving_steps(), gc_ms=pauses)
    assert checkpoint(recorded_profile(records_of([collecting])))[0].status == "clean"


def test_long_steps_that_wait_for_data_by_turns_of_the_workers_are_no_saves() -> None:
    """Of three workers one has a batch ready, one half of it, one none: the median wait is no wait of a usual step."""
    waits = [(0.2, 28.0, 56.0)[step % 3] for step in range(90)]
    steps = step_rows(0, [5.0 + wait for wait in waits], data_wait_ms=waits)
    check = checkpoint(recorded_profile(records_of([steps])))[0]
    assert check.status == "clean"
    assert check.support[0].facts[0].value == 3
    (finding,) = checkpoint(recorded_profile(records_of([step_rows(0, [5.0 + wait for wait in waits])])))[0].findings
    assert finding.cause == "checkpoint_stall"  # the rhythm alone, with nothing recorded that fills it


def test_a_stall_that_the_other_rank_sees_a_step_later_is_one_and_blocked_threads_show_slow_storage() -> None:
    walls = {rank: [50.0] * 60 for rank in (0, 1)}
    for save in range(9, 60, 10):
        walls[save // 10 % 2][save] = 550.0
        for step in (save, min(save + 1, 59)):
            walls[1 - save // 10 % 2][step] = 300.0
    steps = [step_rows(rank, own, thread_cpu_ms=48.0) for rank, own in walls.items()]
    (finding,) = checkpoint(recorded_profile(records_of(steps)))[0].findings
    assert finding.mechanism == "slow_storage"
    assert 0.5 < finding.confidence < 0.8
    assert finding.claim.facts[0].value == 10
    assert finding.claim.facts[1].value == pytest.approx(500.0, rel=0.1)
    running = [step_rows(rank, own, thread_cpu_ms=[each - 2 for each in own]) for rank, own in walls.items()]
    check = checkpoint(recorded_profile(records_of(running)))[0]
    assert check.status == "clean"
    assert check.support[0].facts[1].value == pytest.approx(100.0)


def hesitating(rank: int) -> RankBuilder:
    """A rank whose steps hold 30 ms without any operator."""
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        begin = step * 80_000
        builder.operator("aten::mm", begin + 10, 49_900)
        builder.step(1000 + step, begin, begin + 80_000)
    return builder


def test_a_thread_blocked_in_the_scripts_own_calls_in_every_step_may_be_logging() -> None:
    steps = [step_rows(0, [80.0] * 40, thread_cpu_ms=50.0)]
    (finding,) = checkpoint(recorded_profile(records_of(steps), hesitating))[1].findings
    assert (finding.cause, finding.mechanism) == ("checkpoint_stall", "remote_logging")
    assert [fact.value for fact in finding.claim.facts] == [pytest.approx(30.0), pytest.approx(30.1)]
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(30.0)
    assert finding.confidence < 0.5
    collecting = [step_rows(0, [80.0] * 40, thread_cpu_ms=50.0, gc_ms=25.0)]
    assert checkpoint(recorded_profile(records_of(collecting), hesitating))[1].status == "clean"
    written = records_of(steps, {0: {"write_bytes": 1e6}})
    (finding,) = checkpoint(recorded_profile(written, hesitating))[1].findings
    assert finding.confidence > 0.65
    assert finding.details[0].facts[0].value == pytest.approx(80_000.0)


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        ("<built-in function fsync>", "found"),
        ("<built-in function print>", "found"),
        ("train.py(7): add_scalar", "found"),
        ("train.py(7): send_metrics", "cannot_answer"),
        ("<built-in function sleep>", "clean"),
    ],
)
def test_frames_say_whether_a_blocked_thread_writes_log_lines(frame: str, status: str) -> None:
    def calling(rank: int) -> RankBuilder:
        builder = hesitating(rank)
        for step in range(3):
            builder.event(EventKind.PYTHON, frame, step * 80_000 + 50_000, 29_900)
        return builder

    steps = records_of([step_rows(0, [80.0] * 40, thread_cpu_ms=50.0)])
    check = checkpoint(recorded_profile(steps, calling))[1]
    assert check.status == status
    assert all(finding.confidence > 0.5 for finding in check.findings)


@pytest.mark.parametrize(
    ("columns", "rates"),
    [
        pytest.param({"thread_cpu_ms": 79.0}, {}, id="it computes between the operators"),
        pytest.param({"thread_cpu_ms": 50.0, "data_wait_ms": 29.0}, {}, id="it waits for data"),
        pytest.param({"thread_cpu_ms": 50.0}, {"training_run_delay_us": 0.37e6}, id="it waits for a core"),
        pytest.param({"thread_cpu_ms": 50.0}, {"python_threads_cpu_us": 0.9e6}, id="a side thread is busy"),
    ],
)
def test_time_between_operators_with_another_reason_is_no_logging(
    columns: dict[str, float], rates: dict[str, float]
) -> None:
    records = records_of([step_rows(0, [80.0] * 40, **columns)], {0: rates})
    assert checkpoint(recorded_profile(records, hesitating))[1].status == "clean"


def test_even_steps_are_clean_and_a_trace_alone_is_an_open_question() -> None:
    assert checkpoint(recorded_profile(records_of([step_rows(0, [50.0] * 60)])))[0].status == "clean"


def test_many_page_faults_in_each_step_are_memory_handed_back() -> None:
    profile = recorded_profile(records_of([step_rows(0, [50.0] * 40)], {0: {"minor_faults": 100_000.0}}))
    (finding,) = page_faults(profile)[0].findings
    faults, cost = finding.claim.facts
    assert faults.value == pytest.approx(5000.0)
    assert cost.value == pytest.approx(5000 * 0.002)
    assert page_faults(recorded_profile(records_of([step_rows(0, [50.0] * 40)])))[0].status == "clean"
    few = recorded_profile(records_of([step_rows(0, [50.0] * 40)], {0: {"minor_faults": 60_000.0}}))
    assert page_faults(few)[0].findings[0].confidence < 0.5  # trap and clearing alone would be 3 % of the step


def communicating(rank: int) -> RankBuilder:
    builder = RankBuilder(rank=rank, device=None)
    gloo = builder.host_thread("gloo")
    for step in range(3):
        begin = step * 50_000
        builder.operator("aten::mm", begin + 10, 29_900)
        builder.annotation("gloo:all_reduce", begin + 30_000, 19_900, track=gloo)
        builder.step(1000 + step, begin, begin + 50_000)
    return builder


def test_segments_sent_again_are_a_bad_link() -> None:
    steps = [step_rows(rank, [50.0] * 40) for rank in (0, 1)]
    rates = {rank: {"tcp_sent_segments": 20_000.0, "tcp_retransmitted_segments": 400.0} for rank in (0, 1)}
    check = retransmission(recorded_profile(records_of(steps, rates), communicating))[0]
    (finding,) = check.findings
    assert finding.cause == "slow_link"
    assert finding.claim.facts[0].value == pytest.approx(2.0)
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(0.5 * 19.9, rel=0.05)


def test_few_segments_or_few_lost_ones_are_no_finding() -> None:
    steps = [step_rows(rank, [50.0] * 40) for rank in (0, 1)]

    def status(sent: float, again: float) -> str:
        rates = {rank: {"tcp_sent_segments": sent, "tcp_retransmitted_segments": again} for rank in (0, 1)}
        return retransmission(recorded_profile(records_of(steps, rates)))[0].status

    assert status(5.0, 4.0) == "cannot_answer"
    assert status(400.0, 4.0) == "cannot_answer"
    assert status(20_000.0, 1.0) == "clean"
    assert status(1_000.0, 8.0) == "clean"  # a dozen in all is no rate
    assert status(1_000.0, 20.0) == "found"


def sending(rank: int) -> RankBuilder:
    """A rank whose exposed all-reduces of a known size fill two fifths of its step."""
    builder = RankBuilder(rank=rank, device=None)
    gloo = builder.host_thread("gloo")
    for step in range(3):
        begin = step * 50_000
        builder.operator("aten::mm", begin + 10, 29_900)
        moved = builder.annotation("gloo:all_reduce", begin + 30_000, 19_900, track=gloo)
        sizes = {"group_size": 2, "in_elements": 1_000_000, "out_elements": 1_000_000}
        builder.detail("collectives", moved, collective="allreduce", group="0", dtype="Float", **sizes)
        builder.step(1000 + step, begin, begin + 50_000)
    return builder


def test_others_bytes_on_the_link_share_its_bandwidth() -> None:
    steps = [step_rows(rank, [50.0] * 40) for rank in (0, 1)]
    rates = {rank: {"net_sent_bytes": 400e6, "net_received_bytes": 400e6} for rank in (0, 1)}
    records = records_of(steps, rates)
    hosts = tuple(replace(each, host=f"node-{each.rank}") for each in records.ranks)
    profile = recorded_profile(replace(records, ranks=hosts), sending)
    assert measure(profile, "collective_wire_bytes").value == pytest.approx(4e6)
    assert measure(profile, "foreign_bytes_per_s", rank=0).value == pytest.approx(320e6)
    (finding,) = retransmission(profile)[1].findings
    assert finding.cause == "bandwidth_contention"
    assert finding.claim.facts[1].value == pytest.approx(80.0)
    assert finding.saving is not None
    bus = 4e6 / 19.9e-3  # next to 320 MB/s of others, all of which is the run's on a free link
    assert finding.saving.saved_ms == pytest.approx(19.9 * 320e6 / (bus + 320e6))
    alone = {rank: {"net_sent_bytes": 85e6, "net_received_bytes": 85e6} for rank in (0, 1)}
    quiet = replace(records_of(steps, alone), ranks=hosts)
    assert retransmission(recorded_profile(quiet, sending))[1].status == "clean"


@pytest.mark.parametrize(
    ("variables", "interfaces", "status"),
    [
        pytest.param({"GLOO_SOCKET_IFNAME": "eth1"}, {"eth0": 25_000, "eth1": 1_000}, "found", id="a slower one"),
        pytest.param({"GLOO_SOCKET_IFNAME": "eth0"}, {"eth0": 25_000, "eth1": 1_000}, "clean", id="the fastest"),
        pytest.param(
            {"GLOO_SOCKET_IFNAME": "eth0"}, {"eth0": 1_000, "docker0": 10_000}, "clean", id="the only real one"
        ),
        pytest.param({}, {"eth0": 25_000, "eth1": 1_000}, "clean", id="none named"),
        pytest.param({"GLOO_SOCKET_IFNAME": "eth1"}, {"eth0": None, "eth1": 1_000}, "clean", id="one of unknown speed"),
        pytest.param({"GLOO_SOCKET_IFNAME": "eth1"}, {"eth0": 1_000, "eth1": 1_000}, "clean", id="as fast, delivers"),
        pytest.param({"GLOO_SOCKET_IFNAME": "eth1"}, {"eth0": 50_000, "eth1": 50_000}, "found", id="delivers less"),
        pytest.param({"GLOO_SOCKET_IFNAME": "eth1"}, {"kube-ipvs0": 9_000, "eth1": 1_000}, "clean", id="a virtual one"),
        pytest.param({"GLOO_SOCKET_IFNAME": "bond0"}, {"eth0": 25_000, "bond0": 1_000}, "clean", id="part of a bond"),
        pytest.param({"NCCL_SOCKET_IFNAME": "eth1"}, {"eth0": 25_000, "eth1": 1_000}, "clean", id="not gloo's"),
    ],
)
def test_an_interface_named_by_a_variable_while_a_faster_one_is_there(
    variables: dict[str, str], interfaces: dict[str, int | None], status: str
) -> None:
    there = {name: Interface(1500, speed) for name, speed in interfaces.items()}
    environments = [environment_of(rank, variables=variables, interfaces=there) for rank in (0, 1)]
    records = records_of([step_rows(rank, [50.0] * 40) for rank in (0, 1)], None, None, environments)
    check = retransmission(recorded_profile(records, sending))[2]
    assert check.status == status
    if check.findings:
        (finding,) = check.findings
        assert (finding.mechanism, finding.claim.names, finding.saving) == ("wrong_interface", ("eth1", "eth0"), None)
        half = 0.5 * (interfaces["eth0"] or 0) * 1e6 / 8.0
        assert [part.factor for part in finding.change if isinstance(part, Scale)] == [
            pytest.approx(4e6 / 19.9e-3 / half)
        ] * 2


def test_a_rank_that_is_late_in_the_profiled_steps_alone_costs_the_run_nothing() -> None:
    def late(rank: int) -> RankBuilder:
        builder = RankBuilder(rank=rank, device=None)
        gloo = builder.host_thread("gloo")
        for step in range(3):
            begin, own = step * 100_000, 90_000 if rank else 40_000
            builder.operator("aten::mm", begin + 10, own)
            builder.annotation("gloo:all_reduce", begin + own + 20, 99_900 - own, track=gloo)
            builder.step(1000 + step, begin, begin + 100_000)
        return builder

    equal = [step_rows(rank, [50.0] * 40, own_ms=45.0) for rank in (0, 1)]
    apart = [step_rows(rank, [100.0] * 40, own_ms=90.0 if rank else 40.0) for rank in (0, 1)]
    worth = {}
    for name, steps in (("equal", equal), ("apart", apart)):
        known = ranking(recorded_profile(records_of(steps), late))
        causes = {each.finding.cause: each.impact_pct for each in (*known.causes, *known.below)}
        worth[name] = max((pct for cause, pct in causes.items() if cause in ("straggler", "slow_device")), default=0.0)
    assert worth["equal"] == 0.0
    assert worth["apart"] > 30.0


def test_anomaly_detection_and_unequal_versions_are_reported() -> None:
    steps = [step_rows(rank, [50.0] * 40) for rank in (0, 1)]
    environments = [
        environment_of(0, flags={"anomaly_mode": True}),
        environment_of(1, flags={"anomaly_mode": False}, torch="2.12.0"),
    ]
    check = ask(recorded_profile(records_of(steps, None, None, environments)), "cpu.environment")
    assert {(each.cause, each.mechanism, each.ranks) for each in check.findings} == {
        ("profiling_overhead", "anomaly_detection", (0,)),
        ("environment_configuration", "version_mismatch", (0, 1)),
    }
    debug = [environment_of(rank, variables={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) for rank in (0, 1)]
    (finding,) = ask(recorded_profile(records_of(steps, None, None, debug)), "cpu.environment").findings
    assert (finding.mechanism, finding.ranks) == ("debug_variable", (0, 1))
    assert ask(recorded_profile(records_of(steps)), "cpu.environment").status == "clean"


def test_the_coarse_view_is_asked_of_the_series_and_shows_the_profilers_cost() -> None:
    captured = [step in (57, 58) for step in range(60)]
    walls = [50.0] * 30 + [70.0] * 27 + [140.0] * 3
    steps = step_rows(0, walls, captured=captured)
    checks = {check.name: check for check in step_time(recorded_profile(records_of([steps])))}
    level_figures = [fact.value for sentence in checks["step_time.level"].support for fact in sentence.facts]
    assert level_figures[0] == 50.0
    assert level_figures[-1] == pytest.approx(100.0)
    assert checks["step_time.change_point"].status == "found"
    assert checks["step_time.change_point"].support[0].facts[-1].value == pytest.approx(40.0)


def test_a_shorter_collection_on_another_rank_is_no_lead_of_its_own() -> None:
    def pausing_rank(number: int) -> RankBuilder:
        rank, pause_us = RankBuilder(number, device=None), 34_000.0 if number else 18_000.0
        for step in range(4):
            begin = step * 60_000.0
            rank.step(1000 + step, begin, begin + 60_000.0)
            rank.operator("aten::mm", begin, 10_000.0)
            rank.operator("aten::detach", begin + 10_000.0 + pause_us, 50_000.0 - pause_us)
        return rank

    def leads(collecting: bool) -> int:
        own = [
            step_rows(rank, [60.0] * 60, gc_ms=each, gc_longest_ms=each, gc_runs=1)
            if collecting
            else step_rows(rank, [60.0] * 60)
            for rank, each in ((0, 18.0), (1, 34.0))
        ]
        return len(ranking(recorded_profile(records_of(own), pausing_rank)).leads)

    assert leads(collecting=False) > 0
    assert leads(collecting=True) == 0
