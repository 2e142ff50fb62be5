"""Hypotheses of a model: proposed for the largest lead, tested and judged by the same rules as all others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from hermes_agent.evidence.citations import without_citations
from hermes_agent.evidence.ledger import ContinuedLedger, Ledger
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import Diagnosis, HypothesisRecord
from hermes_agent.model.events import Emit, HypothesisJudged
from hermes_agent.report.records import hypothesis_record
from tools.findings import Fact
from tools.judgement.hypotheses import Hypothesis, judged, outcome_of, proposed
from tools.judgement.ranking import ranking
from tools.views.profile import Profile

LOG = logging.getLogger("hermes_dx.workflow")

MOST_PROPOSED = 3  # hypotheses of a model
LONGEST_REASON = 300


@dataclass(frozen=True)
class Proposal:
    """A cause of the taxonomy, and the metric of the test to begin with; "" leaves the choice to the table of tests."""

    cause: str
    test: str = ""


class Proposer(Protocol):
    """Proposes further causes for what is unexplained; what the taxonomy or the tests do not know is dropped."""

    def __call__(self, lead: str, known: Sequence[str]) -> Sequence[Proposal]:
        """Proposals for the largest lead, a sentence, beyond the known causes. It never judges."""
        ...


Proposals: TypeAlias = Callable[[Diagnosis, Emit], Proposer]  # the proposer for a diagnosis


def with_proposals(diagnosis: Diagnosis, profile: Profile, proposer: Proposer, emit: Emit) -> Diagnosis:
    """The diagnosis with what testing a model's proposals gave, next to its own hypotheses, which stay as they are."""
    found = ranking(profile)
    if not found.leads or not diagnosis.leads or found.steps_verdict is not None:  # a hang is no part of a step
        return diagnosis
    known = {each.cause for each in diagnosis.hypotheses if each.place == diagnosis.leads[0].id}
    number = max((int(each.id[1:]) for each in diagnosis.hypotheses), default=0)
    ledger, records = ContinuedLedger(diagnosis.evidence), list[HypothesisRecord]()
    for each in proposer(without_citations(diagnosis.leads[0].claim), sorted(known)):
        if len(records) == MOST_PROPOSED or each.cause in known:
            continue
        known.add(each.cause)
        if (hypothesis := proposed(profile, found, each.cause, (), each.test)) is None:
            continue
        hypothesis = replace(hypothesis, number=number + len(records) + 1)
        emit(HypothesisJudged(announced(hypothesis)))
        while hypothesis.test is not None:
            hypothesis = judged(profile, hypothesis, tested(profile, hypothesis))
        emit(HypothesisJudged(announced(hypothesis)))
        records.append(hypothesis_record(hypothesis, ledger))
    more = {"hypotheses": [*diagnosis.hypotheses, *records], "evidence": [*diagnosis.evidence, *ledger.added()]}
    return diagnosis.model_copy(update=more) if records else diagnosis


def tested(profile: Profile, hypothesis: Hypothesis) -> tuple[Fact, ...] | str:
    """The figures of the next test of a hypothesis; why there are none where it gives none or breaks."""
    try:
        return outcome_of(profile, hypothesis)
    except Exception as error:  # the dispatcher's boundary: one figure must not take the diagnosis with it
        LOG.exception("the test of %s failed", hypothesis.cause)
        return printable(f"the test stopped with {type(error).__name__}: {error}", LONGEST_REASON)


def announced(hypothesis: Hypothesis) -> HypothesisRecord:
    """The record of a hypothesis while the diagnosis runs: figures get their ids when it is written."""
    record = hypothesis_record(hypothesis, Ledger())
    bare = {"evidence": [], "evidence_against": [], "judged_by": without_citations(record.judged_by)}
    return record.model_copy(update=bare)
