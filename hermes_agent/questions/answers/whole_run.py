"""Answers about the length of an epoch or of the whole training, and of what is left of it."""

from __future__ import annotations

import re

from hermes_agent.questions.answers.named_lines import may_state
from hermes_agent.questions.answers.throughput import steps_per_s
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.errors import UsageError
from tools.metrics.recorded.whole_run import stated_of_run, steps_of_run
from tools.run.recorded.job_log import DIFFERENCES, JobLog

EPOCHS = "step_time.epochs"
EPOCH = re.compile(r"\bepochs?\b")
MONEY = re.compile(r"\b(costs?|money|dollars?|euros?|price|expensive|budget|bill)\b")
BETWEEN = (*DIFFERENCES, "bar")  # step times that hold whatever lies between two lines


def whole_run(discussion: Discussion, question: Question) -> str:
    """How long an epoch or the whole training takes, as far as lines state it; else what is missing, and the figures
    there are."""
    epochs = next((each.text for each in discussion.diagnosis.checks if each.analyzer == EPOCHS), [])
    if EPOCH.search(question.words):
        open_epoch = paragraph([wording("no_epoch"), may_state(discussion, "length")])
        return blocks([paragraph(epochs) or open_epoch, _printed(discussion), _pace(discussion)])
    stated = _stated(discussion)
    taken = discussion.measured("stated_runtime_s") is not None
    length = [stated, "" if taken else _by_steps(discussion)]
    if MONEY.search(question.words):
        price = wording("no_price") if not any(length) else wording("no_price_alone")
        return blocks([price, *length, _pace(discussion)])
    unknown = [wording("no_length"), may_state(discussion, "length"), _on_top(discussion)]
    lead = "" if any(length) else paragraph([*unknown, *epochs])
    return blocks([lead, *length, _printed(discussion), _pace(discussion)])


def _stated(discussion: Discussion) -> str:
    """The length of the whole training, or what is left of it, by the lines that state it; empty where none does."""
    profile = discussion.profile()
    log = profile.run.job_log
    taken = discussion.measured("stated_runtime_s")
    if taken is not None:
        text = "By the job's output the whole training took {0}."
        return discussion.say(wording("one_training_took") if _several(log) else text, taken)
    left, passed = stated_of_run(profile, "left_s"), stated_of_run(profile, "passed_s")
    if log is None or (left is None and passed is None):
        return ""
    if left is None:
        assert passed is not None
        text = f"By line {passed.line}{_step(passed.step)} the training had taken {{run_passed_s}}"
        return discussion.say(f"{text}, without what the program leaves out of it.")
    if float(left.value) == 0.0:
        return f"By line {left.line} nothing of the training is left."
    text = (
        f"By line {left.line}{_step(left.step)}, the last one with an estimate, {{run_left_s}} of the training are left"
    )
    whole = discussion.measured("run_estimated_s")
    if whole is None:
        return discussion.say(f"{text}.")
    return discussion.say(f"{text} and {{run_passed_s}} have passed: {{0}} in total.", whole)


def _step(step: int | None) -> str:
    return "" if step is None or step < 0 else f" (step {step:,})"


def _by_steps(discussion: Discussion) -> str:
    """The steps of the training times the mean step; empty where their number is not known."""
    profile = discussion.profile()
    log, stated = profile.run.job_log, steps_of_run(profile)
    if log is None or stated is None or discussion.measured("run_steps_s") is None:
        return ""
    last = int(log.steps["step"].max())
    by_bar = "steps" not in log.whole_run
    where = "The progress bar counts to" if by_bar else f"By line {stated.line} the training has"
    if last >= int(stated.value) - 1 and discussion.measured("printed_steps_s") is not None:
        return discussion.say(f"{where} {{run_steps}}, and the lines reach the last one.")
    text = f"{where} {{run_steps}}: times the mean step they take {{run_steps_s}}"
    left = f", of which {{run_steps_s:part=left}} are left after step {last:,}, the last one that is read"
    return paragraph([discussion.say(f"{text}{'' if by_bar else left}."), _on_top(discussion)])


def _on_top(discussion: Discussion) -> str:
    """What the mean step holds of the time between steps."""
    log: JobLog | None = discussion.profile().run.job_log
    if log is not None and log.tokens_per_step is not None:
        return wording("between_open")
    inside = log is not None and not log.steps.empty and log.step_time in BETWEEN
    return wording("between_inside") if inside else wording("between_on_top")


def _pace(discussion: Discussion) -> str:
    """The steps per second; empty where no step is known."""
    try:
        return steps_per_s(discussion, None)
    except UsageError:
        return ""


def _printed(discussion: Discussion) -> str:
    """What the printed steps take together, and how far apart the first and the last line are."""
    printed, apart = discussion.measured("printed_steps_s"), discussion.measured("step_lines_s")
    log = discussion.profile().run.job_log
    return paragraph(
        [
            "" if printed is None or log is None else discussion.say(_which_printed(log), printed),
            "" if apart is None else discussion.say(wording("lines_apart"), apart),
        ]
    )


def _which_printed(log: JobLog) -> str:
    """Which steps the sum is of: where the output holds several trainings, those of one."""
    if not _several(log):
        steps = log.steps[log.steps["wall_ms"].notna()]
        return wording("printed_steps") % ((steps["step"] - steps["span"]).min() + 1, steps["step"].max())
    return wording("printed_steps_alone") % (log.steps["line"].min(), log.steps["line"].max())


def _several(log: JobLog | None) -> bool:
    """Whether the output may hold several trainings, the steps being those of one."""
    return log is not None and not log.steps.empty and bool(log.begins or log.trainings > 1)
