"""Answers about how the run is set up: settings of libraries, MFU, other workloads, the timeline, mixed step times."""

from __future__ import annotations

import re

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import rank_list
from hermes_agent.questions.answers.steps import which_step
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, listed, paragraph, row_table
from hermes_agent.questions.reading.question import Question, lexicon, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.overview import SettingRow
from tools.run.kinds import JOB_LOG_FORMAT
from tools.views.training_seen import inference_name, training_name, work_seen

LISTED, RANKS_LISTED = 20, 8
LIBRARIES = ("NCCL", "OMP", "MKL", "PYTHON", "TORCH", "CUDA", "CUDNN", "DRIVER", "GLOO", "HCCL", "RCCL")
WORKLOADS = {
    "batch_size": r"\bbatch( ?size)?(es)?\b",
    "sequence_length": r"\bsequences?( lengths?)?\b|\bcontext length\b",
    "tensor_parallel": r"\b(tp|tensor parallel\w*)\b",
    "pipeline_parallel": r"\b(pp|pipeline parallel\w*)\b",
    "data_parallel": r"\b(dp|data parallel\w*)\b|\b(more|\d+) (gpus?|ranks?|nodes?)\b",
    "precision": r"\b(precision|bf16|fp16|fp8|tf32)\b",
}
IS_ON = re.compile(r"^(is|are|was|were)\b.*\b(on|off|enabled|disabled|active|set)$")
LEAST_WORD, MOST_SETTINGS = 5, 500  # letters of a word that names a setting; rows looked through
VERSION = re.compile(r"\bversions?\b")
VERSIONED = ("python", "torch")  # settings of the monitor that are versions by themselves
NO_LIBRARY = ("schemaVersion",)
VERSIONS = ("torch", "python", "cuda_build", "cuda_runtime", "rocm_build", "driver", "cudnn", "numpy", "triton")
OPTIMIZER = "Optimizer.step#"
_STEPS = r"(steps?|iterations?|iters?|batches)( ?(times?|costs?))?"
_LONG = r"(longer|slower|slow|long|large\w*|big\w*|high\w*|spik\w*|jump\w*)"
LONGER = re.compile(
    rf"\bwhy\b.*\b(one|some|single|certain|few)\b.*\b{_STEPS}\b"
    rf"|\bwhy\b.*\b{_STEPS}\b.*\b{_LONG}\b|\b{_STEPS}\b.*\b{_LONG}\b.*\bwhy\b|\b(large|long|high) {_STEPS}\b.*\bwhy\b"
)
SOME = re.compile(r"\b(some|certain|a few|few|every|each|sometimes|now and then|single|others?)\b")
EXPERTS = "communication.expert_load"
OF_SOME_STEPS = {"checkpoint_stall", "evaluation_stall", "garbage_collection", "operator_compilation"}  # now and then


def settings(discussion: Discussion, question: Question) -> str | None:
    """Recorded environment variables and settings of the libraries that the question names, else of all.

    Of "is X on?" those whose name shares a word with the question; None where none does.
    """
    words = ["TORCH" if word == "PYTORCH" else word for word in question.words.upper().split()]
    asked = [name for name in LIBRARIES if any(word.startswith(name) for word in words)]
    if IS_ON.search(question.words):
        return _switches(discussion, question)
    of_versions = VERSION.search(question.words) is not None
    rank = question.ranks[0] if question.ranks else None
    if not discussion.profile().traced:
        rank = None
    parts, notes = [], dict[str, None]()
    for name in asked or (None,):
        found = called(discussion, "environment", question.page, rank=rank, contains=name, limit=LISTED)
        rows = [row for row in found.rows if isinstance(row, SettingRow)]
        if of_versions:
            rows = [row for row in rows if "version" in row.name.casefold() or row.name in VERSIONED]
        if of_versions and not rows:
            parts.append(_no_version(discussion, name, rank))
            continue
        notes |= dict.fromkeys(found.notes)
        if not rows:
            parts.append(f"No {name or 'such'} setting was recorded, so its value is not known from this run.")
            continue
        cells = [[row.id, row.origin, quoted(row.name), str(row.value)] for row in rows]
        parts.append(blocks([f"Recorded {name or ''} settings:".replace("  ", " "),
                             row_table(("rank", "from", "setting", "value"), cells)]))  # fmt: skip
    return blocks([*parts, paragraph(notes)])


