"""What statements are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord, Diagnosis, EvidenceRecord
from tools.analyzers.registry import checks_for

IN_CODE = re.compile(r"`([^`\n]{1,200})`")


@dataclass(frozen=True)
class CheckContext:
    """A diagnosis with the ids that may be cited; ``names`` are those that may be quoted, as ``quoted`` writes them."""

    diagnosis: Diagnosis
    index: EvidenceIndex
    names: frozenset[str] = frozenset()

    def found(self, name: str | None) -> CauseRecord | None:
        """The finding of a cause, with its mechanism where one is named."""
        cause, _, mechanism = (name or "").partition(":")
        fits = (each for each in self.diagnosis.causes if each.cause == cause and mechanism in ("", each.mechanism))
        return next(fits, None)

    def open_check(self, name: str) -> CheckRecord | None:
        """The check of that name, if it could not be answered."""
        return next((c for c in self.diagnosis.checks if c.analyzer == name and c.status == "cannot_answer"), None)

    def checks_of(self, name: str) -> list[CheckRecord]:
        """The checks that look for a cause."""
        cause, _, mechanism = name.partition(":")
        wanted = checks_for(cause, mechanism or None)
        return [check for check in self.diagnosis.checks if check.analyzer in wanted]


def names_of(
    diagnosis: Diagnosis, evidence: Iterable[EvidenceRecord], tool_texts: Iterable[str] = ()
) -> frozenset[str]:
    """The names that may be quoted: devices, hosts, arguments of figures, and code in results of tools."""
    recorded = diagnosis.run.recorded
    names = [*diagnosis.run.devices, *(recorded.hosts if recorded else ())]
    names += [value for record in evidence for value in record.arguments.values() if isinstance(value, str)]
    names += [name for text in tool_texts for name in IN_CODE.findall(text)]
    return frozenset(quoted(name) for name in names)
