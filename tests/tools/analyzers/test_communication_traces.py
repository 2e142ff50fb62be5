"""Communication on recorded traces with published facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.questions.answers.ranks import WHOLE_RUN, slowest_per_group
from tests.asked import COMMUNICATION, asking
from tests.real_runs import real_profile
from tools.comparison.compare import compare
from tools.findings import Check
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.communication.arrivals import arrivals, waits
from tools.views.communication.collectives import unmatched
from tools.views.profile import Profile

analyze = asking(*COMMUNICATION)


@pytest.fixture(scope="module")
def dlrm(traces: Path) -> Profile:
    return real_profile(traces / "param" / "dlrm_8rank")


def checks(profile: Profile) -> dict[str, Check]:
    return {check.name: check for check in analyze(profile)}


def test_the_rank_that_arrives_last_is_not_called_the_one_that_takes_longest(dlrm: Profile) -> None:
    (check,) = asking("step_time.slowest_rank")(dlrm)
    (sentence,) = check.support
    assert sentence.template.startswith("Rank 7 arrives last at the collectives")
    assert "rank 5 takes longest" in sentence.template
    assert [fact.value for fact in sentence.facts[1:]] == pytest.approx([11.59, 10.93], abs=0.01)
    assert {group.group: group.slowest for group in slowest_per_group(dlrm)}[WHOLE_RUN] == 5


def test_all_collectives_of_the_eight_ranks_are_matched(dlrm: Profile) -> None:
    assert (len(arrivals(dlrm)), unmatched(dlrm)) == (8, 0)


def test_rank_7_has_the_shortest_send_receives_and_rank_1_the_longest(dlrm: Profile) -> None:
    by_rank = {n: measure(dlrm, "collective_ms", kind="all_to_all", rank=n).value for n in dlrm.run.rank_numbers}
    assert by_rank[7] == pytest.approx(0.389)
    assert by_rank[1] == pytest.approx(9.506)
    assert min(by_rank, key=lambda rank: by_rank[rank]) == 7


def test_the_all_reduces_are_shortest_on_ranks_4_and_5(dlrm: Profile) -> None:
    table = waits(dlrm)
    table = table[table["kind"] == "all_reduce"]
    total = (table["end_ns"] - table["start_ns"]).groupby(table["rank"]).sum().sort_values()
    assert set(total.index[:2]) == {4, 5}


def test_rank_7_is_the_straggler_and_its_delay_is_older_than_the_recording(dlrm: Profile) -> None:
    finding = checks(dlrm)["communication.arrival_skew"].findings[0]
    assert (finding.cause, finding.ranks) == ("straggler", (7,))
    assert finding.impact_ms is not None
    assert finding.impact_ms > 0.2 * dlrm.median_step_ms
    assert any("one step" in sentence.template for sentence in finding.against)
    assert any("began the recorded steps" in sentence.template for sentence in finding.against)


def test_exposed_communication_of_one_rank_of_eight_is_found_with_its_doubt(traces: Path) -> None:
    profile = real_profile(traces / "tracelens" / "mi300_resnet_act_checkpoint.json.gz")
    answers = checks(profile)
    late = answers["communication.arrival_skew"].findings[0]
    assert (late.cause, late.ranks, late.confidence < 0.5) == ("straggler", (), True)
    transfer = answers["communication.transfer"]
    assert (transfer.status, "all ranks" in transfer.needs) == ("cannot_answer", True)
    assert transfer.support[0].facts[0].value < 5e9
    assert answers["communication.exposed"].findings[0].cause == "poor_overlap"


def test_no_overlap_and_hundreds_of_short_all_reduces_are_found(traces: Path) -> None:
    profile = real_profile(traces / "hta" / "df_index_resolver.json.gz")
    answers = checks(profile)
    assert answers["communication.exposed"].findings[0].claim.facts[1].value == 0.0
    many = answers["communication.small_packet"].findings[0]
    assert many.cause == "small_packet"
    assert many.claim.facts[0].value == 404


def test_traces_with_dropped_events_leave_out_what_does_not_match(traces: Path) -> None:
    profile = Profile(
        load_run([traces / "hta" / name for name in ("timeline_analysis.json.gz", "trace_filter.json.gz")])
    )
    assert unmatched(profile) > 0
    table = arrivals(profile)
    assert (table["bytes"] > 0).all()
    assert len(table) >= 3


def test_the_bundled_slow_run_waits_for_rank_1_which_waits_for_data() -> None:
    profile = real_profile(demo_run())
    finding = checks(profile)["communication.arrival_skew"].findings[0]
    assert (finding.cause, finding.ranks, finding.hints["part"]) == ("straggler", (1,), "data_wait")
    assert "slow_data_processing" in finding.symptom_of
    excess = measure(profile, "part_excess_ms", part="data_wait", rank=1).value
    assert finding.claim.facts[0].value == pytest.approx(excess, rel=0.2)
    assert checks(profile)["communication.exposed"].status == "clean"


def test_the_bundled_fixed_run_has_no_late_rank() -> None:
    assert checks(real_profile(demo_fixed_run()))["communication.arrival_skew"].findings == ()


def test_the_bundled_pair_is_comparable_and_differs_in_the_data_wait() -> None:
    comparison = compare(real_profile(demo_run()), real_profile(demo_fixed_run()))
    assert comparison.step.delta < -0.3 * comparison.step.before.value
    assert "data_wait" in {part.name for part in comparison.parts[:2]}
