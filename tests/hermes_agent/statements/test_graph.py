"""Causal statements are edges of the diagnosis; what is none is shown as a guess or dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_agent.evidence.index import evidence_index
from hermes_agent.evidence.spent_parts import parts_of
from hermes_agent.model.diagnosis import Diagnosis, HypothesisRecord
from hermes_agent.statements.attempt import GUESS, rendered
from hermes_agent.statements.checks import faults_of, is_guess
from hermes_agent.statements.context import CheckContext, claim_of
from hermes_agent.statements.graph import edge_of
from hermes_agent.statements.record import Claim, Part, Statement
from tests.hermes_agent.statements.slow_loader import diagnosis, id_of
from tools.knowledge.taxonomy import causes
from tools.knowledge.thresholds import Thresholds

CAUSE = "slow_data_processing"
WAIT = id_of("part_ms", part="data_wait", rank=0)
HOST = id_of("part_pct", part="host")


def causal(
    cause: str,
    claim: Claim = "present",
    ranks: tuple[int, ...] = (),
    part: Part | None = None,
    evidence: tuple[str, ...] = (),
    text: str = "",
) -> Statement:
    return Statement(
        kind="causal", cause=cause, claim=claim, ranks=list(ranks), part=part, evidence=list(evidence), text=text
    )


def context(*hypotheses: HypothesisRecord, **changes: object) -> CheckContext:
    known = diagnosis().model_copy(update={"hypotheses": list(hypotheses), **changes})
    return CheckContext(known, evidence_index(known))


def hypothesis(cause: str, status: str, next_test: str = "") -> HypothesisRecord:
    return HypothesisRecord.model_validate({"id": "H1", "cause": cause, "status": status, "next_test": next_test})


def faults(made: Statement, known: CheckContext | None = None) -> str:
    return "; ".join(faults_of(made, known or context()))


def test_a_cause_on_its_rank_in_its_part_with_its_figure_is_an_edge() -> None:
    made = causal(CAUSE, ranks=(0,), part="data_wait", evidence=(WAIT,))
    assert faults(made) == ""
    text = rendered(made, context())
    assert text.startswith("Cause 1: Too few data loader workers on rank 0, in data wait (40.0 ms [")
    assert text.endswith(f" step). See [{WAIT}].")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (causal(CAUSE, ranks=(1,)), "was found on rank 0, not on rank 1"),
        (causal(CAUSE, part="compute"), "slow_data_processing spends data_wait, not compute"),
        (causal(CAUSE, ranks=(0,), part="exposed_memcpy"), "slow_data_processing spends data_wait, not exposed_memcpy"),
        (causal(CAUSE, part="host"), "slow_data_processing spends data_wait, not host"),
        (causal(CAUSE, evidence=(HOST,)), "is no evidence of slow_data_processing"),
        (causal(CAUSE, "guess"), "the diagnosis found slow_data_processing; its claim is present"),
        (Statement(kind="measured", text=f"The wait for data is {{{WAIT}}}.", ranks=[0]), "only a statement of kind"),
    ],
)
def test_what_leaves_the_edge_is_refused(made: Statement, reason: str) -> None:
    assert reason in faults(made)


def open_with_part() -> tuple[str, Part]:
    """A cause that this run neither shows nor rules out, and a part that it could spend."""
    for name in causes():
        if claim_of(diagnosis(), name) == "open" and "data_wait" in parts_of(name):
            return name, "data_wait"
    raise AssertionError("every cause of data wait was checked")


@pytest.mark.parametrize("claim", ["present", "guess"])
def test_a_cause_that_stays_open_is_shown_as_the_models_guess(claim: Claim) -> None:
    name, part = open_with_part()
    made, known = causal(name, claim, ranks=(0,), part=part), context()
    assert faults(made) == ""
    assert is_guess(made, known)
    text = rendered(made, known)
    assert text.startswith(GUESS)
    assert ", in data wait. Not established by this run: " in text
    assert "[E" not in text


@pytest.mark.parametrize(
    ("made", "known", "reason"),
    [
        (causal("slow_link"), context(), "no noticeable part of this step to spend"),
        (causal("slow_link", part="compute"), context(), "slow_link spends exposed_communication, not compute"),
        (causal(open_with_part()[0], ranks=(9,)), context(), "the run has no rank 9"),
        (causal(open_with_part()[0], evidence=(WAIT,)), context(), "a guess has no text and no evidence"),
        (causal(open_with_part()[0], text="Python runs."), context(), "a guess has no text and no evidence"),
        (causal("slow_link"), context(hypothesis("slow_link", "refuted")), "is refuted; it is no guess"),
    ],
)
def test_a_guess_that_the_run_rules_out_or_that_says_more_is_dropped(
    made: Statement, known: CheckContext, reason: str
) -> None:
    assert reason in faults(made, known)


def test_the_users_own_threshold_decides_which_part_is_noticeable() -> None:
    known = replace(context(), thresholds=Thresholds({"guess_part_pct": 0.0}))
    assert faults(causal("slow_link"), known) == ""


def test_an_open_hypothesis_may_be_guessed_and_named_as_unknown() -> None:
    known = context(hypothesis("slow_link", "untestable", "Record the link counters."))
    assert faults(causal("slow_link"), known) == ""
    assert rendered(causal("slow_link"), known).startswith(f"{GUESS} a slow link (H1, untestable). Not established")
    unknown = Statement(kind="unknown", cause="slow_link")
    assert faults(unknown, known) == ""
    assert rendered(unknown, known).startswith("A slow link: could not be checked (")


def test_an_open_hypothesis_makes_a_found_cause_no_less_known() -> None:
    known = context(hypothesis(CAUSE, "open"))
    assert "the diagnosis found slow_data_processing" in faults(Statement(kind="unknown", cause=CAUSE), known)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (Statement(kind="unknown", text="It is open.", evidence=[WAIT]), "what is not assessable needs its check"),
        (Statement(kind="unknown", cause=CAUSE), "the diagnosis found slow_data_processing"),
        (Statement(kind="measured", text="A step runs."), "needs the slot of a figure"),
        (Statement(kind="predicted", text=f"The wait for data would be {{{WAIT}}}."), "the slot of a predicted figure"),
    ],
)
def test_every_kind_rests_on_what_it_needs(made: Statement, reason: str) -> None:
    assert reason in faults(made)


def test_the_ranks_that_a_found_cause_stands_for_are_on_its_edge() -> None:
    first = diagnosis().causes[0].model_copy(update={"stands_for": [(4, 6)]})
    widened: Diagnosis = diagnosis().model_copy(update={"causes": [first]})
    edge = edge_of(widened, CAUSE)
    assert edge is not None
    assert edge.ranks == {0, 4, 5, 6}


def widened(evidence: list[str], impact_ms: float) -> Diagnosis:
    """The diagnosis with other evidence and another impact of its first cause."""
    changed = {"evidence": evidence, "impact_ms_per_step": impact_ms}
    return diagnosis().model_copy(update={"causes": [diagnosis().causes[0].model_copy(update=changed)]})


@pytest.mark.parametrize(
    ("impact_ms", "parts"),
    [(4.0, {"data_wait", "host"}), (30.0, {"data_wait"}), (42.0, {"data_wait"})],  # data wait 40 ms, host 4.5 ms
)
def test_without_a_part_in_its_evidence_a_cause_spends_what_can_hold_its_impact(
    impact_ms: float, parts: set[str]
) -> None:
    edge = edge_of(widened([], impact_ms), CAUSE)
    assert edge is not None
    assert edge.parts == parts


def test_the_part_is_measured_on_the_ranks_of_the_cause() -> None:
    known = widened([], 30.0)
    own = known.breakdown[0].model_copy(update={"exposed_memcpy_ms": 35.0, "data_wait_ms": 1.0})
    rows = [row for row in known.breakdown if row.step is not None]
    other = known.breakdown[0].model_copy(update={"rank": 1, "step": None})
    edge = edge_of(known.model_copy(update={"breakdown": [*rows, own.model_copy(update={"step": None}), other]}), CAUSE)
    assert edge is not None
    assert edge.parts == {"exposed_memcpy"}


def test_where_no_step_was_split_into_parts_only_the_evidence_names_one() -> None:
    for evidence, parts in (([WAIT], {"data_wait"}), ([], set())):
        edge = edge_of(widened(evidence, 30.0).model_copy(update={"breakdown": []}), CAUSE)
        assert edge is not None
        assert edge.parts == parts


def test_a_straggler_spends_its_own_part_and_what_the_others_wait_in_communication() -> None:
    found = diagnosis().causes[0].model_copy(update={"cause": "straggler", "mechanism": None, "evidence": [HOST]})
    row = diagnosis().breakdown[0].model_copy(update={"step": None, "host_ms": 40.0})
    other = row.model_copy(update={"rank": 1, "exposed_communication_ms": 45.0})
    edge = edge_of(diagnosis().model_copy(update={"causes": [found], "breakdown": [row, other]}), "straggler")
    assert edge is not None
    assert edge.parts == {"host", "exposed_communication"}
