"""Answers about the whole job, mostly from its own output: hangs, drift, skipped steps, FLOPs, pipeline, start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.diagnosis import CheckRecord
from hermes_agent.questions.answers.advice import summarise
from hermes_agent.questions.answers.certainty import check_text
from hermes_agent.questions.answers.setup import flops
from hermes_agent.questions.answers.steps import start_left_out
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, general, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.analyzers.steps.output_warnings import single_line
from tools.analyzers.steps.reported_errors import NOT_ARRIVED, WAITS
from tools.metrics.communication.pipeline import pipeline
from tools.metrics.recorded.job_log import micro_batches, stages
from tools.metrics.recorded.level_change import several_levels, turning
from tools.metrics.recorded.series import step_series_of
from tools.metrics.recorded.whole_run import steps_of_run
from tools.run.recorded.job_log import SINGLE
from tools.views.profile import Profile
from tools.views.steps.shape import KENDALL_Z

THROUGHPUT = "step_time.throughput"
DRIFT, JUMP, TIMEOUTS = "step_time.trend", "step_time.change_point", "communication.timeouts"
HCCL_ERRORS = "communication.hccl_errors"
WAITING = (TIMEOUTS, HCCL_ERRORS)  # these name who waited
OF_COLLECTIVES = ("communication.flight_recorder", "communication.ras")  # these name who is missing
REPORTED = "communication.reported_ranks"
HANGS = (REPORTED, *OF_COLLECTIVES, TIMEOUTS, HCCL_ERRORS, "cpu.sampled_stacks")  # who is missing before who waited
OUTPUT = "step_time.output"
STAGES_LISTED = 16
QUARTER = 4  # of fewer than twice as many lines a quarter is one line
YES_OR_NO = re.compile(r"^(is|are|was|were|did|do|does|has|have|had|any|could|can)\b")
SAMPLED = ("computation.clocks", "computation.devices_alike")  # checks of samples that tell devices apart
# Not of the micro batch size, which counts samples.
MICRO_BATCHES = re.compile(r"\b([1-9]\d{0,5}) micro ?batch(?!\w* size)|\bmicro ?batch\w* (?:to|of|at) ([1-9]\d{0,5})\b")
MORE = re.compile(r"\bmore micro ?batch\w*\b.*\b(help|faster|better|improve|bring|gain|good)\b")
LOOK_THERE = "look there first"  # of a check that names who is missing or behind
MISSING_NAMED = re.compile(rf"\b[Rr]anks? [\d, and]+(of the communicator )?{NOT_ARRIVED}")
WHO = re.compile(r"\b(who|which|what) ?(ranks?|gpus?|nodes?|workers?)?\b")
NOT_A_NUMBER = re.compile(r"\b(nans?|infs?|infinite)\b")


def hang(discussion: Discussion, question: Question) -> str | None:
    """Who is waited for, by time-outs and the records of collectives, and what to look at next; None where no source
    shows a hang."""
    found = _found(discussion, HANGS)
    needs = discussion.diagnosis.next_measurements[:1]
    if found is None and not discussion.profile().measured:  # what else was read may show what waits
        return summarise(discussion, question)
    if found is None or not needs:
        return found
    of_waiting = _found(discussion, (REPORTED, *OF_COLLECTIVES)) is None and _found(discussion, WAITING) is not None
    of_waiting = of_waiting and not MISSING_NAMED.search(found)
    unnamed = of_waiting and LOOK_THERE not in found and WHO.search(question.words) is not None
    record = "To know more, record:\n" + bullets(f"{general(each)}." for each in needs)
    return blocks(
        [
            paragraph([wording("missing_unnamed") if unnamed else "", found]),
            wording("hang_next") if of_waiting else "",
            record,
        ]
    )


def sampled_devices(discussion: Discussion, _: Question) -> str | None:
    """Devices that samples tell apart; None where none are told apart so, or a trace tells more."""
    return None if discussion.profile().traced else _found(discussion, SAMPLED)


def _found(discussion: Discussion, names: Sequence[str]) -> str | None:
    """The sentences of those of the checks that found something."""
    checks = (_check(discussion, name) for name in names)
    return blocks(paragraph(each.text) for each in checks if each is not None and each.status == "found") or None


def slower_since(discussion: Discussion, question: Question) -> str | None:
    """From which step on steps take longer, and what the diagnosis says of it; without a jump the course of the
    recorded steps, and None where a trace was read or no steps are recorded."""
    jump = _check(discussion, JUMP)
    why = " ".join(discussion.diagnosis.answer) if re.search(r"\bwhy\b", question.words) else ""
    if jump is None or jump.status != "found":
        profile = discussion.profile()
        return None if profile.traced or profile.series is None else blocks([drift(discussion, question), why])
    return blocks([paragraph(jump.text), why])


def small_wait(discussion: Discussion) -> str:
    """That steps hardly wait for data, where the job's own lines state it and the diagnosis does not; else empty."""
    check, taken = _check(discussion, "io.data_loader"), discussion.diagnosis.step_time_ms
    by_lines = taken is not None and taken.unprofiled is not None and taken.unprofiled.source == "job log"
    if not by_lines or check is None or check.status != "clean":
        return ""
    text, known = paragraph(check.text), " ".join(discussion.diagnosis.answer)
    return text if cited_ids(text) and not set(cited_ids(text)) & set(cited_ids(known)) else ""


