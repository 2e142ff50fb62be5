"""A diagnosis under discussion: its records, and what was measured and recalled since."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from inspect import signature

from case_library.retrieval.query import CaseHit, CaseQuery, Recall
from hermes_agent.evidence.cases import recalled
from hermes_agent.evidence.citations import written
from hermes_agent.evidence.index import EvidenceIndex, evidence_index
from hermes_agent.evidence.journal import Journal
from hermes_agent.evidence.ledger import ContinuedLedger, render
from hermes_agent.evidence.session_ids import CitedRecord, GivenIds, cited_records
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, CauseRecord, CheckRecord, Diagnosis, EvidenceRecord
from hermes_agent.questions.material import Material
from tools.agent_tools.context import measured_on
from tools.errors import UsageError
from tools.findings import Argument, Fact, Sentence
from tools.judgement.catalog import metrics
from tools.views.profile import Profile

METRIC_SLOT = re.compile(r"\{([a-z]+_\w+)(?::([^{}]*))?\}")


class Discussion:
    """Everything an answer is made from. Figures and cases keep their ids, with a journal across sessions."""

    def __init__(
        self,
        diagnosis: Diagnosis,
        material: Material,
        journal: Journal | None = None,
        results: ResultStore | None = None,
        given: GivenIds | None = None,
    ) -> None:
        """``given``: the ids of the session, which open what they were given out for."""
        self.diagnosis = diagnosis
        self.material = material
        self.given = given or GivenIds()
        self._journal = journal or Journal(None)
        self.ledger = ContinuedLedger(diagnosis.evidence, self._journal, self.given)
        self.results = results or ResultStore()

    def profile(self) -> Profile:
        """The run; raises InputError when it can no longer be read."""
        return self.material.profile()

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A figure measured now on the run, arguments that are None left out; UsageError where the run has none."""
        return measured_on(self.profile(), metric, arguments)

    def measured(self, metric: str, **arguments: Argument) -> Fact | None:
        """The same, None where the run has none."""
        try:
            return self.measure(metric, **arguments)
        except UsageError:
            return None

    def values(self, metric: str, ranks: Iterable[int]) -> dict[int, float]:
        """The figure of each rank that has it."""
        facts = {rank: self.measured(metric, rank=rank) for rank in ranks}
        return {rank: fact.value for rank, fact in facts.items() if fact is not None}

    def figure(self, metric: str, **arguments: Argument) -> str:
        """A figure measured now, written out and cited."""
        return self.say("{0}", self.measure(metric, **arguments))

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = (), **scope: Argument) -> str:
        """The sentence with every figure written out and cited.

        ``{0}`` places a fact, ``{n0}`` a name of the run, and ``{part_ms:part=host}`` a figure measured now, with
        those arguments of ``scope`` that the metric takes. Raises UsageError where the run has no such figure.
        """
        found = list(facts)

        def place(slot: re.Match[str]) -> str:
            taken = signature(metrics()[slot[1]].function).parameters
            own = dict(pair.split("=", 1) for pair in slot[2].split(",")) if slot[2] else {}
            typed = {name: int(value) if value.isdecimal() else value for name, value in own.items()}
            found.append(self.measure(slot[1], **{n: value for n, value in scope.items() if n in taken} | typed))
            return f"{{{len(found) - 1}}}"

        return render(Sentence(METRIC_SLOT.sub(place, template), tuple(found), names), self.ledger)

    def recall(self, query: CaseQuery, limit: int = 3) -> Recall:
        """Similar cases from the library."""
        return self.material.cases().search(query, limit)

    def case(self, hit: CaseHit) -> CaseRecord:
        """The record of a recalled case; a case that has an id keeps it."""
        for record in self.diagnosis.cases:
            if record.case == hit.id:
                return record
        earlier = next((record.id for record in self.given.of(CaseRecord) if record.case == hit.id), "")
        return self._journal.add_case(
            lambda other: other.case == hit.id,
            lambda identifier: recalled(earlier or identifier, hit),
            max([self.given.last.get("C", 0), *(int(record.id[1:]) for record in self.diagnosis.cases)]),
        )

    @property
    def evidence(self) -> dict[str, EvidenceRecord]:
        """All figures by id, old and new."""
        return {record.id: record for record in (*self.diagnosis.evidence, *self.ledger.added())}

    def cited(self) -> tuple[CitedRecord, ...]:
        """Everything that has an id by now, in this diagnosis and in answers about it."""
        return (*cited_records(self.diagnosis), *self.ledger.added(), *self._journal.cases())

    @property
    def cases(self) -> tuple[CaseRecord, ...]:
        """All recalled cases, old and new."""
        return (*self.diagnosis.cases, *self._journal.cases())

    @cached_property
    def advice(self) -> dict[str, AdviceRecord]:
        """All advice by id."""
        return {item.id: item for item in self.diagnosis.advice}

    def check(self, analyzer: str) -> CheckRecord | None:
        """The outcome of a check by its name; None where it was not made."""
        return next((each for each in self.diagnosis.checks if each.analyzer == analyzer), None)

    @property
    def open_checks(self) -> list[CheckRecord]:
        """The checks that could not be answered."""
        return [check for check in self.diagnosis.checks if check.status == "cannot_answer"]

    @property
    def ranks(self) -> list[int]:
        """The ranks of the run: those with a trace, else those with records."""
        run = self.diagnosis.run
        return run.ranks or (run.recorded.ranks if run.recorded else [])

    def index(self) -> EvidenceIndex:
        """The ids that an answer may cite at this moment."""
        return evidence_index(self.diagnosis, self.ledger.added(), self._journal.cases())

    def impact(self, cause: CauseRecord) -> EvidenceRecord | None:
        """The figure of what a listed cause costs a step."""
        records = (self.evidence.get(name) for name in cause.evidence)
        return next((each for each in records if each is not None and each.metric == "cause_impact_ms"), None)


def cited(record: EvidenceRecord) -> str:
    """A figure of the ledger with its citation."""
    return f"{written(record.value, record.unit)} [{record.id}]"
