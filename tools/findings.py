"""The records that analyzers return. A number reaches a reader only as a ``Fact``, which can be measured again."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tools.knowledge.taxonomy import causes
from tools.whatif.change import Change

Argument: TypeAlias = str | int | float | None
RunName = Literal["run", "baseline"]
CheckStatus = Literal["found", "clean", "cannot_answer"]
ONE_RANK = re.compile(r"\brank\b", re.IGNORECASE)
PLAIN_WORD = re.compile(r"[A-Z][a-z-]*")


@dataclass(frozen=True)
class Fact:
    """One figure of a run, and the call that gives it again: ``measure(profile, metric, **arguments)``."""

    metric: str
    arguments: tuple[tuple[str, Argument], ...]
    value: float
    unit: str
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    window_ns: tuple[int, int] | None = None
    path: str = ""
    selector: str = ""
    run: RunName = "run"  # which of the runs at hand it was measured on

    @property
    def key(self) -> tuple[RunName, str, tuple[tuple[str, Argument], ...]]:
        """Equal for two facts of the same measurement."""
        return self.run, self.metric, self.arguments


@dataclass(frozen=True)
class Sentence:
    """Text without figures: ``{0}`` is rendered as value, unit and citation of ``facts[0]``, ``{n0}`` as a name."""

    template: str
    facts: tuple[Fact, ...] = ()
    names: tuple[str, ...] = ()


PLACE = re.compile(r"\{(n?)(\d+)\}")


def followed(first: Sentence, second: Sentence) -> Sentence:
    """Both as one, the figures and names of the second one after those of the first."""
    before = {"": len(first.facts), "n": len(first.names)}
    text = PLACE.sub(lambda match: f"{{{match[1]}{int(match[2]) + before[match[1]]}}}", second.template)
    return Sentence(f"{first.template} {text}", (*first.facts, *second.facts), (*first.names, *second.names))


def on_its_rank(sentence: Sentence, ranks: Collection[int], told: int | None = None) -> tuple[Sentence, int | None]:
    """A sentence about several ranks, naming the one rank that all of its figures are of; that rank, None if not named.

    Nothing is added where the sentence names a rank itself, or the reader was ``told`` already that it is of that one.
    """
    measured = {fact.ranks for fact in sentence.facts}
    if len(ranks) < 2 or len(measured) != 1 or ONE_RANK.search(sentence.template):
        return sentence, None
    own = measured.pop()
    if len(own) != 1 or own[0] == told:
        return sentence, None
    first, _, rest = sentence.template.partition(" ")
    begin = first.lower() if PLAIN_WORD.fullmatch(first) else first
    return replace(sentence, template=f"On rank {own[0]}: {begin} {rest}"), own[0]


@dataclass(frozen=True)
class Saving:
    """The saving of a step without a cause, where no replay shows it; ``least_ms`` and ``most_ms`` bound it."""

    step_ms: float  # mean of the steps it was measured on
    saved_ms: float
    least_ms: float
    most_ms: float
    method: str  # "monitor: time the training thread waited for a core"
    error_ms: float = 0.0  # standard error of the saving, where it rests on few events
    same_samples: bool = False  # of the time for as many samples as a step has now: the step itself may grow
    resampled_ms: tuple[float, float] | None = None  # the 80 % interval of the saving where few steps may stand for all
    at_most: bool = False  # the saving is the most that it can be; how much less it is, nothing recorded shows
    outside_ms: float = 0.0  # of a step that ``step_ms`` does not hold and that stays
    bound_ms: float | None = None  # more than this cannot be saved, however far predictions of its kind have been off
    of_series: bool = False  # counted in the unprofiled steps, so no recording without steps limits it


@dataclass(frozen=True)
class Finding:
    """A cause that an analyzer holds to be present.

    Its impact comes from a replay of ``change``, else from ``saving``, else from ``impact_ms`` and ``impact_method``.
    """

    cause: str
    claim: Sentence
    confidence: float  # 0..1, from the margin by which the defining thresholds are passed
    mechanism: str | None = None
    ranks: tuple[int, ...] = ()
    also_on: tuple[int, ...] = ()  # further ranks that spend time on it, behind which no other rank is held up
    steps: tuple[int, ...] = ()
    change: Change = ()
    impact_ms: float | None = None
    impact_method: str = ""
    saves_nothing: bool = False  # its impact of 0 is known; without this, 0 with a reason is a cost that nobody knows
    saving: Saving | None = None
    details: tuple[Sentence, ...] = ()  # further evidence for
    against: tuple[Sentence, ...] = ()  # evidence against
    disproved_by: str = ""  # what observation would refute the claim
    signals: tuple[str, ...] = ()  # short phrases, used to recall similar cases
    symptom_of: tuple[str, ...] = ()  # causes which, when found too, explain this one
    hints: dict[str, str] = field(default_factory=dict)  # names for the advice text, e.g. {"call": "aten::item"}

    def __post_init__(self) -> None:
        known = causes().get(self.cause)
        if known is None:
            raise ValueError(f"{self.cause} is not a cause of the taxonomy")
        if self.mechanism is not None and self.mechanism not in known.mechanisms:
            raise ValueError(f"{self.mechanism} is not a mechanism of {self.cause}")
        if self.saving is not None and self.change:
            raise ValueError("a finding is replayed or brings its saving along, not both")

    @property
    def unpriced(self) -> bool:
        """Whether nothing at hand shows what it costs; ``impact_method`` says why."""
        without = not self.change and self.saving is None and not self.impact_ms
        return without and bool(self.impact_method) and not self.saves_nothing

    @property
    def family(self) -> str:
        """Family of the cause."""
        return causes()[self.cause].family


@dataclass(frozen=True)
class Check:
    """The outcome of one check. "Could not look" is never shown as healthy."""

    name: str  # "io.data_loader"
    status: CheckStatus
    findings: tuple[Finding, ...] = ()
    support: tuple[Sentence, ...] = ()  # when clean: the numbers that show it
    reason: str = ""  # when it cannot be answered
    needs: str = ""  # what to record so that it can be
