"""Does the job's output itself say what costs time: warnings that carry a cause, its profiler's table, its summary?"""

from __future__ import annotations

import re
from collections import Counter

from tools.analyzers.memory.exhausted import exhausted_memory, retries
from tools.analyzers.support.answers import clean, confidence, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.registry import measure
from tools.run.recorded.job_log import SINGLE, JobLog, StepTime, WarningKind
from tools.views.profile import Profile

MEANING: dict[WarningKind, str] = {
    "recompile_limit": "A compiled function ran into the limit of recompilations and runs uncompiled since: {0}.",
    "few_loader_workers": "Lightning warns that the data loader has few workers: {0}.",
    "many_loader_workers": "PyTorch warns that the data loader starts more workers than there are cores for them: {0}.",
    "out_of_memory": "The job ran out of device memory: {0}.",
    "accelerator_unused": "The output says that an accelerator is available and not used: {0}.",
    "trains_on_cpu": "The output says that the training runs on the CPU: {0}.",
    "operator_on_cpu": "The output says that an operator that the device lacks falls back to the CPU: {0}.",
    "job_restart": "Torchrun or the scheduler started workers again, or stopped the job, by {0}.",
    "device_libraries": "TensorFlow could not load libraries of the GPU and goes on without its devices: {0}.",
    "uncompiled": "torch.compile could not convert functions, which run uncompiled: {0}.",
    "stuck_watchdog": (
        "PyTorch's monitor reports a watchdog that makes no progress: a call of NCCL or CUDA hangs in that process, or"
        " another thread holds the GIL within one: {0}."
    ),
    "slow_callback": "Keras warns of a callback that is slow compared to a batch: {0}.",
    "loader_killed": (
        "A worker of PyTorch's data loader was killed (SIGKILL): mostly the kernel does so when the host's memory, or"
        " the limit of the container or job, is exhausted: {0}."
    ),
    "loader_shared_memory": (
        "A worker of PyTorch's data loader ended with a bus error, as it does when shared memory (/dev/shm) is full; a"
        " container of Docker has 64 MB of it unless --shm-size or --ipc=host is given: {0}."
    ),
    "oom_kill": (
        "Slurm reports processes that the kernel killed because the job's memory on the host was exhausted"
        " (oom-kill): {0}."
    ),
    "slow_compile": "XLA says that it compiles slowly: {0}.",
    "unnamed_timeout": (
        "PyTorch's watchdog reports a collective that did not end in time, without naming the rank: {0}."
    ),
    "time_limit": "Slurm stopped the job because its time limit was reached: {0}.",
    "terminated": ("Processes of the job were told to end (SIGTERM), as schedulers, users and launchers do: {0}."),
    "slow_tensors": (
        "PyTorch warns that a tensor is made of a list of NumPy arrays, which is slow; `numpy.array()` of the list"
        " before avoids that: {0}."
    ),
    "unfused_softmax": (
        "Megatron-LM says that the conditions of its fused softmax kernel are not met, and that it uses the unfused"
        " one: {0}."
    ),
    "float32_precision": (
        "PyTorch Lightning says that the device has Tensor Cores, which `torch.set_float32_matmul_precision` would let"
        " products of float32 matrices use, with less precision: {0}."
    ),
    "cache_off": (
        "Transformers turns `use_cache` off because of gradient checkpointing; where that holds for the texts that"
        " steps generate, each token takes longer: {0}."
    ),
    "accumulation_warning": "PyTorch warns of gradients accumulated on another stream: {0}.",
}
STATED_S: dict[WarningKind, str] = {
    "slow_compile": "The compilations that it states a time of take {0} in all.",
    "unnamed_timeout": "By that line the collective ran for {0}.",
}
OFTEN = 0.1  # flushes per step: each of them waits for the device and gives memory back, some milliseconds to a second
FLUSHED = 0.6  # the warnings are certain, what they cost is not known without steps
NO_COST = "what a flush costs is not in the log"


