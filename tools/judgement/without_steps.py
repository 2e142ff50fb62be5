"""Why nothing is judged where nothing that was read shows a step, and what would settle it: by what was read."""

from __future__ import annotations

import re

from tools.run.first_printed import idle_tables
from tools.run.recorded.counters import CounterRecords
from tools.run.recorded.job_log import JobLog
from tools.views.counters import counter_view, waits_only, without_kernels
from tools.views.profile import Profile
from tools.views.steps.coarse import capture_of
from tools.views.steps.series import stated_by
from tools.views.steps.throughput import rate_series

STEP_TABLE = "the whole folder of the profiler, with its timeline and `step_trace_time.csv`"
STEP_LINES = "the job's output with the time of each step (`--log-interval 1` or its like)"
ALL_RANKS = "`py-spy dump --pid PID` on every rank while they hang, which shows what each of them waits for"
CALLS = (
    "the frames of these collectives in the flight recorder's dumps (`TORCH_NCCL_TRACE_BUFFER_SIZE=2000"
    " TORCH_NCCL_DUMP_ON_TIMEOUT=1`) of a rank that differs and of another one"
)
HOST_STACK = (
    "`py-spy dump --pid PID` of the training while its devices have no work, which shows what its host does then"
)
DATA_TIMES = "the job's output with the time of each step and what of it waits for data"
LINKS = "the same test with `NCCL_DEBUG=INFO`, which names the network and the path that NCCL chose"
LINES_LEFT_OUT = "all that this test prints: its command sets `NCCL_DEBUG`, and the lines name the path that NCCL chose"
TESTED = "tested_"  # counters of a test by itself
LEVELS = re.compile(r"(?:INFO|TRACE)\Z", re.I)  # of NCCL_DEBUG that print it
MEMORY = "`torch.cuda.memory._dump_snapshot()` shortly before it fails, which names what holds the memory"
LOADER_STACKS = "`py-spy dump --pid PID --subprocesses` on every rank if the job hangs; if it is slow, %s"


def why_without_steps(profile: Profile) -> tuple[str, str]:
    """The reason as a clause without figures, and what would settle it."""
    run = profile.run
    if run.collectives is not None:
        return "no trace was read, and records of collectives hold no steps", STEP_LINES
    if run.host_stacks is not None:
        why = "no trace was read, and stacks of the host do not show what a step loses"
        return why, LOADER_STACKS % capture_of(profile)
    idle = run.counters is not None and len(idle_tables(run)) == len(run.counters.sources)
    if run.counters is not None and run.ascend is None and not idle:
        return _of_what(run.counters), _of_samples(profile)
    if run.snapshots:
        why = "no trace was read, and a snapshot of the allocator does not show what a step loses"
        return why, capture_of(profile)
    if run.job_log is None and run.ascend is None and run.environments:
        return "versions and settings of a host do not show what a step loses", capture_of(profile)
    if run.job_log is None:
        return "no trace was read, and the profiler's tables hold no steps", STEP_TABLE
    if rate_series(run) is not None:
        why = "no trace was read, and the job's output states a throughput and not how long a step takes"
        return why, f"{STEP_LINES}, or the global batch size next to the throughput"
    return _of_output(profile, run.job_log)


def _of_what(records: CounterRecords) -> str:
    """Why what is read as counters shows no step: a test of links or of storage is no state of a machine."""
    kinds = set(map(str, records.samples["counter"].unique()))
    if kinds and all(each.startswith(TESTED) for each in kinds):
        return "a test of links or of storage does not show what a step of a training loses"
    return "samples of counters show the state of devices and machines, not what a step consists of"


def _of_samples(profile: Profile) -> str:
    """Of samples: stacks where devices wait or have no work, else the times of steps next to them."""
    view = counter_view(profile)
    if view is None or not view.devices:
        of_disks = view is not None and any("disk" in str(each) for each in view.records.samples["counter"].unique())
        return DATA_TIMES if of_disks else STEP_LINES
    if waits_only(view.devices):
        return ALL_RANKS
    return HOST_STACK if without_kernels(view.devices) else STEP_LINES


def _of_output(profile: Profile, log: JobLog) -> tuple[str, str]:
    """Of a job's output without steps: what belongs to the largest thing that it holds."""
    if log.reports and all(each.kind == "mismatch" for each in log.reports):
        return "the report does not show which lines of the program make these calls", CALLS
    if log.reports or any(not each.code.startswith("Xid") for each in log.errors):
        return "a report of a hang does not show why a rank stays behind", ALL_RANKS
    if any(each.kind == "out_of_memory" for each in log.warnings):
        return "the error does not show what holds the memory", MEMORY
    if not log.actions.empty:
        return "a table of a whole recording does not show single steps", capture_of(profile)
    if not log.comm_tests.empty:
        return "a bandwidth test does not show what a step of a training loses", _of_test(profile, log)
    if not log.timers.empty:
        return "no trace was read, and timers do not show what their parts consist of", capture_of(profile)
    source = stated_by(profile.run)
    verb = "hold" if source.endswith("events") else "holds"
    return f"no trace was read, and {source} {verb} no series of step times", STEP_LINES


def _of_test(profile: Profile, log: JobLog) -> str:
    """Of nccl-tests: NCCL's own lines where they are missing, else the training itself."""
    if log.nccl.connected or log.nccl.network:
        return f"of the training itself {capture_of(profile)}"
    level = log.nccl.settings.get("NCCL_DEBUG")
    return LINES_LEFT_OUT if level is not None and LEVELS.match(level.value) else LINKS