def _switches(discussion: Discussion, question: Question) -> str | None:
    """The recorded settings whose name shares a word with the question; None where none does."""
    rank = question.ranks[0] if question.ranks else None
    named = {word for word in question.words.split() if len(word) >= LEAST_WORD and word.upper() not in LIBRARIES}
    found = called(discussion, "environment", rank=rank, limit=MOST_SETTINGS)
    rows = [
        row
        for row in found.rows
        if isinstance(row, SettingRow) and named & set(row.name.casefold().replace(".", "_").split("_"))
    ]
    cells = [[row.id, row.origin, quoted(row.name), str(row.value)] for row in rows[:LISTED]]
    lead = "Recorded settings of that name:"
    return blocks([lead, row_table(("rank", "from", "setting", "value"), cells)]) if cells else None


def _no_version(discussion: Discussion, library: str | None, rank: int | None) -> str:
    """The version by a record of the host, else that it was not recorded, and the versions that were."""
    if stated := _by_environment(discussion, library):
        return stated
    found = called(discussion, "environment", rank=rank, contains="version", limit=LISTED)
    known = dict.fromkeys(f"{quoted(row.name)} {row.value}" for row in found.rows
                          if isinstance(row, SettingRow) and row.name not in NO_LIBRARY)  # fmt: skip
    whose = f" of {'PyTorch' if library == 'TORCH' else library}" if library else ""
    there = f"Versions that were recorded: {listed(list(known))}." if known else ""
    return paragraph([f"The version{whose} was not recorded.", there, wording("needs_versions")])


def _by_environment(discussion: Discussion, library: str | None) -> str:
    """Versions that env.json or collect_env state, with the line."""
    wanted = "" if library is None else library.casefold()
    found = [
        f"{quoted(name)} {quoted(value)} ({quoted(own.file)}{f', line {own.lines[name]}' if name in own.lines else ''})"
        for own in discussion.profile().run.environments
        for name, value in own.facts.items()
        if wanted in name and (wanted or name in VERSIONS)
    ]
    return f"Recorded: {listed(found[:LISTED])}." if found else ""


HOST_ASKED = re.compile(
    r"\b(which|what|how many)\b.*\b(gpus?|devices?|accelerators?|cards?|pytorch|torch|cuda|driver|python|cores|cpus?)\b"
)
OF_HOST = {
    re.compile(r"\b(gpus?|devices?|accelerators?|cards?)\b"): ("gpus", "gpu"),
    re.compile(r"\b(pytorch|torch)\b"): ("torch",),
    re.compile(r"\bcuda\b"): ("cuda_build", "cuda_runtime"),
    re.compile(r"\bdriver\b"): ("driver",),
    re.compile(r"\bpython\b"): ("python",),
    re.compile(r"\b(cores|cpus?)\b"): ("cores", "cpu"),
}
HOST_OTHERWISE = re.compile(
    r"\b(busy|idle|slow\w*|time|memory|use[sd]?|wait\w*|need\w*|should|would|rank|hot\w*|lower\w*|work|most|least)\b"
)


def host_facts(discussion: Discussion, question: Question) -> str | None:
    """Versions and devices of a host that env.json or collect_env states, on a run of which nothing else counts them;
    None where none is asked for or recorded."""
    words = question.words
    if not HOST_ASKED.search(words) or HOST_OTHERWISE.search(words):  # nothing is read of the run for it
        return None
    run = discussion.profile().run
    if run.ranks or not run.environments:
        return None
    wanted = [name for pattern, names in OF_HOST.items() if pattern.search(words) for name in names]
    found = [
        f"{quoted(name)} {quoted(own.facts[name])} ({quoted(own.file)}"
        + (f", line {own.lines[name]})" if name in own.lines else ")")
        for own in run.environments
        for name in wanted
        if name in own.facts
    ]
    return f"Recorded: {listed(found[:LISTED])}." if found else None