@check(
    *("memory.output_flushes", "Allocator flushes", "Does the allocator release its cache while training?"),
    causes=("memory_pressure",),
    mechanisms=("allocator_retry",),
    from_records="output",
)
def flushes(profile: Profile) -> Check | Finding | None:
    """DeepSpeed's warning that PyTorch's allocator had to release memory and try again."""
    if profile.run.job_log is None:
        return None
    often = measured(profile, "printed_flushes_per_step")
    if often is None:
        return _flushed(profile)
    if often.value < OFTEN:
        return clean(say("The allocator seldom releases its cache: {0}.", often))
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=say("The allocator releases its cache and tries again: {0}.", often),
        confidence=confidence((often.value, OFTEN), at_most=0.8),
        impact_ms=0.0,
        impact_method=NO_COST,
        disproved_by="the warnings end and the steps are as long with less memory in use",
        signals=("cache flushes",),
    )


def _flushed(profile: Profile) -> Finding | None:
    """The same where no steps are known: how often, and in how many steps, as each warning is of one."""
    count = measured(profile, "printed_flushes")
    if count is None:
        return retries(profile)
    lines = measure(profile, "warning_lines", kind="allocator_flush")
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=say("The allocator found no free memory, released its cache and tried again: {0} in {1}.", count, lines),
        confidence=FLUSHED,
        impact_ms=0.0,
        impact_method=NO_COST,
        details=(say("Each flush waits for the device; the warnings end once less memory is in use."),),
        disproved_by="the warnings end and the steps are as long with less memory in use",
        signals=("cache flushes",),
    )


@check(
    "io.output_table",
    "Wait for data by Lightning",
    "Does the profiler's table show a wait for data?",
    from_records="output",
)
def loader_table(profile: Profile) -> Check | None:
    """The wait for the data loader in the table of Lightning's profiler."""
    if profile.run.job_log is None:
        return None
    share, of = measured(profile, "profiled_loader_pct"), "the epoch"
    if share is None:
        share, of = measured(profile, "profiled_loader_rows_pct"), "the time of the table's rows"
    if share is None:
        return None
    said = say(f"By Lightning's profiler the training waits for its data loader for {{0}} of {of}.", share)
    return symptom(said) if share.value >= profile.thresholds["noted_pct"] else clean(said)


@check(
    *("step_time.output", "Warnings of the job", "Does the job's output warn of something that costs time?"),
    family="parallel",
    from_records="output",
)
def output_warnings(profile: Profile) -> Check | None:
    """Warnings that carry a cause, and the summary that the job prints at its end."""
    log = profile.run.job_log
    if log is None:
        return None
    kinds = [each.kind for each in log.warnings if each.kind in MEANING]
    kinds = [kind for kind in kinds if kind != "unnamed_timeout" or not log.timeouts]  # the same ones, with a rank
    kinds = [kind for kind in kinds if kind != "cache_off" or log.generated is not None]  # else it costs nothing
    said = failed_starts(log)
    said += [sentence for kind in kinds for sentence in _warned(profile, kind)]
    said += not_finite(profile)
    said += exhausted_memory(profile)
    whole, speed = measured(profile, "stated_runtime_s"), measured(profile, "stated_samples_per_s")
    if whole is not None and speed is not None:
        said.append(say("The job states {0} for the whole training, and {1}.", whole, speed))
    if (mean := measured(profile, "stated_mean_step_ms")) is not None:
        text = "That is {0} per step with evaluations and saves, if the training was not resumed."
        said.append(say(text, mean))
    if (evaluated := measured(profile, "stated_evaluation_pct")) is not None:
        said.append(say("Evaluations take {0} of the training.", evaluated))
    said += evaluation_times(profile, log)
    said += named_times(profile, log)
    said += bars_apart(log)
    said += single_line(profile, log)
    if not said:
        return None
    return symptom(*said) if kinds or measured(profile, "not_finite_pct") else clean(*said)


FAILED = "The output holds {} that ended with an error before another began ({}; from line {} on)."
MOST_ERRORS = 3  # names that are listed