def low_rate(discussion: Discussion, question: Question) -> str:
    """The rate as the job states it, where it does, and what the diagnosis says slows the steps down."""
    stated = "" if discussion.profile().traced else flop_rate(discussion, question)
    return blocks([stated if cited_ids(stated) else "", " ".join(discussion.diagnosis.answer)])


def stated_throughput(discussion: Discussion) -> str:
    """What an output that states no time of a step shows by its throughput; empty for all other runs."""
    check = _check(discussion, THROUGHPUT)
    return "" if check is None else paragraph(check.text)


def drift(discussion: Discussion, question: Question) -> str:
    """Whether steps get longer over the run: by a jump to another level, by a steady drift, or not at all."""
    if rated := stated_throughput(discussion):
        check = _check(discussion, THROUGHPUT)
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
        check = _check(discussion, name)
        if check is not None and check.status == "found" and fact is not None:
            if name == JUMP:
                return paragraph([_direction(profile, fact.value > 0), *check.text])
            return _steadily(profile, check.text, fact.value > 0)
    check = _check(discussion, DRIFT)
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
        most = f"at most {{{metric}:statistic=max}} over the steps of one line"
        text = f"Steps take {{{metric}:statistic=mean}} on average, {most}{why}."
        return paragraph([discussion.say(text), left_out(profile)])
    text = f"Steps take {{{metric}:statistic=mean}} on average, {{{metric}:statistic=max}} at most."
    return paragraph([discussion.say(text), "" if series is None else start_left_out(series)])


def left_out(profile: Profile) -> str:
    """A sentence for each kind of step line that is left out of the step times."""
    return paragraph(f"{capital(note)}." for note in (profile.series.notes if profile.series is not None else ()))


def timeouts(discussion: Discussion, question: Question) -> str:
    """Whether a collective timed out, by the job's own output; who waited, where it is no question for yes or no."""
    check = _check(discussion, TIMEOUTS)
    if not YES_OR_NO.search(question.words) and (found := _found(discussion, HANGS)) is not None:
        return hang(discussion, question) or found
    if check is not None and check.status == "found":
        ranks = _check(discussion, "communication.reported_ranks")
        return paragraph(["Yes:", *check.text, *([] if ranks is None else ranks.text)])
    log = discussion.profile().run.job_log
    waits = log is not None and any(each.code in WAITS for each in log.errors)
    if waits and (errors := _check(discussion, HCCL_ERRORS)) is not None:
        return paragraph(["Yes:", *errors.text])
    return wording("timeouts_open") if discussion.profile().run.job_log is None else wording("no_timeouts")


def skipped_steps(discussion: Discussion, question: Question) -> str:
    """Steps that were skipped for overflow, of all printed steps and of the later half."""
    not_a_number = _not_finite(discussion) if NOT_A_NUMBER.search(question.words) else ""
    later, all_steps = (discussion.measured("skipped_steps_pct", settled=settled) for settled in (1, 0))
    count = discussion.measured("skipped_steps")
    if all_steps is None or count is None:
        lines = discussion.measured("warning_lines", kind="fp16_overflow")
        said = wording("skipped_open") if lines is None else discussion.say(wording("overflow_lines"), lines)
        return paragraph([said, not_a_number])
    lead = "Yes, steps were skipped:" if all_steps.value > 0 else "No step was skipped for overflow:"
    if later is None:
        said = discussion.say(f"{lead} {{0}}, {{1}} of all printed ones.", count, all_steps)
        return paragraph([said, wording("skipped_at_start"), not_a_number])
    text = f"{lead} {{0}}, {{1}} of all printed steps, {{2}} of the later half."
    return paragraph([discussion.say(text, count, all_steps, later), not_a_number])


