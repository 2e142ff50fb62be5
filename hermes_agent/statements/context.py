"""The diagnosis, ids and names that statements are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord, Diagnosis, EvidenceRecord
from tools.analyzers.registry import checks_for
from tools.knowledge.thresholds import Thresholds

Truth = Literal["present", "absent", "open"]
FIGURE = re.compile(r"\d\s*(?:[mnuµ]?s|%|x|[kKMGT]?i?B)\b|%")
CALL = re.compile(r"[a-z_]+\([a-z_]+=")  # a metric with its arguments, which a model chooses
IN_CODE = re.compile(r"`([^`\n]{1,200})`")


@dataclass(frozen=True)
class CheckContext:
    """A diagnosis with the ids that may be cited; ``names`` are those that may be quoted, as ``quoted`` writes them.

    ``thresholds``: those of the user.
    """

    diagnosis: Diagnosis
    index: EvidenceIndex
    names: frozenset[str] = frozenset()
    thresholds: Thresholds = field(default_factory=Thresholds)

    def found(self, name: str | None) -> CauseRecord | None:
        """The finding of a cause, with its mechanism where one is named."""
        return found_cause(self.diagnosis, name)

    def open_check(self, name: str) -> CheckRecord | None:
        """The check of that name, if it could not be answered."""
        return next((c for c in self.diagnosis.checks if c.analyzer == name and c.status == "cannot_answer"), None)


def found_cause(diagnosis: Diagnosis, name: str | None) -> CauseRecord | None:
    """The finding of ``slow_link`` or ``operator_dispatch:small_operators``."""
    cause, _, mechanism = (name or "").partition(":")
    return next((each for each in diagnosis.causes if each.cause == cause and mechanism in ("", each.mechanism)), None)


def checks_of(diagnosis: Diagnosis, name: str) -> list[CheckRecord]:
    """The checks that look for a cause."""
    cause, _, mechanism = name.partition(":")
    return [check for check in diagnosis.checks if check.analyzer in checks_for(cause, mechanism or None)]


def claim_of(diagnosis: Diagnosis, name: str) -> Truth | None:
    """What holds for a cause; None where a check found something that is not among the causes."""
    if found_cause(diagnosis, name) is not None:
        return "present"
    statuses = {check.status for check in checks_of(diagnosis, name)}
    if not statuses or "cannot_answer" in statuses:
        return "open"
    return "absent" if statuses == {"clean"} else None


def names_of(
    diagnosis: Diagnosis, evidence: Iterable[EvidenceRecord], tool_texts: Iterable[str] = ()
) -> frozenset[str]:
    """The names that may be quoted: devices, hosts, arguments of figures, code in tool results; no figures."""
    recorded = diagnosis.run.recorded
    names = [*diagnosis.run.devices, *(recorded.hosts if recorded else ())]
    measured = (record for record in evidence if record.value)  # of a made-up name nothing is measured
    names += [value for record in measured for value in record.arguments.values() if isinstance(value, str)]
    names += [name for text in tool_texts for name in IN_CODE.findall(text) if not CALL.match(name)]
    return frozenset(quoted(name) for name in names if re.match("[A-Za-z_]", name) and not FIGURE.search(name))