def failed_starts(log: JobLog) -> list[Sentence]:
    """How many starts of the program ended with an error, and with which."""
    found = log.failed_starts
    if not found:
        return []
    counts = Counter(each.value or "unnamed" for each in found).most_common()
    listed = ", ".join(f"{name} {count} time{'s' * (count > 1)}" for name, count in counts[:MOST_ERRORS])
    listed += ", others" * (len(counts) > MOST_ERRORS)
    starts = "1 start of the program" if len(found) == 1 else f"{len(found)} starts of the program"
    return [say(FAILED.format(starts, listed, found[0].line))]


EARLIER_MEMORY = "The job ran out of device memory in {0}, before the first of the steps that are used (line %d)."


def _of_earlier_start(log: JobLog, kind: WarningKind) -> int | None:
    """The first line of the steps where all warnings of that kind stand before it; None where one stands behind."""
    found = [each for each in log.warnings if each.kind == kind]
    own = [log.steps.loc[log.steps["file"] == each.file, "line"].min() for each in found]
    before = bool(found) and all(each.last_line < line for each, line in zip(found, own, strict=True))
    return int(own[0]) if before else None


def _warned(profile: Profile, kind: WarningKind) -> list[Sentence]:
    """What a warning means and in how many lines it stands, with the time that these state."""
    log = profile.run.job_log
    first = None if log is None or kind != "out_of_memory" else _of_earlier_start(log, kind)
    text = MEANING[kind] if first is None else EARLIER_MEMORY % first
    said = [say(text, measure(profile, "warning_lines", kind=kind))]
    stated = measured(profile, "warned_s", kind=kind) if kind in STATED_S else None
    return said if stated is None else [*said, say(STATED_S[kind], stated)]


def evaluation_times(profile: Profile, log: JobLog) -> list[Sentence]:
    """The time of an evaluation, as lines state it."""
    count, first = len(log.evaluation_times), next(iter(log.evaluation_times), None)
    if first is None:
        return _inferences(profile, log)
    if count == 1 and first.begin_line:
        lines = f"{first.begin_line} and {first.line}"
        return [say(f"An evaluation took {{0}} by the time stamps of lines {lines}.", measure(profile, "evaluation_s"))]
    if count == 1:
        return [say(f"An evaluation took {{0}} by {_rows(log)} {first.line}.", measure(profile, "evaluation_s"))]
    figures = [measure(profile, "evaluation_s", statistic=each) for each in ("median", "min", "max")]
    by_stamps = all(each.begin_line for each in log.evaluation_times)
    lead = f"{count:,} {_rows(log)}s state the time of an evaluation"
    lead = f"By the time stamps of the lines that begin and end them, {count:,} evaluations took" if by_stamps else lead
    by_bars = all(each.by_bar for each in log.evaluation_times)
    lead = f"By their finished progress bars {count:,} evaluations took" if by_bars else lead
    return [say(f"{lead}{'' if by_stamps or by_bars else ':'} {{0}} in the median ({{1}} to {{2}}).", *figures)]


MOST_NAMED = 4
ONE_NAMED = "Line {} states {{0}} for {{n0}}."
NAMED = "{} lines state the time of {{n0}}: {{0}} in the median ({{1}} to {{2}})."


def named_times(profile: Profile, log: JobLog) -> list[Sentence]:
    """The time of work that lines name in a sentence, of the names with the most time together."""
    total: Counter[str] = Counter()
    for each in log.named_times:
        total[each.name] += int(each.wall_ms * 1e3)
    said = []
    for name, _ in total.most_common(MOST_NAMED):
        own = [each for each in log.named_times if each.name == name]
        statistics = ("median", "min", "max") if len(own) > 1 else ("median",)
        facts = [measure(profile, "named_time_ms", name=name, statistic=each) for each in statistics]
        text = NAMED.format(len(own)) if len(own) > 1 else ONE_NAMED.format(own[0].line)
        said.append(say(text, *facts, names=(name,)))
    return said


