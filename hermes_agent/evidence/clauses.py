"""A sentence cut into what is said beside each figure and each citation, so that both can be held together."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hermes_agent.evidence.numbers import CITATION, Figure, figures
from hermes_agent.evidence.verifier import CODE, LIST_MARK, PLACES

MARK = re.compile(r"[,;:()]|\s(?:but|while|whereas)\s")
AND = re.compile(r".*(\sand\s)", re.DOTALL)  # the last: one that joins two words of a name comes before it


@dataclass(frozen=True)
class Clause:
    """One figure, or one citation without a figure, and the words that belong to it.

    ``head`` stands before it, ``tail`` behind it, ``before`` is all of the sentence before ``head``. ``ids`` are those
    cited for it.
    """

    head: str
    tail: str
    before: str
    ids: tuple[str, ...]
    figure: Figure | None = None

    @property
    def text(self) -> str:
        """The clause's own words."""
        return f"{self.head} {self.tail}"


@dataclass(frozen=True)
class _Anchor:
    start: int
    end: int
    ids: tuple[str, ...]
    figure: Figure | None


def clauses(sentence: str) -> list[Clause]:
    """Every figure of a sentence with its words, and every citation that no figure stands before, in order.

    The words between two of them belong to the first as far as the first comma, colon, bracket or "and", and to the
    second from there on; without such a mark they all belong to the second.
    """
    prose = _masked(sentence)
    anchors = _anchors(sentence, prose)
    cut: list[Clause] = []
    head, begin = "", 0
    for place, anchor in enumerate(anchors):
        if place == 0:
            head = prose[: anchor.start]
        last = place + 1 == len(anchors)
        between = prose[anchor.end :] if last else prose[anchor.end : anchors[place + 1].start]
        tail, rest = (between, "") if last else _shared(between)
        cut.append(Clause(head, tail, prose[:begin], anchor.ids, anchor.figure))
        begin, head = anchor.end + len(between) - len(rest), rest
    return _with_brackets(cut, prose, anchors)


def _masked(sentence: str) -> str:
    """The sentence with marks, code and citations blanked and the numbers of ranks and steps taken out, in place."""
    prose = LIST_MARK.sub(lambda mark: " " * len(mark.group()), sentence)
    for opaque in (CODE, CITATION):
        prose = opaque.sub(lambda match: " " * len(match.group()), prose)
    return PLACES.sub(lambda match: re.sub(r"[^A-Za-z]", " ", match["what"]).ljust(len(match.group())), prose)


def _anchors(sentence: str, prose: str) -> list[_Anchor]:
    """Figures with the ids of the next citation, or of the last where none follows; then citations without figure."""
    groups = _groups(sentence)
    numbers = figures(prose)
    found: list[_Anchor] = []
    taken: set[int] = set()
    for figure in numbers:
        place = next((place for place, group in enumerate(groups) if group.start >= figure.start), len(groups) - 1)
        taken.add(place)
        ids = groups[place].ids if groups else ()
        found.append(_Anchor(figure.start, figure.start + len(figure.text), ids, figure))
    found += [group for place, group in enumerate(groups) if place not in taken]
    return sorted(found, key=lambda anchor: anchor.start)


def _groups(sentence: str) -> list[_Anchor]:
    """Citations, those that follow each other directly as one."""
    merged: list[_Anchor] = []
    for match in CITATION.finditer(sentence):
        ids = tuple(part.strip() for part in re.split("[,;]", match.group(1)))
        if merged and not sentence[merged[-1].end : match.start()].strip():
            merged[-1] = _Anchor(merged[-1].start, match.end(), (*merged[-1].ids, *ids), None)
        else:
            merged.append(_Anchor(match.start(), match.end(), ids, None))
    return merged


def _shared(between: str) -> tuple[str, str]:
    closing = re.match(r"\s*\)", between)
    begin = closing.end() if closing else 0
    if mark := MARK.search(between, begin):
        joined = AND.match(between, begin, mark.start())
        first, second = (joined.start(1), joined.end(1)) if joined and mark.group() == "(" else mark.span()
        return between[:first], between[second:]
    if joined := AND.match(between, begin):
        return between[: joined.start(1)], between[joined.end(1) :]
    return "", between


def _with_brackets(cut: list[Clause], prose: str, anchors: list[_Anchor]) -> list[Clause]:
    """A figure in brackets restates the one before it, so that what follows the bracket is said of both."""
    for place in range(len(cut) - 2, -1, -1):
        between = prose[anchors[place].end : anchors[place + 1].start]
        if re.search(r"^[^,;:)]*\(\s*$", between):
            cut[place] = replace(cut[place], tail=f"{cut[place].tail} {cut[place + 1].tail}")
    return cut
