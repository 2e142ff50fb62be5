"""Answers about the course of the steps: whether they get longer, from which step on, and what lines were left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from hermes_agent.questions.answers.certainty import check_text
from hermes_agent.questions.answers.steps import start_left_out
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, capital, paragraph
from hermes_agent.questions.reading.question import YES_OR_NO, Question, wording
from hermes_agent.report.step_course import rounded
from tools.analyzers.steps.output_warnings import single_line
from tools.metrics.recorded.level_change import several_levels, turning
from tools.metrics.recorded.series import step_series_of
from tools.metrics.recorded.whole_run import steps_of_run
from tools.views.profile import Profile
from tools.views.steps.shape import KENDALL_Z

THROUGHPUT = "step_time.throughput"
DRIFT, JUMP = "step_time.trend", "step_time.change_point"
QUARTER = 4  # of fewer than twice as many lines a quarter is one line


def slower_since(discussion: Discussion, question: Question) -> str | None:
    """From which step on steps take longer, and what the diagnosis says of it; without a jump the course of the
    recorded steps, and None where a trace was read or no steps are recorded."""
    jump = discussion.check(JUMP)
    why = " ".join(discussion.diagnosis.answer) if re.search(r"\bwhy\b", question.words) else ""
    if jump is None or jump.status != "found":
        profile = discussion.profile()
        return None if profile.traced or profile.series is None else blocks([drift(discussion, question), why])
    return blocks([paragraph(jump.text), why])


def stated_throughput(discussion: Discussion) -> str:
    """What an output that states no time of a step shows by its throughput; empty for all other runs."""
    check = discussion.check(THROUGHPUT)
    return "" if check is None else paragraph(check.text)


def drift(discussion: Discussion, question: Question) -> str:
    """Whether steps get longer over the run: by a jump to another level, by a steady drift, or not at all."""
    if rated := stated_throughput(discussion):
        check = discussion.check(THROUGHPUT)
        steady = check is not None and check.status == "clean"
        return paragraph([wording("rate_steady") if steady else "", rated])
    profile = discussion.profile()
    if not profile.measured and not profile.run.cut:
        log = profile.run.job_log
        few = [] if log is None or log.steps.empty else single_line(profile, log)
        return blocks([paragraph(discussion.say(each.template, *each.facts) for each in few), wording("no_steps_read")])
    by_records = profile.series is not None
    jump = discussion.measured("series_shift_pct" if by_records else "level_shift_pct")
    slope = discussion.measured("series_trend_pct" if by_records else "step_trend_pct")
    for name, fact in ((JUMP, jump), (DRIFT, slope)):
        check = discussion.check(name)
        if check is not None and check.status == "found" and fact is not None:
            if name == JUMP:
                return paragraph([_direction(profile, fact.value > 0), *check.text])
            return _steadily(profile, check.text, fact.value > 0)
    check = discussion.check(DRIFT)
    if check is None or check.status == "cannot_answer":
        reason = check_text(check) if check is not None else ""
        if course := _one_way(discussion, profile):
            return blocks([course, _range(discussion, profile)])
        faster = FASTER.search(question.words) is not None
        opened = paragraph([wording("drift_open_faster") if faster else wording("drift_open"), reason])
        return blocks([opened, _ends(discussion, profile), _range(discussion, profile)])
    if slope is not None and abs(slope.value) >= profile.thresholds["fluctuation_pct"]:  # not told from the variation
        return paragraph([wording("no_steady_drift"), *check.text, _range(discussion, profile)])
    if _drifts_slightly(profile):
        slight = wording("slight_drift") if slope is None or slope.value > 0 else wording("slightly_faster")
        return paragraph([slight, *check.text, _range(discussion, profile)])
    unchanged = wording("no_drift") if YES_OR_NO.search(question.words) else wording("nothing_changed")
    return paragraph([unchanged, *check.text, _range(discussion, profile)])


def _direction(profile: Profile, longer: bool) -> str:
    """The word before a change of level: steps at several levels may get longer and shorter in turn."""
    if profile.series is not None:
        whole = profile.series.whole
        levels = [each.ms for each in several_levels(whole)]
        both = turning(profile) or len({after > before for before, after in pairwise(levels)}) > 1
        if both:
            return "Not in one direction:"
    return "Yes:" if longer else "No, it gets faster:"


def _steadily(profile: Profile, said: Sequence[str], longer: bool) -> str:
    """That the steps get longer, or shorter, from the first to the last one, and of which steps that is known."""
    whole = profile.series is not None and _all_printed(profile)
    lead = "Over the whole training, yes:" if whole else "Within the recorded steps, yes:"
    lead = lead if longer else "No, the recorded steps get shorter:"
    return paragraph([lead, *said, wording("drift_of_recorded") if profile.series is not None and not whole else ""])


def _all_printed(profile: Profile) -> bool:
    """Whether the lines go from the first step of the training to the last one, so that there are no others."""
    log, whole = profile.run.job_log, steps_of_run(profile)
    if log is None or whole is None or log.steps.empty:
        return False
    first, last = int(log.steps["step"].min()), int(log.steps["step"].max())
    return first <= EARLY_SHARE * last and last >= int(whole.value) - 1


EARLY_SHARE = 0.02  # of the steps: lines of every so many steps begin after that
SLIGHT_PCT = 2.0  # of the median step: less matters to nobody, however sure it is


def _drifts_slightly(profile: Profile) -> bool:
    """Whether the recorded steps drift by more than chance, but by less than counts as a drift."""
    trend = None if profile.series is None else step_series_of(profile.series).trend()
    return trend is not None and abs(trend.z) >= KENDALL_Z and abs(trend.total_pct) >= SLIGHT_PCT


FASTER = re.compile(r"\b(faster|shorter|speed\w* up|quicker)\b")
ONE_WAY, ONE_WAY_LINES = 1.5, 3  # the longest line over the shortest, and lines: fewer or closer ones rise by chance


def _one_way(discussion: Discussion, profile: Profile) -> str:
    """That each of few lines gives a longer step than the one before, or each a shorter one; else empty."""
    series = profile.series
    walls = [] if series is None else series.slowest_ms.to_list()
    if len(walls) < ONE_WAY_LINES or max(walls) < ONE_WAY * min(walls):
        return ""
    rises, falls = (all(sign * (b - a) > 0 for a, b in pairwise(walls)) for sign in (1, -1))
    if not rises and not falls:
        return ""
    text = f"By the {len(walls)} recorded lines, which show no more than that, "
    text += f"steps get {'longer' if rises else 'shorter'} from each to the next: "
    return discussion.say(
        f"{text}{{series_quarter_ms:end=first}} in the first, {{series_quarter_ms:end=last}} in the last."
    )


def _ends(discussion: Discussion, profile: Profile) -> str:
    """The step time by the first and by the last of few lines; empty without a series."""
    if profile.series is None:
        return ""
    count = len(profile.series.slowest_ms)
    part = " quarter" if count >= 2 * QUARTER else ""
    first = f"The first{part} of the {count} lines gives {{series_quarter_ms:end=first}} a step"
    return discussion.say(f"{first}, the last {{series_quarter_ms:end=last}}.")


def _range(discussion: Discussion, profile: Profile) -> str:
    """The mean and the longest step of those that were looked at; no longest one where a line is of several."""
    series = profile.series
    metric = "step_time_ms" if series is None else "series_step_ms"
    if series is not None and series.averaged:
        said = any(note.startswith(series.averaged) for note in series.notes)
        why = "" if said else f" ({series.averaged})"
        most = f", at most {{{metric}:statistic=max}} over the steps of one line"
        above_pct = 100.0 * (float(series.slowest_ms.max()) / series.mean_ms - 1.0)
        text = f"Steps take {{{metric}:statistic=mean}} on average{'' if rounded(profile, above_pct) else most}{why}."
        return paragraph([discussion.say(text), left_out(profile)])
    text = f"Steps take {{{metric}:statistic=mean}} on average, {{{metric}:statistic=max}} at most."
    return paragraph([discussion.say(text), "" if series is None else start_left_out(series)])


def left_out(profile: Profile) -> str:
    """A sentence for each kind of step line that is left out of the step times."""
    return paragraph(f"{capital(note)}." for note in (profile.series.notes if profile.series is not None else ()))