def _rows(log: JobLog) -> str:
    """What states the times of evaluations: lines, or the records of trainer_state.json."""
    return "record" if TRAINER_STATE.search(log.files[log.evaluation_times[0].file]) else "line"


def _inferences(profile: Profile, log: JobLog) -> list[Sentence]:
    """The time of the inference of an evaluation, as lines state it, and of the whole by the times of its lines."""
    count = len(log.inference_times)
    if not count:
        return []
    inference = measure(profile, "evaluation_inference_s")
    text = f"{count:,} lines state the time of the inference of an evaluation: {{0}} in the median"
    if count == 1:
        text = f"The inference of an evaluation took {{0}} by line {log.inference_times[0].line}"
    whole = measured(profile, "evaluation_by_lines_s")
    if whole is None:
        return [say(f"{text}; its other work, such as computing the metrics, is not in it.", inference)]
    until = "From its start to its results an evaluation takes {1} by the time stamps of the lines."
    return [say(f"{text}. {until}", inference, whole)]


def not_finite(profile: Profile) -> list[Sentence]:
    """Steps whose loss or gradient norm is no finite number, and from which step on all are so."""
    share = measured(profile, "not_finite_pct")
    if share is None:
        return []
    count = measure(profile, "warning_lines", kind="not_finite_loss")
    text = "Loss or gradient norm is NaN or infinite in {0}, {1} of the printed steps"
    step = lost_from(profile)
    return [say(f"{text}." if step is None else f"{text}, and in all of them from step {step} on.", count, share)]


def lost_from(profile: Profile) -> int | None:
    """The printed step from which on no loss is a finite number; None where later ones are, or one alone is not."""
    log = profile.run.job_log
    found = [] if log is None else [each for each in log.warnings if each.kind == "not_finite_loss"]
    if log is None or len(found) != 1 or log.steps.empty:
        return None
    later = log.steps[(log.steps["file"] == found[0].file) & (log.steps["line"] >= found[0].first_line)]
    if len(later) < LEAST_LOST or not found[0].to_the_end:
        return None
    return int(later["step"].min())


TRAINER_STATE = re.compile(r"trainer_state.*\.json")
LEAST_LOST = 2  # printed steps: one alone may be a single overflow
MOST_BARS = 4
UNSTEADY = " How steady the steps are is not known."
ONE_LINE = "One line states the time of a step, {0} in line %d."
ONE_MEAN = "One line states a mean time of a step, {0} in line %d."
ONE_OF: dict[StepTime, str] = {
    "sum": "The timers of forward, backward and step in line %d add up to {0}: a step takes at least as long.",
    "bar": "The steps of a progress bar up to line %d take {0} each by its clock.",
    "smoothed": "A progress bar shows a smoothed rate, {0} a step in line %d.",
    "stamps": "The steps up to line %d take {0} each by the time stamps of that line and an earlier one.",
    "block": "The steps up to line %d take {0} each: the time since an earlier line, divided by the steps between.",
    "unwound": "The steps up to line %d take {0} each by the running means of that line and an earlier one.",
    **dict.fromkeys(("mean", "window", "epoch", "running"), ONE_MEAN),
}


FIRST_OF_BAR = "The first step of a progress bar took {0} (line %d); how long later steps take is not known."
OF_BAR = "The step up to line %d takes {0} by the clock of a progress bar." + UNSTEADY
WAITS = "Of it the line states {0} as the wait for data."
MOST_FEW = 10
MOST_LISTED = 4
TOO_FEW = "too few to say which of it is usual."
FEW_LINES = f"The few step lines give {{0}} to {{1}} a step: {TOO_FEW}"
APART = (
    "Progress bars of two processes are at step {} (line {}) and step {} (line {}) after the same time: these ranks do "
    "not do the same steps, or began at different times."
)
BAR = "The progress bar in line {} has done {} steps, {{0}} each by its clock."
ONE_STEP = "The progress bar in line {} has done one step, in {{0}}."
SMOOTHED_BAR = "The progress bar in line {} shows a smoothed rate at step {}, {{0}} a step."
OTHER_BARS = "They are bars of several runs or processes, and no mean is taken over them."


