"""Advice put to the test: the run after the change against what was predicted, and what is drafted from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from case_library.draft import objections, private_case, store
from hermes_agent.evidence.case_draft import case_fields
from hermes_agent.evidence.citations import written as figure
from hermes_agent.model.diagnosis import AdviceRecord, CauseRecord, Diagnosis
from hermes_agent.model.display import cause_heading, cause_title
from hermes_agent.run_comparison import RunComparison, compared
from tools.errors import InputError, UsageError
from tools.knowledge.taxonomy import causes, known_mechanism

if TYPE_CHECKING:
    from case_library.schema import Case
    from tools.views.profile import Profile

Outcome = Literal["confirmed", "faster", "slower", "no_change"]
LONGEST = 1900  # characters of a text of a case, which may have 2000


@dataclass(frozen=True)
class RunOf:
    """One side: the diagnosis of a run and the run itself; ``path`` is its folder or file."""

    diagnosis: Diagnosis
    profile: Profile
    path: Path


@dataclass(frozen=True)
class Confirmation:
    """What a change brought. Speedups are the mean step before over the one after; ``inside`` is None without a range.

    ``gone`` is whether the cause of the advice is no longer found in the run after the change. ``confirmed`` needs that
    and a gain inside the range, without a range one beyond the spread of the steps; else a shorter step is ``faster``.
    """

    advice: AdviceRecord
    cause: CauseRecord
    outcome: Outcome
    before_ms: float
    after_ms: float
    measured: float
    predicted: float | None
    interval: tuple[float, float] | None
    inside: bool | None
    gone: bool
    noise_pct: float  # of the step before; a smaller change is within noise
    comparison: RunComparison

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words."""
        title = cause_title(self.cause.cause, self.cause.mechanism)
        lines = [self.comparison.headline, f"Measured speedup {figure(self.measured, 'x')}; {self._prediction()}"]
        match self.outcome:
            case "confirmed":
                lines.append(f"The step became shorter, which supports {title} as a cause.")
            case "faster":
                lines.append(f"The step became shorter, but this does not show that {title} was the reason.")
            case "slower":
                lines.append(f"The step became longer, so this run does not confirm {title}.")
            case "no_change":
                lines.append(
                    f"The change is within noise ({self.noise_pct:g} %), so this run does not confirm {title}."
                )
        still = "is no longer found" if self.gone else "is still found"
        lines.append(f"{cause_heading(self.cause.cause, self.cause.mechanism)}: {still} in the run after the change.")
        return (*lines, *self.comparison.notes)

    def _prediction(self) -> str:
        if self.predicted is None:
            return "none was predicted."
        if self.interval is None:
            return f"predicted at most {figure(self.predicted, 'x')}."
        low, high = (figure(each, "x") for each in self.interval)
        where = "inside" if self.inside else "outside"
        return f"predicted {figure(self.predicted, 'x')} ({low} to {high}): {where} the 80 % range."


def confirm(before: RunOf, after: RunOf, advice_id: str) -> Confirmation:
    """Measure what following an advice brought; raises UsageError for unknown advice, NotComparableError."""
    advice = _advice(before.diagnosis, advice_id)
    cause = _cause_of(before.diagnosis, advice)
    if before.path.resolve() == after.path.resolve():
        raise UsageError(f"{after.path} is the run before the change; name the one that was recorded after it")
    found = compared(before.profile, after.profile)
    step = found.comparison.step
    before_ms, after_ms = step.before.value, step.after.value
    if before_ms <= 0 or after_ms <= 0:
        raise UsageError(f"the mean step is {figure(min(before_ms, after_ms), 'ms')} long, so no gain can be computed")
    measured, interval = before_ms / after_ms, advice.interval
    inside = None if interval is None else interval[0] <= measured <= interval[1]
    gone = not any(_same(cause, each) for each in after.diagnosis.causes)
    change_pct = 100.0 * (after_ms / before_ms - 1.0)
    noise_pct = before.profile.thresholds["change_noise_pct"]
    outcome: Outcome = "no_change"
    if change_pct >= noise_pct:
        outcome = "slower"
    elif change_pct <= -noise_pct:
        as_large = _beyond_spread(before, after, before_ms - after_ms) if inside is None else inside
        outcome = "confirmed" if gone and as_large else "faster"
    return Confirmation(
        advice=advice,
        cause=cause,
        outcome=outcome,
        before_ms=before_ms,
        after_ms=after_ms,
        measured=measured,
        predicted=advice.predicted_speedup,
        interval=interval,
        inside=inside,
        gone=gone,
        noise_pct=noise_pct,
        comparison=found,
    )


def _same(cause: CauseRecord, other: CauseRecord) -> bool:
    """Whether two runs show the same cause; a mechanism that one of them does not tell may be that of the other."""
    own, its = known_mechanism(cause.mechanism), known_mechanism(other.mechanism)
    return cause.cause == other.cause and (own == its or None in (own, its))


def _beyond_spread(before: RunOf, after: RunOf, gain_ms: float) -> bool:
    """Whether a gain is larger than the spread of the steps of either run, from their median to the 95th percentile."""
    for each in (before.diagnosis.step_time_ms, after.diagnosis.step_time_ms):
        times = each and (each.unprofiled or each)
        if times is None or gain_ms <= times.p95 - times.median:
            return False
    return True


