"""The playbook pages, ``playbooks/<cause>.md``, and the cases of each cause counted.

People write the pages; their blocks between ``<!-- name -->`` and ``<!-- end -->`` are generated:
``python -m case_library.playbook --write`` renews them, without ``--write`` it names what is stale.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.library import CaseError, load_cases
from tools.knowledge.taxonomy import EFFORTS, Optimization, causes

if TYPE_CHECKING:
    from case_library.schema import Case

ENOUGH = 3  # confirmed cases below which a cause is thin
PLAYBOOKS = Path(__file__).parent / "playbooks"
SECTIONS = ("How it looks", "Look-alikes", "How to fix", "How to verify", "Cases")
BLOCKS = ("taxonomy", "advice", "cases")
RENEW = "run `python -m case_library.playbook --write`"
CONFIDENCE = ("high", "medium", "low")
BLOCK = re.compile(r"<!-- (?P<name>[a-z]+) -->\n.*?<!-- end -->", re.DOTALL)


def tally(cases: Iterable[Case]) -> dict[str, Counter[str]]:
    """Return for each cause of the taxonomy its cases by confidence, and how many are confirmed and private."""
    counts: dict[str, Counter[str]] = {cause: Counter() for cause in causes()}
    for case in cases:
        counts[case.cause].update(
            {case.confidence: 1, "cases": 1, "private": case.private, "confirmed": confirmed(case)}
        )
    return counts


def confirmed(case: Case) -> bool:
    """Return whether the source confirms the cause, rather than guessing it."""
    return case.confidence != "low"


def read_playbook(cause: str, folder: Path = PLAYBOOKS) -> str:
    """Return the page of a cause as it is stored; raises ``CaseError`` where there is none."""
    path = folder / f"{cause}.md"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path} cannot be read ({type(error).__name__}); install hermes-dx again.") from error


def printed(page: str) -> str:
    """A page without the marks of its generated blocks."""
    return re.sub(r"<!-- [a-z]+ -->\n", "", page)


def renewed(page: str, cause: str, cases: Iterable[Case]) -> str:
    """Return a page with its generated blocks made again."""
    parts = {
        "taxonomy": _taxonomy(cause),
        "advice": "\n".join(map(_advice, causes()[cause].advice)),
        "cases": case_list(case for case in cases if case.cause == cause),
    }

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- {name} -->\n{parts[name]}\n<!-- end -->" if name in parts else match[0]

    return BLOCK.sub(block, page)


def faults(cases: Iterable[Case], folder: Path = PLAYBOOKS) -> Iterator[str]:
    """Yield the faults of the pages: one that is missing, lacks a section or a block, or is stale."""
    chosen = list(cases)
    for cause in causes():
        path = folder / f"{cause}.md"
        if not path.is_file():
            yield f"{path} is missing; every cause has a playbook page."
            continue
        page = read_playbook(cause, folder)
        missing = [name for name in SECTIONS if f"\n## {name}\n" not in page]
        missing += [f"<!-- {name} -->" for name in BLOCKS if f"<!-- {name} -->\n" not in page]
        if missing:
            yield f"{path} lacks {', '.join(missing)}; add it."
        if renewed(page, cause, chosen) != page:
            yield f"{path} is stale: its cases, advice or taxonomy have changed; {RENEW}."


def case_list(cases: Iterable[Case]) -> str:
    """Return the confirmed cases, surest first, as a Markdown list; then the ids of the others."""
    ordered = sorted(cases, key=lambda case: (CONFIDENCE.index(case.confidence), case.id))
    lines = [_case(case) for case in ordered if confirmed(case)] or ["No confirmed case yet."]
    if guessed := [_link(case) for case in ordered if not confirmed(case)]:
        lines += ["", f"Cause not confirmed by the source: {', '.join(guessed)}."]
    return "\n".join(lines)


def _taxonomy(cause: str) -> str:
    known = causes()[cause]
    signals = "".join(f"\n- {signal}" for signal in known.signals)
    names = known.mechanism_names.items()
    listed = ", ".join(f"{name.phrase} (`{mechanism}`)" for mechanism, name in names)
    mechanisms = f"\n\nMechanisms: {listed}." if listed else ""
    return f"Cause `{cause}`, family `{known.family}`. Symptoms:\n{signals}{mechanisms}"


def _advice(row: Optimization) -> str:
    about = [f"`{row.mechanism}`"] if row.mechanism else []
    about += [f"on {' or '.join(row.hardware)}"] if row.hardware else []
    where = f" ({', '.join(about)})" if about else ""
    effort = EFFORTS.get(row.effort, "unknown")
    return f"- **{row.title()}**{where}: {row.how}.\n  Effort: {effort}. Risk: {row.risk}. To check: {row.verify}."


def _case(case: Case) -> str:
    about = ", ".join(part for part in (case.mechanism or "", case.confidence, str(case.source.year or "")) if part)
    text = f"{case.title.rstrip('.')} ({about}). Effect: {case.effect.rstrip('.')}."
    return f"- {_link(case)}: {text.replace('<!--', '')}"


def _link(case: Case) -> str:
    return f"[{case.id}]({case.source.url})" if case.source.url else f"`{case.id}`"


def main() -> int:
    """Name the faults of the pages, or with ``--write`` renew them; 1 if anything is wrong in the end."""
    cases = load_cases()
    if sys.argv[1:] == ["--write"]:
        for path in sorted(PLAYBOOKS.glob("*.md")):
            path.write_text(renewed(path.read_text(encoding="utf-8"), path.stem, cases), encoding="utf-8")
    problems = list(faults(cases))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