def flops(discussion: Discussion, question: Question) -> str:
    """The MFU where shapes and the device's peak are known, else what is missing."""
    profile = discussion.profile()
    if not profile.traced:
        by_lines = discussion.measured("stated_mfu_pct")
        if by_lines is not None:
            return discussion.say(wording("stated_mfu"), by_lines)
        stated = discussion.measured("stated_tflops")
        if stated is not None:
            return discussion.say(wording("mfu_of_stated"), stated)
        return wording("no_mfu") if profile.run.job_log is None else wording("no_mfu_in_output")
    rank = question.ranks[0] if question.ranks else min(profile.run.rank_numbers)
    found = called(discussion, "mfu", rank=rank)
    known = {fact.metric: fact for fact in found.facts}
    if "mfu_pct" not in known:
        return blocks([paragraph(found.notes), wording("no_mfu")])
    least = "at least " if known["mfu_pct"].label.startswith("at least") else ""
    text = (
        f"The MFU of rank {rank} is {least}{{mfu_pct}}: {{model_flop}} of matrix work per step by the recorded shapes, "
        "on a device with a peak of {device_peak} in the precision used; {flop_coverage_pct} of the time of matrix "
        "kernels has known operations."
    )
    return blocks([discussion.say(text, rank=rank), wording("mfu_counts"), bullets(found.notes)])


def experts(discussion: Discussion, _: Question) -> str | None:
    """Which rank's experts get most work, and that tokens of single experts are not recorded; None without experts."""
    found = [each for each in discussion.diagnosis.causes if each.cause == "moe_imbalance"]
    check = next((each for each in discussion.diagnosis.checks if each.analyzer == EXPERTS), None)
    if not found and (check is None or check.status == "cannot_answer"):
        return None
    said = [f"By rank: {found[0].claim}"] if found else ([] if check is None else check.text)
    where = f"The busiest is {rank_list(found[0].ranks)}." if found and found[0].ranks else ""
    return blocks([paragraph([where, *said]), wording("experts_open")])


def workload(discussion: Discussion, question: Question) -> str | None:
    """What another batch size or degree of parallelism would bring: refused with the reason, and what to record."""
    asked = [what for what, pattern in WORKLOADS.items() if re.search(pattern, question.words)]
    if not asked:
        return None
    result = called(discussion, "what_if", changes=[{"what": what} for what in asked])
    return blocks([f"That cannot be predicted from this recording. {capital(note)}" for note in result.notes])


def host_use(discussion: Discussion, question: Question) -> str:
    """The busy cores of each rank's machine by the monitor's samples, those of other processes apart."""
    rows = []
    for rank in question.ranks or discussion.ranks[:RANKS_LISTED]:
        facts = [discussion.measured("sampled_cores", rank=rank, whose=whose) for whose in ("all", "run", "foreign")]
        if all_known := [fact for fact in facts if fact is not None]:
            text = f"rank {rank}: {{0}} busy on its machine, {{1}} of this run's processes and {{2}} of others"
            rows.append(discussion.say(text, *all_known))
    return blocks(["Busy cores, as the mean over unprofiled steps:", bullets(rows)]) if rows else wording("no_host_use")


def not_recorded(discussion: Discussion, question: Question) -> str | None:
    """What no source of a run holds, such as temperature or loss, and where to look; what a check found after all."""
    known = lexicon().unrecorded
    entry = next((each for each in known if re.search(rf"\b(?:{each.words})\b", question.words)), None)
    if entry is None:
        return None
    checks = discussion.diagnosis.checks
    found = [text for each in checks if each.analyzer in entry.checks and each.status == "found" for text in each.text]
    if found:
        return paragraph([*found, entry.found_too])
    return entry.from_log if entry.from_log and _output_was_read(discussion, bool(entry.checks)) else entry.text