def _advice(diagnosis: Diagnosis, advice_id: str) -> AdviceRecord:
    for each in diagnosis.advice:
        if each.id == advice_id.strip("[]").upper():
            return each
    have = ", ".join(each.id for each in diagnosis.advice)
    raise UsageError(f"there is no advice {advice_id!r}; {f'there is {have}' if have else 'the diagnosis gives none'}")


def _cause_of(diagnosis: Diagnosis, advice: AdviceRecord) -> CauseRecord:
    named = [each for each in diagnosis.causes if each.cause == advice.for_]
    exact = [each for each in named if each.mechanism == advice.mechanism]
    if not named:
        raise UsageError(f"the diagnosis no longer names {advice.for_}, which {advice.id} is for")
    return (exact or named)[0]


@dataclass(frozen=True)
class Drafts:
    """A private case and an evaluation case as YAML; ``faults`` of the case have to be corrected before use."""

    case: Case
    evaluation_text: str
    faults: tuple[str, ...]


def drafts(found: Confirmation, before: RunOf, library: Sequence[Case]) -> Drafts:
    """Draft both cases from a confirmed cause; raises UsageError where the change confirmed none."""
    if found.outcome != "confirmed":
        raise UsageError("the change confirmed no cause, so no case is drafted")
    case = private_case(_case_draft(found, before), "the draft", {each.id for each in library})
    return Drafts(case, _evaluation(found, before, case.id), objections(case, library))


def _case_draft(found: Confirmation, before: RunOf) -> dict[str, object]:
    fields = case_fields(before.diagnosis, found.cause)
    setting = {"framework": "PyTorch", "hardware": fields.pop("hardware"), "scale": fields.pop("scale")}
    if fields["mechanism"] == "unknown":
        del fields["mechanism"]
    signals = [text for text in map(_phrase, _texts(fields["signals"])) if text]
    fields["signals"] = signals or [_phrase(cause_title(found.cause.cause, found.cause.mechanism))]
    took = f"from {figure(found.before_ms, 'ms')} to {figure(found.after_ms, 'ms')}"
    held = "inside the predicted range" if found.inside else "beyond the spread of the steps, no range was predicted"
    return {
        **{name: text[:LONGEST] if isinstance(text, str) else text for name, text in fields.items()},
        "family": causes()[found.cause.cause].family,
        "setting": {**setting, "model": "unknown"},
        "optimization": f"{found.advice.optimization}: {found.advice.how}"[:LONGEST],
        "effect": f"The mean step fell {took}, {figure(found.measured, 'x')}.",
        "confidence": "high" if found.inside else "medium",
        "confidence_reason": f"Measured before and after the change; {held}.",
    }


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _phrase(text: str) -> str:
    return text.strip()[:200] if len(text.strip()) >= 3 else ""


def _evaluation(found: Confirmation, before: RunOf, identifier: str) -> str:
    """The case in the schema of ``evals``: run it with HERMES_RUNS set to the folder that holds the run."""
    import yaml

    cause = found.cause
    name = f"{cause.cause}/{cause.mechanism}" if cause.mechanism else cause.cause
    family = causes()[cause.cause].family
    run = before.path.resolve()
    case = {
        "id": re.sub(r"[^a-z0-9-]+", "-", identifier),
        "what": f"{cause_heading(cause.cause, cause.mechanism)}, confirmed by {found.advice.optimization}",
        "run": {"others": run.name},
        "expected": {"verdict": ["problem"], "any_of": [name], "family": family, "ranks": list(cause.ranks)},
        "measured": {
            "before_ms": round(found.before_ms, 4),
            "after_ms": round(found.after_ms, 4),
            "statistic": "mean",
        },
        "tags": {"source": "others", "kind": "cause", "family": family, "split": "dev"},
    }
    text: str = yaml.safe_dump({"cases": [case]}, sort_keys=False, allow_unicode=True, width=110)
    return f"# HERMES_RUNS is the folder that holds the run, here the parent of {run.name!r}.\n{text}"


def store_drafts(made: Drafts, folder: Path) -> tuple[Path, Path]:
    """Write both or none into a folder, made if need be for its owner only; raises InputError where it cannot."""
    evaluation = folder / "evaluation" / f"{made.case.id}.yaml"
    with _written(evaluation, made.evaluation_text):
        return store(made.case, folder / "cases"), evaluation


@contextmanager
def _written(path: Path, text: str) -> Iterator[None]:
    """A new file with this text, which stays only where nothing fails inside."""
    try:
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(f"{path} exists and is not overwritten; move it away first") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another folder") from error
    try:
        yield
    except InputError:
        path.unlink(missing_ok=True)
        raise


def stored_sentences(made: Drafts, paths: tuple[Path, Path]) -> tuple[str, ...]:
    """Where the drafts lie and what to do with them."""
    faults = (f"Correct before adding it: {' '.join(made.faults)}",) if made.faults else ()
    file, cases = quote(str(paths[0])), quote(str(paths[1].parent))
    add = f"Drafted {paths[0]}; check it, then add it with `hermes-dx cases add --file {file}`."
    return (add, *faults, f"Drafted {paths[1]} for `hermes-dx eval --cases {cases}`.")
