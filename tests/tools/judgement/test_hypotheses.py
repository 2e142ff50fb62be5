"""Hypotheses: proposed for what is unexplained, judged by rules over figures, never supported without one."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path

import pytest

from tests.collective_runs import late_run
from tests.synthetic import RankBuilder, profile_of
from tests.tools.judgement.test_leads import pausing
from tools.analyzers.registry import all_checks
from tools.findings import Fact, Sentence
from tools.judgement.catalog import measure, metrics
from tools.judgement.hypotheses import (
    MISSING,
    Hypothesis,
    Status,
    by_status,
    judged,
    outcome_of,
    propose,
    proposed,
    with_hypotheses,
)
from tools.judgement.lead import Candidate, Lead, Place
from tools.judgement.ranking import Ranking, ranking
from tools.judgement.verdict import EXPLAINING, NO_CAUSE, UNCHECKED
from tools.knowledge.hypothesis_tests import hypothesis_tests
from tools.knowledge.taxonomy import causes
from tools.sources.load import load_run
from tools.views.profile import Profile


def fetching(size_ms: float) -> Hypothesis:
    """Slow fetching as what is behind 100 ms of exposed copies, or another size."""
    return Hypothesis(1, "slow_data_fetching", None, (0,), 1, "exposed_memcpy", "every step", size_ms, 40.0, 0.5, "")


def figure(value: float, unit: str = "ms") -> Fact:
    return Fact("upload_exposed_ms", (("rank", 0),), value, unit, ranks=(0,))


@pytest.fixture(scope="module")
def paused() -> Profile:
    return pausing(200.0)


def test_every_row_of_the_table_names_what_exists() -> None:
    parts = {*EXPLAINING, "compute", "step"}
    for cause, own in hypothesis_tests().items():
        assert cause in causes()
        assert own.record
        for each in own.tests:
            taken = signature(metrics()[each.metric].function).parameters
            assert set(each.arguments) <= set(taken)
            assert set(each.parts) <= parts
            assert set(each.when) <= set(MISSING)
            limits = each.supported_from is not None or each.refuted_below is not None
            assert limits == (each.of == "figure")


@pytest.mark.parametrize(
    ("value_ms", "status"), [(50.0, "supported"), (49.9, "open"), (10.0, "open"), (9.9, "refuted"), (0.0, "refuted")]
)
def test_the_share_of_the_part_decides(paused: Profile, value_ms: float, status: str) -> None:
    after = judged(paused, fetching(100.0), [figure(value_ms)])
    assert after.status == status
    assert after.judged_by is not None
    (cited,) = after.judged_by.facts
    assert cited in (after.against if status == "refuted" else after.evidence)


def test_a_share_of_the_step_is_compared_with_the_share_of_the_part(paused: Profile) -> None:
    assert judged(paused, fetching(100.0), [figure(21.0, "%")]).status == "supported"  # of 40 %
    assert judged(paused, fetching(100.0), [figure(3.9, "%")]).status == "refuted"


def test_any_rank_supports_and_only_all_ranks_refute(paused: Profile) -> None:
    everywhere = replace(fetching(100.0), ranks=(0, 1))
    supported = judged(paused, everywhere, [figure(0.0), figure(60.0)])
    assert (supported.status, [each.value for each in supported.evidence]) == ("supported", [60.0])
    assert judged(paused, everywhere, [figure(0.0), figure(30.0)]).status == "open"
    refuted = judged(paused, everywhere, [figure(0.0), figure(5.0)])
    assert (refuted.status, [each.value for each in refuted.against]) == ("refuted", [0.0, 5.0])


def test_nothing_is_decided_without_a_figure(paused: Profile) -> None:
    after = judged(paused, fetching(100.0), "the run has no monitor samples")
    assert (after.status, after.evidence, after.judged_by) == ("untestable", (), None)


def test_a_test_that_can_only_support_refutes_nothing(paused: Profile) -> None:
    saving = replace(fetching(100.0), cause="checkpoint_stall", part="host")
    first = judged(paused, saving, [figure(0.0)])
    assert (first.status, first.evidence) == ("open", ())
    assert judged(paused, first, [figure(0.0)]).status == "untestable"
    assert judged(paused, first, [figure(80.0)]).status == "supported"


def test_the_candidates_of_leads_are_proposed_with_their_place(paused: Profile) -> None:
    found = ranking(paused)
    hypotheses = propose(paused, found, all_checks(paused), ())
    expected = [(number, each.cause) for number, lead in enumerate(found.leads, 1) for each in lead.candidates]
    assert [(each.lead, each.cause) for each in hypotheses] == expected
    assert [each.number for each in hypotheses] == list(range(1, len(hypotheses) + 1))
    assert {each.size_ms for each in hypotheses} == {lead.impact_ms for lead in found.leads}
    assert propose(paused, found, all_checks(paused), hypotheses) == ()


def test_when_all_candidates_of_a_part_are_refuted_open_checks_propose_further_ones(paused: Profile) -> None:
    found = ranking(paused)
    refuted = [replace(each, status="refuted") for each in propose(paused, found, all_checks(paused), ())]
    further = propose(paused, found, all_checks(paused), refuted)
    assert further
    assert {each.part for each in further} == {"host"}
    assert not {each.cause for each in further} & {each.cause for each in refuted}
    assert all(each.needs for each in further)


def test_refuted_candidates_go_behind_and_the_others_share_their_likelihood(paused: Profile) -> None:
    found = ranking(paused)
    first, *others = propose(paused, found, all_checks(paused), ())
    after = with_hypotheses(found, [replace(first, status="refuted"), *others]).leads[0].candidates
    before = found.leads[0].candidates
    assert [each.cause for each in after] == [*(each.cause for each in before[1:]), before[0].cause]
    assert (after[-1].likelihood, after[-1].why) == (0.0, "refuted by a measurement (H1)")
    assert sum(each.likelihood for each in after) == pytest.approx(sum(e.likelihood for e in before), abs=0.02)
    supported = with_hypotheses(found, [first, *[replace(each, status="supported") for each in others[-1:]]])
    assert supported.leads[0].candidates[0].cause == found.leads[0].candidates[0].cause  # others[-1] is of another lead


def test_waiting_is_not_tested_without_the_traces_of_all_ranks(paused: Profile) -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 0, 100)
    rank.step(0, 0, 200)
    alone = replace(fetching(10.0), cause="straggler", part="exposed_communication")
    assert outcome_of(profile_of(rank), alone) == "exposed_wait_ms needs the traces of all ranks"
    measured = outcome_of(paused, alone)
    assert not isinstance(measured, str)
    assert [each.value for each in measured] == [0.0]


def test_what_a_measurement_supports_stands_in_the_lead_and_in_why_the_verdict_is_open() -> None:
    profile = late_run(lambda rank, _: 3_000.0 if rank == 2 else 0.0)
    place = Place("exposed_communication", (0,), "every step")
    claim = Sentence(f"It takes {{0}}, and {NO_CAUSE}.", (measure(profile, "part_ms", part=place.part, rank=0),))
    lead = Lead(place, claim.facts[0].value, 40.0, claim, (Candidate("straggler", 0.5, "ranks wait"),), "")
    open_ranking = Ranking((), (), "inconclusive", UNCHECKED, leads=(lead,))
    (own,) = propose(profile, open_ranking, all_checks(profile), ())
    outcome = outcome_of(profile, own)
    assert not isinstance(outcome, str)
    after = with_hypotheses(open_ranking, [judged(profile, own, outcome)])
    assert after.leads[0].claim.template == "It takes {0}; by a measurement {1} of it is waiting for rank 2."
    assert after.leads[0].claim.facts[1:] == outcome
    assert "supports a straggler (lead 1)" in after.why
    assert with_hypotheses(open_ranking, [own]).why == UNCHECKED


def test_a_straggler_is_the_rank_that_is_waited_for() -> None:
    profile = late_run(lambda rank, _: 3_000.0 if rank == 2 else 0.0)
    waited = measure(profile, "exposed_wait_ms", rank=0, last_rank=2)
    place = Place("exposed_communication", (0,), "every step")
    claim = Sentence("Exposed communication takes {0}.", (measure(profile, "part_ms", part=place.part, rank=0),))
    lead = Lead(place, waited.value, 40.0, claim, (Candidate("straggler", 0.5, "ranks wait"),), "")
    (own,) = propose(profile, Ranking((), (), "inconclusive", "", leads=(lead,)), all_checks(profile), ())
    assert (own.cause, own.ranks, own.seen_on) == ("straggler", (2,), (0,))
    outcome = outcome_of(profile, own)
    assert not isinstance(outcome, str)
    assert [(dict(each.arguments)["last_rank"], each.value) for each in outcome] == [(2, waited.value)]
    after = judged(profile, own, outcome)
    assert after.status == "supported"
    assert waited.value > 2.0


def test_a_model_proposes_causes_of_the_taxonomy_only(paused: Profile) -> None:
    found = ranking(paused)
    own = proposed(paused, found, "slow_link", ())
    assert own is not None
    assert (own.proposed_by, own.lead, own.status) == ("model", 1, "untestable")
    assert proposed(paused, found, "cosmic rays", ()) is None
    assert proposed(paused, found, "slow_link", [replace(own, number=1)]) is None
    assert proposed(paused, Ranking((), (), "healthy", ""), "slow_link", ()) is None


def test_supported_ones_come_first() -> None:
    each = fetching(100.0)
    statuses: tuple[Status, ...] = ("refuted", "open", "supported", "untestable")
    mixed = [replace(each, number=number, status=status) for number, status in enumerate(statuses, start=1)]
    assert [one.number for one in by_status(mixed)] == [3, 2, 4, 1]


def test_causes_of_low_confidence_are_tested_on_records_without_a_trace() -> None:
    """The part of a rank's step that a trace would show is not asked for: a share of the whole step is too little."""
    recorded = Path(__file__).parents[3] / "evals/lab/recorded/bound_workers/sounds-strong/slow"
    profile = Profile(load_run([recorded / "monitor", recorded / "env.json"]))
    assert not profile.traced
    waiting = replace(fetching(100.0), cause="slow_data_reading", part="data_wait", ranks=())
    assert judged(profile, waiting, [figure(80.0)]).status == "supported"