def _not_finite(discussion: Discussion) -> str:
    """In how many printed steps the loss is no finite number, or that none states so."""
    share = discussion.measured("not_finite_pct")
    if share is None:
        return wording("nan_not_read")
    return discussion.say("Loss or gradient norm is NaN or infinite in {0} of the printed steps.", share)


def not_finite(discussion: Discussion, _: Question) -> str:
    """In which steps the loss is no finite number, and what shows why."""
    if discussion.profile().run.job_log is None:
        return wording("nan_open")
    check = _check(discussion, OUTPUT)
    lines = [] if check is None else [each for each in check.text if "NaN" in each]
    return blocks([paragraph(lines), wording("nan_why")]) if lines else wording("nan_not_read")


def stated_eta(discussion: Discussion, _: Question) -> str | None:
    """What an ETA that the output prints is worth: the mean step, and a long start; None where no step is known."""
    if not discussion.profile().measured:
        return None
    return blocks([" ".join(discussion.diagnosis.answer), wording("eta_is_mean")])


def stage_layers(discussion: Discussion, _: Question) -> str:
    """What each pipeline stage computes, and how much of the heaviest one would have to move for equal stages."""
    timers = None if discussion.profile().traced else _check(discussion, "communication.rank_timers")
    if timers is not None and any("ipeline stage" in text for text in timers.text):
        return paragraph(timers.text)
    stages = pipeline(discussion.profile())
    if stages is None:
        return wording("no_stages_traced")
    order = sorted(stages.table.index, key=lambda rank: -float(stages.table["compute_ms"].loc[rank]))
    heaviest = order[0]
    lead = (
        f"The stage of rank {heaviest} computes longest, {{stage_compute_ms:rank={heaviest}}} per step, where the mean "
        "stage takes {stage_compute_ms}: {stage_surplus_pct} of its work would have to move to the others."
    )
    rows = bullets(
        discussion.say(f"rank {rank}: {{stage_compute_ms}} of computation per step", rank=int(rank))
        for rank in order[:STAGES_LISTED]
    )
    return blocks([paragraph([discussion.say(lead), wording("layers_open")]), rows])


def flop_rate(discussion: Discussion, question: Question) -> str:
    """FLOP/s per device as the job states them; of a trace the MFU by the recorded shapes."""
    profile = discussion.profile()
    if profile.traced:
        rank = question.ranks[0] if question.ranks else min(profile.run.rank_numbers)
        rate = discussion.measured("achieved_tflops", rank=rank)
        text = f"Rank {rank} computes {{0}} over its mean step, by the operations whose shapes were recorded."
        return blocks(["" if rate is None else discussion.say(text, rate), flops(discussion, question)])
    if discussion.measured("stated_tflops") is None:
        return wording("no_tflops")
    return discussion.say("{stated_tflops} per device, as the mean of what the job's step lines state.")


def pipeline_schedule(discussion: Discussion, question: Question) -> str:
    """Micro-batches, stages and the idle share of the schedule, also for another number of micro-batches."""
    profile = discussion.profile()
    named = MICRO_BATCHES.search(question.words)
    wanted = float(named[1] or named[2]) if named else None
    if profile.traced:
        return _traced_pipeline(discussion, profile, wanted, MORE.search(question.words) is not None)
    log = profile.run.job_log
    if log is None:
        return wording("no_pipeline")
    if micro_batches(log) is None:
        return wording("no_micro_batches")
    if stages(log) is None:
        return discussion.say("A step has {stated_micro_batches} by the job's arguments. " + wording("no_stages"))
    shape = (
        "{stated_micro_batches} pass through {stated_stages} per step: the schedule leaves {stated_bubble_pct} of it "
        "idle."
    )
    timers = discussion.measured("timed_compute_pct")
    seen = "" if timers is None else discussion.say("By its timers a rank computes {0} of the step.", timers)
    return blocks([paragraph([discussion.say(shape), seen]), _other_schedule(discussion, wanted)])


def _other_schedule(discussion: Discussion, wanted: float | None) -> str:
    """The schedule of the job's pipeline with another number of micro-batches."""
    if wanted is None:
        return ""
    left = discussion.measure("stated_bubble_pct", micro_batches=wanted)
    less = discussion.measure("schedule_saving_pct", micro_batches=wanted)
    text = f"With {wanted:.0f} micro-batches per step it would leave {{0}} idle"
    if less.value <= 0:
        return discussion.say(f"{text}, so the same samples would take no less time.", left)
    return paragraph([discussion.say(f"{text}; the same samples would take {{1}} less time.", left, less),
                      wording("schedule_assumes")])  # fmt: skip