def _output_was_read(discussion: Discussion, its_lines: bool) -> bool:
    """Whether steps were read from the job's output or a tracker; with ``its_lines`` whether the output itself was."""
    log = discussion.profile().run.job_log
    if log is None or not its_lines:
        return log is not None and not log.steps.empty
    return any(each.format == JOB_LOG_FORMAT and each.status != "excluded" for each in discussion.diagnosis.run.sources)


def timeline(discussion: Discussion, _: Question) -> str:
    """How to see the timeline: a trimmed trace for Perfetto, and the commands that list its rows."""
    return wording("timeline") if discussion.profile().traced else wording("no_timeline")


def hosts(discussion: Discussion, _: Question) -> str:
    """The host of each rank, as far as the sources name it."""
    ranks: dict[str, list[int]] = {}
    for each in discussion.profile().run.ranks:
        ranks.setdefault(each.host, []).append(each.rank)
    named = bullets(f"{quoted(host)}: {rank_list(own)}" for host, own in sorted(ranks.items()) if host)
    unnamed = ranks.get("", [] if ranks else discussion.ranks)
    lack = f"The host of {rank_list(unnamed)} is not recorded. {wording('needs_hosts')}" if unnamed else ""
    return blocks(["Ranks by host:" if named else "", named, lack])


def optimizer(discussion: Discussion, _: Question) -> str:
    """The optimizers whose steps are marked in the trace."""
    names: dict[str, None] = {}
    for view in discussion.profile().ranks:
        texts = (str(name) for name in view.categories if str(name).startswith(OPTIMIZER))
        names |= dict.fromkeys(text.removeprefix(OPTIMIZER).partition(".")[0] for text in texts)
    if not names:
        return wording("no_optimizer")
    return f"The trace marks steps of {listed([quoted(name) for name in names])}."


def longer_steps(discussion: Discussion, question: Question) -> str | None:
    """Why some steps take longer: the causes found in certain steps, then the slowest step and what grew in it."""
    if not LONGER.search(question.words) or question.steps:
        return None
    all_steps = len(discussion.diagnosis.run.steps)
    causes = discussion.diagnosis.causes
    of_steps = [each for each in causes if 0 < len(each.steps) < all_steps]
    lead = "Causes that were found in certain steps only:" if of_steps else ""
    if not of_steps and (of_steps := [each for each in causes if each.cause in OF_SOME_STEPS]):
        lead = "Found, of the causes that hold single steps up:"
    found = bullets(cause.claim for cause in of_steps)
    if not of_steps and not discussion.diagnosis.run.ranks:  # no trace: what records say of all steps
        claims = blocks(paragraph([each.claim, *each.details]) for each in causes)
        found = claims or ("" if SOME.search(question.words) else " ".join(discussion.diagnosis.answer))
    elif not of_steps and causes:
        lead, found = "No cause was found in certain steps only. Found in all of them:", bullets([causes[0].claim])
    return blocks([lead, found, which_step(discussion, question)])


TRAINS = "It trains: the recording holds a backward pass or an optimizer, such as {}."
INFERS = "By names such as {} it is inference: neither a backward pass nor an optimizer is recorded."
NO_STEP = (
    "No training step is recorded: neither a backward pass nor an optimizer. It is inference, an evaluation, or a part "
    "of a step."
)
TOO_FEW = (
    "Not known: too few operators of PyTorch are recorded to tell a training from inference. It needs a trace with the "
    "host's operators (ProfilerActivity.CPU)."
)


def kind_of_work(discussion: Discussion, _: Question) -> str:
    """Whether the traces are of a training or of inference, and the recorded name that shows it."""
    profile = discussion.profile()
    if not profile.traced:
        if profile.run.job_log is not None and not profile.run.job_log.steps.empty:
            return "The job's output prints training steps; no trace was read that would show what a step runs."
        return "Not known: no trace was read, and only a trace shows a backward pass or an optimizer."
    match work_seen(profile):
        case "training":
            return TRAINS.format(quoted(training_name(profile)))
        case "inference":
            return INFERS.format(quoted(inference_name(profile)))
        case "no training step":
            return NO_STEP
    return TOO_FEW
