"""How well recall finds and how well it abstains: ``python -m case_library.calibrate`` prints the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.library import BUNDLED_CASES
from case_library.recall import CaseIndex, CaseQuery

if TYPE_CHECKING:
    from case_library.schema import Case

OFF_TOPIC = Path(__file__).parent / "calibration" / "off_topic.txt"
ON_TOPIC = Path(__file__).parent / "calibration" / "on_topic.txt"
TOP = 3


@dataclass(frozen=True)
class LeaveOneOut:
    """Every case looked up among the others; the counts are of cases.

    ``found`` had its cause among the best three, ``family_found`` its family, ``abstained`` got no answer.
    """

    cases: int
    found: int
    family_found: int
    abstained: int

    @property
    def recall(self) -> float:
        """Share of all cases whose cause was among the best three; an abstention counts as a miss."""
        return self.found / self.cases

    @property
    def precision(self) -> float:
        """The same share among the cases that got an answer."""
        return self.found / max(self.cases - self.abstained, 1)


def by_text(case: Case) -> CaseQuery:
    """What a person would write: title and symptom."""
    return CaseQuery(text=f"{case.title}. {case.symptom}")


def by_signals(case: Case) -> CaseQuery:
    """What analyzers see without knowing the cause: family and signals."""
    return CaseQuery(families=(case.family,), signals=tuple(case.signals))


def by_signature(case: Case) -> CaseQuery:
    """What a finding gives: cause, mechanism and signals."""
    mechanisms = (case.mechanism,) if case.mechanism else ()
    return CaseQuery(causes=(case.cause,), mechanisms=mechanisms, signals=tuple(case.signals))


def leave_one_out(index: CaseIndex, cases: Sequence[Case], ask: Callable[[Case], CaseQuery]) -> LeaveOneOut:
    """Ask about each case while it is left out of the library."""
    found = family_found = abstained = 0
    for case in cases:
        hits = index.search(ask(case), limit=TOP, without={case.id}).hits
        found += any(hit.cause == case.cause for hit in hits)
        family_found += any(hit.family == case.family for hit in hits)
        abstained += not hits
    return LeaveOneOut(len(cases), found, family_found, abstained)


def questions(path: Path) -> list[str]:
    """The questions of a file, one per line."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def answered(index: CaseIndex, asked: Sequence[str]) -> list[str]:
    """Those questions that recall did not abstain on."""
    return [text for text in asked if index.search(CaseQuery(text=text)).hits]


def main() -> None:
    """Print the figures of the bundled cases."""
    from case_library.library import load_cases

    cases = load_cases(BUNDLED_CASES)
    with CaseIndex.open(BUNDLED_CASES) as index:
        for ask in (by_text, by_signals, by_signature):
            result = leave_one_out(index, cases, ask)
            family = result.family_found / result.cases
            print(
                f"{ask.__name__:13} recall@{TOP} {result.recall:.3f}  family {family:.3f}  "
                f"precision {result.precision:.3f}  abstained {result.abstained}/{result.cases}"
            )
        for name, path in (("off topic", OFF_TOPIC), ("on topic", ON_TOPIC)):
            asked = questions(path)
            passed = answered(index, asked)
            print(f"{name:13} answered {len(passed)}/{len(asked)}")


if __name__ == "__main__":
    main()