def bars_apart(log: JobLog) -> list[Sentence]:
    """Processes whose progress bars are not at the same step."""
    found = log.bars_apart[:1]
    return [say(APART.format(each.ahead, each.ahead_line, each.behind, each.behind_line)) for each in found]


def _bars(profile: Profile, log: JobLog) -> list[Sentence]:
    """What several progress bars show that have one update each."""
    said = []
    for place, each in enumerate(log.bars[:MOST_BARS]):
        text = SMOOTHED_BAR if each.smoothed else ONE_STEP if each.steps == 1 else BAR
        said.append(say(text.format(each.line, each.steps), measure(profile, "bar_step_ms", place=place)))
    return [*said, say(OTHER_BARS)] if len(said) > 1 else said


def few_lines(profile: Profile, log: JobLog) -> Sentence:
    """What lines too few for a series state: each of them, or of more than ``MOST_LISTED`` the least and the most."""
    rows = log.steps[log.steps["wall_ms"].notna()]
    if len(rows) > MOST_LISTED or rows["step"].duplicated().any():
        least, most = (measure(profile, "logged_step_ms", statistic=each) for each in ("min", "max"))
        return say(FEW_LINES, least, most)
    facts = [measure(profile, "logged_step_ms", step=int(step)) for step in rows["step"]]
    spans = [1 if log.step_time in SINGLE else int(span) for span in rows["span"]]
    parts = [
        f"{{{at}}} {_steps_to(int(step), span)}"
        for at, (step, span) in enumerate(zip(rows["step"], spans, strict=True))
    ]
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}"
    return say(f"The few step lines give {listed}: {TOO_FEW}", *facts)


WAITED = "Of it the lines state as the wait for data: {}."


def few_waits(profile: Profile, log: JobLog) -> list[Sentence]:
    """What each of lines too few for a series waits for data, as far as they state it."""
    rows = log.steps[log.steps["wall_ms"].notna() & log.steps["data_wait_ms"].notna()]
    if not 1 < len(rows) <= MOST_LISTED or rows["step"].duplicated().any():
        return []
    facts = [measure(profile, "logged_step_wait_ms", step=int(step)) for step in rows["step"]]
    parts = [f"{{{at}}} for step {int(step)}" for at, step in enumerate(rows["step"])]
    return [say(WAITED.format(f"{', '.join(parts[:-1])} and {parts[-1]}"), *facts)]


def _steps_to(step: int, span: int) -> str:
    return f"for step {step}" if span == 1 else f"for each of steps {step - span + 1} to {step}"


def single_line(profile: Profile, log: JobLog) -> list[Sentence]:
    """The time of a step that a single line states, which is no series."""
    if profile.traced or profile.series is not None or log.steps.empty:
        return [] if profile.traced else _bars(profile, log)
    if len(log.steps) > MOST_FEW:
        return []
    if len(log.steps) > 1:
        return [few_lines(profile, log), *few_waits(profile, log)]
    text = ONE_OF.get(log.step_time, ONE_LINE) + UNSTEADY
    if log.grammars == ("progress bar",) and int(log.steps["span"].iloc[0]) == 1:
        text = FIRST_OF_BAR if int(log.steps["step"].iloc[0]) == 1 else OF_BAR if log.step_time == "bar" else text
    said = [say(text % int(log.steps["line"].iloc[0]), measure(profile, "logged_step_ms"))]
    waited = measured(profile, "first_step_data_wait_ms")
    return said if waited is None else [*said, say(WAITS, waited)]


def out_of_memory(profile: Profile) -> list[Sentence]:
    """That device memory ran out, and how it was used then; nothing where the output does not say so."""
    log = profile.run.job_log
    if log is None or not any(each.kind == "out_of_memory" for each in log.warnings):
        return []
    return [*_warned(profile, "out_of_memory"), *exhausted_memory(profile)]
