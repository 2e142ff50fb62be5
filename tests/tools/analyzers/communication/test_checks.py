"""Late ranks, data skew, overlap, small and slow messages, on runs with known answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.asked import COMMUNICATION, ask, asking
from tests.collective_runs import COMPUTE_US, TAIL_US, TRANSFER_US, all_reduce, in_one_machine, late_run, lone_run
from tests.synthetic import RankBuilder, profile_of
from tools.analyzers.support.excess import balance
from tools.findings import Check, Finding
from tools.knowledge.thresholds import Thresholds
from tools.metrics.registry import measure, measurement
from tools.run.model import Layout
from tools.views.profile import Profile
from tools.whatif.change import Scale

analyze = asking(*COMMUNICATION)

LATE_US = 2000.0


def check(profile: Profile, name: str) -> Check:
    return ask(profile, f"communication.{name}")


def only(profile: Profile, name: str) -> Finding:
    answer = check(profile, name)
    assert answer.status == "found"
    return answer.findings[0]


@cache
def straggling(how: str = "compute", late: int = 2, ranks: int = 4, steps: int = 5) -> Profile:
    return late_run(lambda rank, step: LATE_US if rank == late else 0.0, ranks=ranks, steps=steps, how=how)


def test_one_ranks_exposed_communication_is_said_to_hold_waiting() -> None:
    alone = check(lone_run([[(1 << 20, 20.0)]] * 3), "exposed")
    together = check(straggling(), "exposed")
    assert (alone.status, together.status) == ("clean", "clean")
    assert "waiting for other ranks included" in alone.support[0].template
    assert "not waiting" in together.support[0].template


def test_a_rank_that_is_late_in_every_step_is_the_straggler() -> None:
    finding = only(straggling(), "arrival_skew")
    assert (finding.cause, finding.ranks, finding.steps) == ("straggler", (2,), (0, 1, 2, 3, 4))
    waiting, share = finding.claim.facts
    assert waiting.value == pytest.approx(LATE_US / 1e3)
    assert share.value == pytest.approx(100.0)
    assert finding.confidence > 0.7


@pytest.mark.parametrize(
    ("how", "part", "cause"),
    [
        ("compute", "compute", "slow_device"),
        ("host", "host", "garbage_collection"),
        ("data", "data_wait", "slow_data_processing"),
    ],
)
def test_lateness_is_traced_into_the_part_in_which_the_rank_took_longer(how: str, part: str, cause: str) -> None:
    profile = straggling(how)
    finding = only(profile, "arrival_skew")
    assert finding.hints["part"] == part
    assert cause in finding.symptom_of
    assert measure(profile, "part_excess_ms", part=part, rank=2).value == pytest.approx(LATE_US / 1e3, rel=0.01)
    assert all(isinstance(scale, Scale) and scale.rank == 2 for scale in finding.change)


def test_the_change_brings_the_late_rank_to_the_level_of_the_others() -> None:
    scale = only(straggling("compute"), "arrival_skew").change[0]
    assert isinstance(scale, Scale)
    assert scale.factor == pytest.approx(COMPUTE_US / (COMPUTE_US + LATE_US))
    assert scale.factor < scale.cautious_factor < 1.0


def test_one_late_rank_among_many_is_found_although_r_wait_is_small() -> None:
    profile = straggling(late=7, ranks=16)
    assert measure(profile, "wait_ratio_pct").value < 10.0
    assert only(profile, "arrival_skew").ranks == (7,)


def test_ranks_that_are_late_together_are_stragglers_together_and_not_data_skew() -> None:
    profile = late_run(lambda rank, step: LATE_US + (rank + step) % 2 if rank in (2, 3) else 0.0, ranks=6, steps=8)
    finding = only(profile, "arrival_skew")
    assert (finding.cause, finding.ranks) == ("straggler", (2, 3))
    assert finding.claim.facts[0].value == pytest.approx(LATE_US / 1e3, abs=0.002)
    assert {scale.rank for scale in finding.change} == {2, 3}


def test_one_recorded_step_makes_a_straggler_less_certain_and_says_so() -> None:
    finding = only(straggling(steps=1), "arrival_skew")
    assert finding.confidence <= 0.6
    assert any("one step" in sentence.template for sentence in finding.against)


def test_lateness_from_before_the_recording_has_no_change_but_an_impact_and_a_method() -> None:
    builders = []
    for number in range(3):
        rank = RankBuilder(number)
        begin = 3000.0 if number == 1 else 0.0
        rank.kernel("sgemm", begin + 20, 1000, call_us=begin + 10)
        all_reduce(rank, begin + 1020, 4520 - begin - 1020, call_us=begin + 15)
        rank.step(0, begin, 4600)
        builders.append(rank)
    finding = only(profile_of(*builders), "arrival_skew")
    assert (finding.cause, finding.ranks, finding.change) == ("straggler", (1,), ())
    assert finding.impact_ms == pytest.approx(3.0)
    assert "waiting" in finding.impact_method
    assert any("began the recorded steps" in sentence.template for sentence in finding.against)


def test_a_late_rank_that_changes_from_step_to_step_is_data_skew() -> None:
    profile = late_run(lambda rank, step: LATE_US if rank == step % 4 else 0.0, steps=8)
    finding = only(profile, "arrival_skew")
    assert (finding.cause, finding.ranks) == ("data_skew", (0, 1, 2, 3))
    assert finding.claim.facts[0].value == pytest.approx(0.75 * LATE_US / 1e3)
    assert "garbage_collection" in finding.symptom_of


def test_balancing_shortens_each_long_computation_to_the_mean_of_its_step() -> None:
    profile = late_run(lambda rank, step: LATE_US if rank == step % 2 else 0.0, ranks=2, steps=4)
    change = balance(profile)
    assert [scale.rank for scale in change] == [0, 0, 1, 1]
    expected = (COMPUTE_US + LATE_US / 2) / (COMPUTE_US + LATE_US)
    assert [scale.factor for scale in change if isinstance(scale, Scale)] == pytest.approx([expected] * 4)


def test_waiting_that_a_single_step_makes_up_is_chance_and_neither_straggler_nor_skew() -> None:
    late = {(1, 0): 300.0, (1, 1): 3000.0, (0, 2): 900.0, (1, 3): 40.0, (1, 4): 1000.0}
    profile = late_run(lambda rank, step: late.get((rank, step), 0.0), ranks=2)
    assert measure(profile, "wait_share_pct", rank=1).value > 80.0
    answer = check(profile, "arrival_skew")
    assert (answer.status, answer.findings) == ("cannot_answer", ())


def test_too_few_steps_with_a_changing_late_rank_cannot_be_answered() -> None:
    profile = late_run(lambda rank, step: LATE_US if rank == step % 2 else 0.0, ranks=2, steps=2)
    answer = check(profile, "arrival_skew")
    assert answer.status == "cannot_answer"
    assert "twenty steps" in answer.needs


def test_ranks_that_arrive_together_are_clean_with_the_numbers_that_show_it() -> None:
    answer = check(late_run(lambda rank, step: 10.0 * rank), "arrival_skew")
    assert answer.status == "clean"
    assert answer.support[0].facts[0].value == pytest.approx(0.015)


def test_from_one_rank_alone_waiting_and_transfer_cannot_be_separated() -> None:
    answer = check(lone_run([[(1000, 50.0)]]), "arrival_skew")
    assert answer.status == "cannot_answer"
    assert "other ranks" in answer.needs


def test_traces_without_a_common_collective_cannot_be_answered() -> None:
    first, second = RankBuilder(0), RankBuilder(1)
    all_reduce(first, 10, 20, elements=64)
    all_reduce(second, 10, 20, elements=128)
    for rank in (first, second):
        rank.step(0, 0, 100)
    answer = check(profile_of(first, second), "arrival_skew")
    assert (answer.status, "matched" in answer.reason) == ("cannot_answer", True)


def test_a_job_of_one_rank_without_collectives_is_clean_and_a_larger_one_cannot_be_answered() -> None:
    rank = RankBuilder(0)
    rank.kernel("sgemm", 10, 50)
    rank.step(0, 0, 100)
    alone = analyze(profile_of(rank, layout=Layout(world_size=1)))
    assert [each.status for each in alone] == ["clean"]
    assert alone[0].support[0].facts[0].value == 0
    assert [each.status for each in analyze(profile_of(rank, layout=Layout(world_size=8)))] == ["cannot_answer"]


def test_exposed_transfer_that_computation_could_hide_is_poor_overlap() -> None:
    profile = lone_run([[(1 << 20, 1500.0)]] * 4, compute_us=1000.0)
    finding = only(profile, "exposed")
    assert (finding.cause, finding.family) == ("poor_overlap", "parallel")
    share, overlap, hideable = finding.claim.facts
    wall_us = 20 + 1000 + 1500 + 1
    assert share.value == pytest.approx(100.0 * 1500 / wall_us)
    assert overlap.value == 0.0
    assert hideable.value == pytest.approx(2.0 / 3.0)  # gradients exist during the backward pass only
    scale = finding.change[0]
    assert isinstance(scale, Scale)
    assert scale.factor == pytest.approx(1.0 - 1000 * 2 / 3 / 1500)
    assert any("waiting for another rank" in sentence.template for sentence in finding.against)


def test_poor_overlap_is_no_verdict_where_ranks_of_the_job_were_not_traced() -> None:
    enough = Thresholds()["confidence"]
    run = late_run(lambda *_: 0.0, ranks=2, transfer_us=COMPUTE_US).run
    found = {
        world: only(Profile(replace(run, layout=Layout(world_size=world))), "exposed").confidence for world in (2, 64)
    }
    assert found[64] < enough <= found[2]


def test_waiting_for_a_late_rank_is_not_poor_overlap() -> None:
    profile = straggling()
    assert measure(profile, "part_pct", part="exposed_communication").value > 25.0
    answer = check(profile, "exposed")
    assert answer.status == "clean"
    wall_us = 20 + COMPUTE_US + LATE_US + TRANSFER_US + TAIL_US
    assert answer.support[0].facts[1].value == pytest.approx(100.0 * TRANSFER_US / wall_us)


def test_much_exposed_communication_without_computation_to_hide_it_has_no_finding() -> None:
    answer = check(lone_run([[(1 << 20, 5000.0)]] * 3, compute_us=20.0), "exposed")
    assert (answer.status, answer.findings) == ("found", ())
    assert answer.support[-1].facts[0].value == pytest.approx(0.02 * 2 / 3)


def test_many_small_messages_are_found_by_the_fixed_part_of_their_duration() -> None:
    # t = 40 us + bytes / 10 GB/s
    messages = [(elements, 40 + elements * 4 / 10_000) for elements in (1000, 2000, 4000, 8000) * 5]
    finding = only(lone_run([messages] * 4), "small_packet")
    assert finding.cause == "small_packet"
    fixed_pct = 100.0 * 20 * 40 / (20 * 40 + sum(elements for elements, _ in messages) * 4 / 10_000)
    count, fixed_ms, share = finding.details[0].facts
    assert count.value == 20
    assert fixed_ms.value == pytest.approx(0.04, rel=1e-3)
    assert share.value == pytest.approx(fixed_pct, rel=1e-3)
    assert finding.claim.facts[0].value == pytest.approx(19 * 0.04, rel=1e-3)


def test_noise_of_the_large_messages_does_not_move_the_fixed_part_of_the_small_ones() -> None:
    noise = {4_000_000: 1.15, 8_000_000: 0.9, 16_000_000: 1.1}
    sizes = (1000, 2000, 4000, *noise)
    messages = [(size, (40 + size * 4 / 10_000) * noise.get(size, 1.0)) for size in sizes]
    fixed = measure(lone_run([messages] * 4), "collective_fixed_ms", kind="all_reduce", group="0").value
    assert fixed == pytest.approx(0.04, rel=0.1)


def test_large_messages_are_clean() -> None:
    messages = [(elements, 40 + elements * 4 / 10_000) for elements in (4_000_000, 8_000_000)]
    assert check(lone_run([messages] * 4), "small_packet").status == "clean"


def test_a_fixed_part_too_long_for_a_start_is_waiting_and_not_a_small_message() -> None:
    messages = [(elements, 5000 + elements * 4 / 10_000) for elements in (1000, 2000, 4000)]
    answer = check(lone_run([messages] * 4), "small_packet")
    assert (answer.status, answer.needs) == ("cannot_answer", "the traces of the other ranks for the same steps")


def test_a_hundred_short_collectives_of_unknown_size_are_found_with_what_asking_for_them_costs() -> None:
    rank = RankBuilder(0)
    for index in range(100):
        at = 100.0 * index
        rank.operator("c10d::allreduce_", at, 80)
        rank.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(a)", at + 85, 10, call_us=at + 70)
    rank.step(0, 0, 10_000)
    finding = only(profile_of(rank, layout=Layout(world_size=2)), "small_packet")
    assert finding.claim.facts[0].value == 100
    # The device waits from each span's start to the launch call's end, and while the launch is under way it idles.
    assert finding.claim.facts[1].value == pytest.approx(100 * 0.072)


def test_bandwidth_below_any_link_of_one_machine_is_a_matter_of_its_configuration() -> None:
    slow = in_one_machine(late_run(lambda rank, step: 0.0, ranks=2, elements=1 << 18), devices=2)
    finding = only(slow, "transfer")
    assert finding.cause == "network_configuration"
    # 1 MiB in 500 us, factor 2 (n - 1)/n = 1
    assert finding.claim.facts[0].value == pytest.approx((1 << 20) / 500e-6)
    fast = in_one_machine(late_run(lambda rank, step: 0.0, ranks=2, elements=1 << 20), devices=2)
    assert check(fast, "transfer").status == "clean"


def test_bandwidth_between_machines_is_shown_but_not_judged() -> None:
    answer = check(late_run(lambda rank, step: 0.0, ranks=2, elements=1 << 18), "transfer")
    assert answer.status == "cannot_answer"
    assert answer.support[0].facts[0].value == pytest.approx((1 << 20) / 500e-6)


def test_a_slow_link_is_never_named_from_one_set_of_peers() -> None:
    answer = check(straggling(), "slow_link")
    assert (answer.status, bool(answer.needs)) == ("cannot_answer", True)


def test_thresholds_move_the_answers() -> None:
    run = straggling().run
    strict = Profile(run, Thresholds({"noted_pct": 60.0}))
    assert check(strict, "arrival_skew").status == "clean"


@pytest.mark.parametrize("how", ["compute", "host", "data"])
def test_every_fact_measures_again_to_the_same_value(how: str) -> None:
    profile = straggling(how)
    facts = [
        fact
        for each in analyze(profile)
        for sentence in (*each.support, *(part for f in each.findings for part in (f.claim, *f.details, *f.against)))
        for fact in sentence.facts
    ]
    assert len(facts) > 8
    again = Profile(replace(profile.run), profile.thresholds)
    for fact in facts:
        assert measurement(again, fact.metric, **dict(fact.arguments)).value == fact.value
        assert len(measurement(again, fact.metric, **dict(fact.arguments)).rows()) > 0


def test_templates_hold_no_digit_but_the_numbers_of_ranks() -> None:
    for profile in (straggling(), lone_run([[(1 << 20, 1500.0)]] * 4)):
        for each in analyze(profile):
            for finding in each.findings:
                for sentence in (finding.claim, *finding.details, *finding.against):
                    bare = sentence.template.format(*[""] * len(sentence.facts), **{f"n{i}": "" for i in range(3)})
                    assert not any(letter.isdigit() for letter in bare.lower().replace("rank 2", "")), bare


def test_collectives_that_the_host_asks_for_and_no_device_runs_are_counted() -> None:
    """In a job of one rank an all-reduce exchanges nothing."""
    rank = RankBuilder()
    rank.kernel("gemm", 10, 900, call_us=5)
    for at in range(3):
        rank.annotation("nccl:all_reduce", 20 + 50 * at, 10)
    rank.step(0, 0, 1000)
    answer = check(profile_of(rank, layout=Layout(world_size=1)), "exposed")
    assert answer.status == "clean"
    assert "none of them runs on the device" in answer.support[0].template
    assert answer.support[0].facts[0].value == 3
