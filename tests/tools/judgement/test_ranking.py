"""What is found is ranked by what removing it would save, and shared milliseconds are counted once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.collective_runs import late_run
from tests.synthetic_runs import host_bound
from tests.tools.judgement.answers import clean, found
from tools.findings import Check, Finding, Saving, Sentence
from tools.judgement.ranking import rank_causes
from tools.views.profile import Profile
from tools.whatif.change import Change, Scale

STEP_MS = 10.0


def removal(profile: Profile, start_us: float, end_us: float) -> Change:
    """The host time between two moments of every step, gone."""
    view = profile.ranks[0]
    starts = view.steps["start_ns"].to_numpy()
    intervals = np.column_stack((starts + round(start_us * 1e3), starts + round(end_us * 1e3)))
    return (Scale(0, int(view.training_tracks[0]), intervals),)


def finding(profile: Profile, cause: str, start_us: float, end_us: float, confidence: float = 0.9) -> Finding:
    """A finding whose removal takes that part of each step away."""
    return Finding(cause, Sentence("made up"), confidence, change=removal(profile, start_us, end_us))


def test_the_larger_saving_comes_first_and_the_impact_is_the_replayed_one() -> None:
    profile = host_bound(STEP_MS)
    ranking = rank_causes(
        profile,
        [
            found("cpu.a", finding(profile, "operator_dispatch", 1000, 2000)),
            found("io.b", finding(profile, "slow_data_processing", 4000, 8000)),
        ],
    )
    assert [each.finding.cause for each in ranking.causes] == ["slow_data_processing", "operator_dispatch"]
    assert [each.impact_ms for each in ranking.causes] == pytest.approx([4.0, 1.0], rel=0.02)
    assert [each.impact_pct for each in ranking.causes] == pytest.approx([40.0, 10.0], rel=0.02)
    assert ranking.verdict == "problem"


def test_the_same_milliseconds_are_promised_once() -> None:
    profile = host_bound(STEP_MS)
    ranking = rank_causes(
        profile,
        [
            found("cpu.a", finding(profile, "garbage_collection", 4000, 8000)),
            found("io.b", finding(profile, "slow_data_processing", 4000, 8000)),
        ],
    )
    assert len(ranking.causes) == 1
    assert ranking.causes[0].impact_ms == pytest.approx(4.0, rel=0.02)
    assert ranking.below[0].impact_ms == pytest.approx(0.0, abs=0.02)


def test_causes_that_share_milliseconds_are_marked_on_both_sides_and_count_them_once() -> None:
    profile = host_bound(STEP_MS)
    parts = (("slow_data_processing", 3000, 7000), ("operator_dispatch", 5000, 8000), ("garbage_collection", 200, 800))
    findings = [finding(profile, cause, float(begin), float(end)) for cause, begin, end in parts]
    ranking = rank_causes(profile, [found(f"cpu.{place}", each) for place, each in enumerate(findings)])
    assert [each.impact_ms for each in ranking.causes] == pytest.approx([4.0, 1.0, 0.6], rel=0.03)
    assert [each.shared_with for each in ranking.causes] == [(2,), (1,), ()]
    assert sum(each.impact_ms for each in ranking.causes) <= STEP_MS


def test_a_symptom_stands_under_its_cause_even_when_it_looks_larger() -> None:
    profile = host_bound(STEP_MS)
    late = Finding(
        "straggler",
        Sentence("rank 1 is late"),
        0.9,
        change=removal(profile, 4000, 8050),
        symptom_of=("slow_data_processing",),
    )
    ranking = rank_causes(
        profile,
        [found("communication.late", late), found("io.b", finding(profile, "slow_data_processing", 4000, 8000))],
    )
    assert [each.finding.cause for each in ranking.causes] == ["slow_data_processing"]
    assert [symptom.cause for symptom in ranking.causes[0].symptoms] == ["straggler"]


@pytest.mark.parametrize(
    ("hypothesis_us", "first"), [(500.0, "slow_data_processing"), (1500.0, "network_configuration")]
)
def test_the_larger_saving_comes_first_however_sure_it_is(hypothesis_us: float, first: str) -> None:
    profile = host_bound(STEP_MS)
    ranking = rank_causes(
        profile,
        [
            found("network", finding(profile, "network_configuration", 3000, 3000 + hypothesis_us, confidence=0.4)),
            found("io.b", finding(profile, "slow_data_processing", 1000, 2000)),
        ],
    )
    assert ranking.causes[0].finding.cause == first
    assert ranking.verdict == "problem", "one of them is well supported"


def test_thin_evidence_alone_is_inconclusive() -> None:
    profile = host_bound(STEP_MS)
    checks = [found("network", finding(profile, "network_configuration", 3000, 9000, confidence=0.4))]
    assert rank_causes(profile, checks).verdict == "inconclusive"


def test_small_findings_do_not_make_a_problem() -> None:
    profile = host_bound(STEP_MS)
    checks: list[Check] = [
        found("io.b", finding(profile, "slow_data_processing", 1000, 1300)),
        clean("memory.allocation"),
    ]
    assert rank_causes(profile, checks).verdict != "problem"


def test_nothing_found_in_a_step_that_hardly_computes_is_not_called_healthy() -> None:
    profile = host_bound(STEP_MS)
    assert rank_causes(profile, [clean("memory.allocation")]).verdict == "inconclusive"


def test_savings_from_records_share_the_exposed_communication_that_there_is() -> None:
    profile = late_run(lambda rank, _: 4000.0 * rank, ranks=2)
    exposed_ms = float(profile.breakdown.groupby("rank")["exposed_communication_ns"].mean().max()) / 1e6
    step_ms = profile.mean_step_ms
    several = [
        Finding(cause, Sentence("made up"), 0.9, saving=Saving(step_ms, exposed_ms, 0.0, exposed_ms, "made up"))
        for cause in ("slow_link", "bandwidth_contention", "poor_overlap")
    ]
    ranked = rank_causes(profile, [found(f"communication.made_up_{each.cause}", each) for each in several])
    assert exposed_ms > 1.0
    assert sum(each.impact_ms for each in (*ranked.causes, *ranked.below)) == pytest.approx(exposed_ms)


@pytest.mark.parametrize("pause_us", [300.0, 3000.0], ids=["small", "large"])
def test_a_cause_explains_no_symptom_that_is_worth_far_more_than_itself(pause_us: float) -> None:
    profile = host_bound(STEP_MS)
    launching = Finding(
        "operator_dispatch",
        Sentence("made up"),
        0.95,
        change=removal(profile, 4000, 8000),
        symptom_of=("garbage_collection",),
    )
    pauses = finding(profile, "garbage_collection", 8000, 8000 + pause_us, confidence=0.6)
    ranking = rank_causes(profile, [found("cpu.a", launching), found("cpu.b", pauses)])
    assert [each.finding.cause for each in ranking.causes] == ["operator_dispatch", "garbage_collection"]


def measured(cause: str, impact_ms: float, symptom_of: tuple[str, ...] = ()) -> Finding:
    """A finding that no replay can remove."""
    return Finding(cause, Sentence("made up"), 0.9, impact_ms=impact_ms, impact_method="made up", symptom_of=symptom_of)


@pytest.mark.parametrize(("late_ms", "listed"), [(4.4, [4.0, 4.0]), (5.5, [5.5, 4.0])], ids=["same loss", "more"])
def test_what_is_explained_is_worth_more_than_its_explanation_only_beyond_the_error(
    late_ms: float, listed: list[float]
) -> None:
    profile = host_bound(STEP_MS)
    late = measured("straggler", late_ms, ("slow_data_processing",))
    checks = [found("communication.late", late), found("io.b", finding(profile, "slow_data_processing", 4000, 8000))]
    causes = rank_causes(profile, checks).causes
    assert [each.impact_ms for each in causes] == pytest.approx(listed, rel=0.02)
    assert (causes[0].finding.cause == "straggler") == (late_ms > 5.0)