def _waiting_stage(discussion: Discussion, profile: Profile) -> str:
    """The rank that waits most for its neighbours, for whatever reason."""
    waits = {rank: discussion.measured("stage_wait_ms", rank=rank) for rank in profile.run.rank_numbers}
    known = {rank: fact for rank, fact in waits.items() if fact is not None}
    rank = max(known, key=lambda each: known[each].value)
    return discussion.say(f"Rank {rank} waits most in all: {{0}} per step.", known[rank])


def _more_help(discussion: Discussion, profile: Profile) -> str:
    """Yes or no to more micro-batches, by the step with twice as many of them."""
    stages = pipeline(profile)
    assert stages is not None
    changes = f"micro_batches={2 * round(stages.micro_batches)}"
    before = discussion.measured("step_time_ms", statistic="mean")
    after = discussion.measured("changed_step_ms", changes=changes)
    if before is None or after is None:
        return ""
    gain_pct = 100.0 * (before.value - after.value) / before.value
    lead = "Yes" if gain_pct >= profile.thresholds["cause_share_pct"] else "No, hardly"
    text = f"{lead}: with {2 * round(stages.micro_batches)} micro-batches a step would take {{0}} instead of {{1}}."
    uneven = discussion.measure("stage_imbalance_pct")
    heavy = stages.imbalance_ms > stages.bubble_ms
    why = "Most waiting is for the stage that computes longest, {0} longer than the mean, whatever their number."
    return paragraph([discussion.say(text, after, before), discussion.say(why, uneven) if heavy else ""])


def _traced_pipeline(discussion: Discussion, profile: Profile, wanted: float | None, more: bool) -> str:
    if pipeline(profile) is not None:
        text = (
            "{pipeline_micro_batches} micro-batches pass through {pipeline_stages} stages per step. Beyond what they "
            "wait because one computes longer, stages wait for their neighbours {pipeline_bubble_pct} of the step; the "
            "schedule leaves equal stages {pipeline_expected_bubble_pct} of theirs."
        )
        said = [discussion.say(text), _waiting_stage(discussion, profile)]
        if wanted is not None:
            left = discussion.measure("pipeline_expected_bubble_pct", micro_batches=wanted)
            said.append(discussion.say(f"With {wanted:.0f} micro-batches per step it would leave them {{0}}.", left))
        return paragraph([*([_more_help(discussion, profile)] if more else []), *said])
    passes = {rank: discussion.measured("passes_per_update", rank=rank) for rank in profile.run.rank_numbers}
    known = {rank: fact for rank, fact in passes.items() if fact is not None and fact.value > 1}
    if not known:
        return wording("no_pipeline")
    rank, fact = next(iter(known.items()))
    return paragraph([discussion.say(f"On rank {rank}: {{0}}.", fact), wording("passes_are_micro_batches")])


def start(discussion: Discussion, _: Question) -> str:
    """The first step that the job's output prints against the usual ones."""
    if discussion.measured("first_step_ms") is None:
        return wording("start_open")
    first = _first_line(discussion.profile())
    if discussion.measured("first_step_excess_pct") is None:
        return discussion.say(f"{first}; of all printed ones the median is {{logged_step_ms:statistic=median}}.")
    usual = "those after the warm-up take {series_step_ms:statistic=mean} on average: it differs by"
    return discussion.say(f"{first}, {usual} {{first_step_excess_pct}}.")


def _first_line(profile: Profile) -> str:
    """What the first line with a time is of: one step, or a mean over several, which the first step may exceed."""
    log = profile.run.job_log
    assert log is not None  # its first step is measured
    row = log.steps[log.steps["wall_ms"].notna()].iloc[0]
    step, span = int(row["step"]), int(row["span"])
    if log.step_time in SINGLE:
        return f"The first printed step (step {step}) takes {{first_step_ms}}"
    series = profile.series
    why = f" ({series.averaged})" if series is not None and series.averaged else ""
    of = f"steps {step - span + 1} to {step}" if span > 1 else f"step {step}"
    return f"The first line with a step time, of {of}, gives {{first_step_ms}} a step{why}"


def _check(discussion: Discussion, analyzer: str) -> CheckRecord | None:
    return next((each for each in discussion.diagnosis.checks if each.analyzer == analyzer), None)
