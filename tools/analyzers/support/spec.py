"""A check next to its function: what it asks, what it can find, and the views of the run it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from tools.analyzers.support.answers import cannot_answer, found, say
from tools.analyzers.support.changes import device_ranks
from tools.analyzers.support.figures import behind_device, samples_needed
from tools.findings import Check, Finding
from tools.knowledge.taxonomy import causes
from tools.views.device.unrecorded import without_copies, without_kernels
from tools.views.profile import Profile
from tools.views.steps.coarse import WHOLE_FILES, capture_of

SEEN_ONCE = "One step was recorded: whether the host works as in it in the others is unknown."
CUT = "the trace is cut: whole threads, streams or kinds of events may be missing, and nothing shows which"

Family = Literal["parallel", "io", "cpu", "computation", "communication", "memory", "storage"]
Stage = Literal["coarse", "inter_operator", "family"]
Records = Literal["", "steps", "host", "output", "tables", "collectives", "samples"]
WITHOUT_STEPS: tuple[Records, ...] = ("output", "tables", "collectives", "samples")
Question = Callable[[Profile], Check | Finding | None]


class Need(StrEnum):
    """A view of the run without which a check cannot answer."""

    TRACE = "a trace"
    RECORDS = "monitor records"
    DEVICE = "device activity"
    COPIES = "copies of the device"
    KERNELS = "kernels inside the steps"
    RANKS = "the traces of several ranks"


@dataclass(frozen=True)
class CheckSpec:
    """One question to a run; its function may return a single finding, or None where the question does not arise.

    ``mechanisms`` are those that this check looks for by itself. ``from_records`` says what monitor records or step
    logs alone answer: nothing, by whole ``steps``, or by ``host`` time, which a device may hide; ``output``: the job's
    own output answers, ``tables``: those of a profiler answer, ``collectives``: what these recorded themselves answers,
    ``samples``: those of counters answer, with or without steps. ``of_step_lines``: of its causes those that it finds
    in a job's step lines without the monitor, where these are not all. ``may_find``: further causes, which it never
    rules out.
    """

    name: str
    title: str
    family: Family
    stage: Stage
    question: str
    causes: tuple[str, ...]
    mechanisms: tuple[str, ...]
    needs: tuple[Need, ...]
    from_records: Records
    function: Question
    of_step_lines: tuple[str, ...] | None = None
    may_find: tuple[str, ...] = ()

    def once(self, profile: Profile) -> Check | None:
        """``answer``, computed once per profile: for other checks that depend on this one as well."""
        return profile.memo(f"check:{self.name}", lambda: self.answer(profile))

    def answer(self, profile: Profile) -> Check | None:
        """The check of this run; "cannot answer" where a view is missing, None where the question does not arise."""
        needs = self.every_need if profile.measured or self.from_records in WITHOUT_STEPS else (Need.TRACE,)
        missing = next((gap for need in needs if (gap := _gap(profile, need))), None)
        if missing is None and profile.traced and not self.from_records:
            missing = without_kernels(profile)  # parts of the step are unknown then
        if missing is not None:
            return replace(cannot_answer(*missing), name=self.name)
        result = self.function(profile)
        if result is None:
            return None
        answer = found(result) if isinstance(result, Finding) else result
        hidden = self.from_records == "host" and not profile.traced and profile.accelerated
        findings = tuple(self._completed(finding) for finding in answer.findings)
        findings = tuple(behind_device(finding) for finding in findings) if hidden else findings
        if self.family == "cpu" and _of_one_step(profile):
            findings = tuple(_seen_once(profile, finding) for finding in findings)
        return replace(answer, name=self.name, findings=findings)

    def _completed(self, finding: Finding) -> Finding:
        """The finding with the steps of its claim, and what the taxonomy says of its cause by this check."""
        measured = finding.claim.facts[0].steps if finding.change and finding.claim.facts else ()
        finding = replace(finding, steps=finding.steps or measured)
        usual = causes()[finding.cause].found_by.get(self.name)
        if usual is None:
            return finding
        return replace(
            finding,
            disproved_by=finding.disproved_by or usual.disproved_by,
            signals=finding.signals or tuple(usual.signals),
            against=(*map(say, usual.against), *finding.against),
        )

    @property
    def every_need(self) -> tuple[Need, ...]:
        """What it needs, the trace included where records alone do not answer."""
        return self.needs if self.from_records else (Need.TRACE, *self.needs)

    def out_of_reach(self, profile: Profile) -> int:
        """How many sources it lacks altogether: a trace, and a device that ran kernels."""
        lacking = [need for need in self.every_need if need in (Need.TRACE, Need.KERNELS)]
        return sum(_gap(profile, need) is not None for need in lacking)


def check(
    name: str,
    title: str,
    question: str,
    *,
    family: Family | None = None,
    stage: Stage = "family",
    causes: tuple[str, ...] = (),
    mechanisms: tuple[str, ...] = (),
    needs: tuple[Need, ...] = (),
    from_records: Records = "",
    of_step_lines: tuple[str, ...] | None = None,
    may_find: tuple[str, ...] = (),
) -> Callable[[Question], CheckSpec]:
    """Declare the decorated function as a check; its family is the first part of the name unless given."""
    group: Family = family or name.partition(".")[0]  # type: ignore[assignment]
    return lambda function: CheckSpec(
        name, title, group, stage, question, causes, mechanisms, needs, from_records, function, of_step_lines, may_find
    )


def _of_one_step(profile: Profile) -> bool:
    """Whether all that is known of the steps is one marked step of one process with a device."""
    if not profile.traced or profile.series is not None or not profile.run.has_device or len(profile.ranks) > 1:
        return False
    (view,) = profile.ranks
    return len(view.steps) == 1 and view.rank.step_origin != "window"


def _seen_once(profile: Profile, finding: Finding) -> Finding:
    """The finding as a lead: the host may have worked in another way in the other steps."""
    confidence = min(finding.confidence, profile.thresholds["single_step_confidence"])
    return replace(finding, confidence=confidence, against=(*finding.against, say(SEEN_ONCE)))


def _gap(profile: Profile, need: Need) -> tuple[str, str] | None:
    """Why the need is not met and what to record; None when it is met."""
    match need:
        case Need.TRACE if not profile.traced and profile.run.cut:
            return CUT, WHOLE_FILES
        case Need.TRACE if not profile.traced:
            return "no trace was read, and records do not show what a step consists of", capture_of(profile)
        case Need.RECORDS if profile.host_records is None:
            sampled = profile.records is not None and not profile.records.system.empty
            why = (
                "hardly an unprofiled step goes with the monitor's samples"
                if sampled
                else "the run has no samples of the monitor"
            )
            return why, samples_needed(profile)
        case Need.DEVICE if not profile.run.has_device:
            return "no device work is recorded", "a trace with device activity (ProfilerActivity.CUDA)"
        case Need.COPIES if not profile.run.has_device:
            return _gap(profile, Need.DEVICE)
        case Need.COPIES:
            return without_copies(profile)
        case Need.KERNELS if not (profile.traced and device_ranks(profile)):
            why = "no kernel ran inside the steps" if profile.run.has_device else "no device work is recorded"
            return why, "a trace with device activity, of a run that uses a device"
        case Need.RANKS if len(profile.run.rank_numbers) < 2 and profile.run.cut:
            return "only one rank's trace is whole, and a cut one is not compared with it", WHOLE_FILES
        case Need.RANKS if len(profile.run.rank_numbers) < 2:
            return "there is one rank's trace only", "the traces of the other ranks for the same steps"
        case _:
            return None
