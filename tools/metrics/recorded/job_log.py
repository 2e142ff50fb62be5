"""Figures of a job's own output: its pipeline by layout and timers, skipped steps, NCCL's connections, time-outs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.communication.pipeline import at_least_one, expected_bubble
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.run.model import JOB_LOG_FORMAT
from tools.run.recorded.job_log import SINGLE, Communicator, JobLog, LogWarning
from tools.views.profile import Profile

ROW_ROUNDING = 0.005  # GB/s: half of the last digit that nccl-tests prints for a row
COMPUTE_TIMERS = ("forward-compute", "backward-compute")
SETTLING_STEPS = 40  # a loss scale that starts at 2^32 is halved some 18 times, with a hysteresis of 2 in twice as many
GIB = 1024.0**3
NEXT_BATCH = "train_dataloader_next|get_train_batch"
# Actions of Lightning that hold others: the loop of the epoch, that of a batch, and since version 1.1 the optimizer's
# step, whose closure computes the loss and its gradients.
HOLDS_OTHERS = re.compile(
    r"run_training_(?:epoch|batch)\Z|run_(?:test_)?evaluation\Z|optimizer_step_(?:and|with)_closure"
    r"|training_step_and_backward|\[LightningModule\].{1,80}\.optimizer_step\Z"
)
WARM_UP = 0.5  # of the printed steps: a loss scale that starts too high is lowered in them


def job_log(profile: Profile) -> JobLog:
    """The record of the job's output; UsageError where there is none."""
    if profile.run.job_log is None:
        raise UsageError("the run holds no output of the job")
    return profile.run.job_log


def micro_batches(log: JobLog) -> int | None:
    """Micro-batches of a step: stated, else global batch size / (micro batch size x data parallel size)."""
    stated = log.whole("num_micro_batches")
    whole, micro = log.whole("global_batch_size"), log.whole("micro_batch_size")
    data = log.whole("data_parallel_size")
    if stated is not None or not whole or not micro or not data:
        return stated or None
    return whole // (micro * data) or None


def stages(log: JobLog) -> int | None:
    """Pipeline stages that the job prints, where these are several."""
    count = log.whole("pipeline_model_parallel_size") or 0
    return count if count > 1 else None


def virtual_stages(log: JobLog) -> int:
    """Parts of the model on each stage by the interleaved schedule; 1 without it."""
    return max(log.whole("virtual_pipeline_model_parallel_size") or 1, 1)


@metric("stages", "pipeline stages by the job's arguments", "How many pipeline stages has the job?")
def stated_stages(profile: Profile) -> Measurement:
    """The pipeline-parallel size among the arguments that the job prints."""
    log = job_log(profile)
    return _of_arguments(log, stages(log), ("pipeline_model_parallel_size",))


@metric("micro-batches", "micro-batches per step by the job's arguments", "How many micro-batches has a step?")
def stated_micro_batches(profile: Profile) -> Measurement:
    """Global batch size over micro batch size and data-parallel size, as the job prints them."""
    log = job_log(profile)
    names = ("num_micro_batches", "global_batch_size", "micro_batch_size", "data_parallel_size")
    return _of_arguments(log, micro_batches(log), names)


@metric("%", "idle share of the pipeline schedule", "How much of a step does the pipeline schedule leave idle?")
def stated_bubble_pct(profile: Profile, micro_batches: float | None = None) -> Measurement:
    """(p - 1) / (v m + p - 1) of p stages with v parts each and m micro-batches (Narayanan et al., SC'21, section 2.2);
    ``micro_batches`` in place of those of the job."""
    log = job_log(profile)
    stated, passing = stages(log), _passing(log) if micro_batches is None else at_least_one(micro_batches)
    if stated is None or passing is None:
        raise UsageError("the job's output does not state its pipeline stages and micro-batches")
    share = 100.0 * expected_bubble(stated, passing * virtual_stages(log))
    found = _of_arguments(log, stated, ("pipeline_model_parallel_size", "global_batch_size", "micro_batch_size"))
    return replace(found, value=share)


@metric("%", "time saved by another pipeline schedule", "How much less time would the same samples take?")
def schedule_saving_pct(profile: Profile, micro_batches: float) -> Measurement:
    """1 - (1 - b) / (1 - b') of idle shares b of the job's schedule and b' of that with so many micro-batches.

    A stage computes 1 - b of a step of length T. For as many samples it computes as long, so that T (1 - b) / (1 - b')
    is the length with the other schedule. Negative where it would take longer.
    """
    now, then = stated_bubble_pct(profile), stated_bubble_pct(profile, micro_batches)
    return replace(now, value=100.0 * (1.0 - (100.0 - now.value) / (100.0 - then.value)))


@metric("ms", "step with {micro_batches} micro-batches", "How long is a step with another number of micro-batches?")
def schedule_step_ms(profile: Profile, micro_batches: float) -> Measurement:
    """The mean step times as many micro-batches as now, less what the schedule saves; each takes as long as now."""
    log = job_log(profile)
    saved, passing = schedule_saving_pct(profile, micro_batches), _passing(log)
    if passing is None or profile.series is None:
        raise UsageError("the job's output does not state its micro-batches and the time of its steps")
    return replace(saved, value=profile.mean_step_ms * (1.0 - saved.value / 100.0) * micro_batches / passing)


@metric("samples", "samples of a step with {micro_batches} micro-batches", "How large would the global batch be?")
def schedule_batch(profile: Profile, micro_batches: float | None = None) -> Measurement:
    """The global batch of the job's arguments, with another number of such micro-batches in proportion."""
    log = job_log(profile)
    whole, passing = log.whole("global_batch_size"), _passing(log)
    if whole is None or passing is None:
        raise UsageError("the job's output does not state its global batch size and micro-batches")
    found = _of_arguments(log, whole, ("global_batch_size", "micro_batch_size", "data_parallel_size"))
    return found if micro_batches is None else replace(found, value=whole * micro_batches / passing)


def _passing(log: JobLog) -> float | None:
    found = micro_batches(log)
    return None if found is None else float(found)


def most_idle_pct(profile: Profile) -> float:
    """The most that a better schedule can save of the step: its idle share, and what the timers leave beside computing.

    UsageError where the job's output does not state its stages and micro-batches.
    """
    idle_pct = stated_bubble_pct(profile).value
    try:
        return min(idle_pct, 100.0 - timed_compute_pct(profile).value)
    except UsageError:
        return idle_pct


@metric("%", "share of the step in forward and backward by the job's timers", "How much of a step does a rank compute?")
def timed_compute_pct(profile: Profile) -> Measurement:
    """Mean over the usual steps of the timers ``forward-compute`` and ``backward-compute``, of the step."""
    log = job_log(profile)
    if profile.series is None or log.timers.empty:
        raise UsageError("the job's output holds no timers of its steps")
    usual = profile.series.usual[["step", "wall_ms"]]
    own = log.timers[log.timers["name"].isin(COMPUTE_TIMERS) & log.timers["step"].isin(usual["step"])]
    if set(own["name"]) != set(COMPUTE_TIMERS):
        raise UsageError("the job's output holds no timers of forward and backward")
    by_step = own.groupby("step")["max_ms"].sum()
    walls = usual.groupby("step")["wall_ms"].mean().reindex(by_step.index)
    value = 100.0 * float(by_step.sum()) / float(walls.sum())
    return of_lines(log, value, own, "timers of forward and backward", tuple(map(int, by_step.index)))


@metric("ms", "first printed step", "How long is the first step of the output?")
def first_step_ms(profile: Profile) -> Measurement:
    """The time of the first step line, which warms up."""
    log = job_log(profile)
    first = log.steps[log.steps["wall_ms"].notna()].iloc[:1]
    if first.empty:
        raise UsageError("the job's output holds no times of steps")
    return of_lines(log, float(first["wall_ms"].iloc[0]), first, "the first step line", (int(first["step"].iloc[0]),))


@metric("ms", "wait for data of the first printed step", "How long does the first step of the output wait for data?")
def first_step_data_wait_ms(profile: Profile) -> Measurement:
    """What the first step line states of its wait for data."""
    first = first_step_ms(profile)
    rows = first.rows()
    waited = float(rows["data_wait_ms"].iloc[0])
    if math.isnan(waited):
        raise UsageError("the first step line does not state its wait for data")
    return replace(first, value=waited)


@metric("ms", "step by a progress bar", "How long is a step by the only update of a progress bar?")
def bar_step_ms(profile: Profile, place: int = 0) -> Measurement:
    """Time since the bar began over the steps done; of a first step, and where the bar may go on from a checkpoint,
    the rate that it shows. ``place`` counts the bars."""
    log = job_log(profile)
    if not 0 <= place < len(log.bars):
        raise UsageError(f"the job's output holds {len(log.bars)} progress bars with a single update")
    each = log.bars[place]
    rows = pd.DataFrame([{"line": each.line, "file": each.file, "steps": each.steps, "wall_ms": each.step_ms}])
    return of_lines(log, each.step_ms, rows, "update of a progress bar", (each.steps,))


@metric("ms", "mean printed step time with the start", "How long is a step on average, the start included?")
def logged_mean_ms(profile: Profile) -> Measurement:
    """Mean over all step lines of the rank of the first one, each for the steps that it stands for."""
    log = job_log(profile)
    own = log.steps[log.steps["wall_ms"].notna()]
    if own.empty:
        raise UsageError("the job's output holds no times of steps")
    own = own[own["rank"] == own["rank"].iloc[0]]
    value = float(np.average(own["wall_ms"], weights=own["span"]))
    return of_lines(log, value, own, "step lines", tuple(map(int, own["step"])))


@metric("ms", "{statistic} printed step time", "How long is a step by the job's output?")
def logged_step_ms(profile: Profile, statistic: str = "median", step: int | None = None) -> Measurement:
    """Over all step lines of the output, also those of the start, and those of a trace that was recorded next to it;
    ``step``: over the lines of this step alone."""
    log = job_log(profile)
    own = log.steps[log.steps["wall_ms"].notna()]
    own = own if step is None else own[own["step"] == step]
    if own.empty:
        raise UsageError("the job's output holds no times of steps")
    value = over_steps(own["wall_ms"].to_numpy(dtype=np.float64), statistic)
    return of_lines(log, value, own, "step lines", tuple(map(int, own["step"])))


@metric("%", "first printed step against the usual ones", "How much longer is the first step of the output?")
def first_step_excess_pct(profile: Profile) -> Measurement:
    """The first step line against the mean of the usual steps of the slowest rank."""
    first = first_step_ms(profile)
    if profile.series is None or profile.series.origin != "job_log":
        raise UsageError("the usual steps are not of the job's output")
    return replace(first, value=100.0 * (first.value / profile.series.mean_ms - 1.0))


@metric(
    "TFLOP/s", "FLOP/s per device as the job states them", "How many FLOP/s does a device reach by the job's output?"
)
def stated_tflops(profile: Profile) -> Measurement:
    """Mean of what the lines of the usual steps state, each weighted with the time it stands for."""
    log = job_log(profile)
    if profile.series is None or "tflops" not in profile.series.usual:
        raise UsageError("the job's output does not state FLOP/s")
    own = profile.series.usual[profile.series.usual["tflops"].notna().to_numpy()]
    if own.empty:
        raise UsageError("the job's output does not state FLOP/s")
    weight = own["wall_ms"] * own["span"]
    value = float((own["tflops"] * weight).sum() / weight.sum())
    return of_lines(log, value, own, "FLOP/s of step lines", tuple(map(int, own["step"])))


@metric("%", "MFU as the job states it", "Which MFU does the job's output state?")
def stated_mfu_pct(profile: Profile) -> Measurement:
    """Mean of what the lines of the usual steps state, each weighted with the time it stands for; of all lines where
    these are no series. It is relative to the peak that the program takes the device to have."""
    log, series = job_log(profile), profile.series
    own = log.steps if series is None or "mfu_pct" not in series.usual else series.usual
    own = own[(own["mfu_pct"].notna() & own["wall_ms"].notna()).to_numpy()]
    if own.empty:
        raise UsageError("the job's output does not state an MFU")
    weight = own["wall_ms"] * own["span"]
    value = float((own["mfu_pct"] * weight).sum() / weight.sum())
    return of_lines(log, value, own, "MFU of step lines", tuple(map(int, own["step"])))


def _skipped_so_far(log: JobLog) -> pd.DataFrame:
    """The last line that states how many steps were skipped since the job began; none where no line does."""
    return log.steps[(log.steps["skipped_so_far"].notna() & (log.steps["step"] > 0)).to_numpy()].tail(1)


@metric("%", "steps skipped for overflow", "How many steps are skipped because gradients overflow?")
def skipped_steps_pct(profile: Profile, settled: int = 1) -> Measurement:
    """Skipped among the printed steps; with ``settled`` of the later half alone, once the loss scale has settled: not
    before the first step that was not skipped, unless ``SETTLING_STEPS`` went by without one."""
    log = job_log(profile)
    table = log.steps[log.steps["skipped"].notna()]
    if table.empty:
        raise UsageError("the job's output does not say which steps were skipped")
    if not settled and len(last := _skipped_so_far(log)):
        value = 100.0 * float(last["skipped_so_far"].iloc[0]) / float(last["step"].iloc[0])
        return of_lines(log, value, last, "skipped steps so far")
    if settled:
        kept = np.flatnonzero((table["skipped"] < table["span"]).to_numpy())
        if not len(kept) and table["span"].sum() < SETTLING_STEPS:
            raise UsageError("every printed step was skipped while the loss scale was lowered from its start")
        table = table.iloc[max(int(WARM_UP * len(table)), int(kept[0]) if len(kept) else 0) :]
    value = 100.0 * float(table["skipped"].sum()) / float(table["span"].sum())
    return of_lines(log, value, table, "skipped steps", tuple(map(int, table["step"])))


@metric("steps", "skipped steps of all printed ones", "How many steps were skipped for overflow?")
def skipped_steps(profile: Profile) -> Measurement:
    """The sum of what the step lines state as skipped, or what the last one states of all since the job began."""
    log = job_log(profile)
    if len(last := _skipped_so_far(log)):
        return of_lines(log, float(last["skipped_so_far"].iloc[0]), last, "skipped steps so far")
    table = log.steps[log.steps["skipped"].notna()]
    if table.empty:
        raise UsageError("the job's output does not say which steps were skipped")
    return of_lines(log, float(table["skipped"].sum()), table, "skipped steps", tuple(map(int, table["step"])))


@metric("connections", "NCCL connections over {transport}", "Over which transport does NCCL connect ranks?")
def nccl_connections(profile: Profile, transport: str) -> Measurement:
    """Connections that NCCL reports for a transport, all communicators together; what both ends print counts once.

    A row is of one file; of its connections ``known`` are counted in that of another file.
    """
    log = job_log(profile)
    rows = [{"communicator": each.key, **asdict(own)} for each in log.nccl.connected for own in each.connections]
    choice("transport", transport, sorted({str(row["transport"]) for row in rows}))
    own = pd.DataFrame(rows)
    own = own[own["transport"] == transport].rename(columns={"count": "connections"})
    return of_lines(log, float((own["connections"] - own["known"]).sum()), own, f"connections over {transport}")


def largest_communicator(log: JobLog) -> Communicator | None:
    """The communicator with the most ranks of those whose channels are stated; None where none are."""
    known = [each for each in log.nccl.communicators if each.channels is not None and each.size > 1]
    return max(known, key=lambda each: each.size, default=None)


@metric("channels", "NCCL channels of the largest communicator", "How many channels do collectives use?")
def nccl_channels(profile: Profile) -> Measurement:
    """Collective channels of the communicator with the most ranks."""
    log = job_log(profile)
    largest = largest_communicator(log)
    if largest is None:
        raise UsageError("the job's output does not state NCCL's channels")
    row = {"communicator": largest.key, "ranks": largest.size}
    rows = pd.DataFrame([{**row, "line": largest.channels_line, "file": largest.channels_file}])
    return of_lines(log, float(largest.channels or 0), rows, "coll channels")


@metric("GB/s", "highest bandwidth of a path by NCCL's topology", "Which bandwidth can a path of this machine have?")
def nccl_path_bandwidth(profile: Profile) -> Measurement:
    """The ``maxBw`` that NCCL prints of a machine: of a path to a network adapter, or between devices where there is
    none; of several machines the lowest."""
    log = job_log(profile)
    if not log.nccl.path_bandwidths:
        raise UsageError("NCCL's output does not state the bandwidth of paths")
    rows = pd.DataFrame(
        [{"gb_per_s": float(each.value), "line": each.line, "file": each.file} for each in log.nccl.path_bandwidths]
    )
    return of_lines(log, float(rows["gb_per_s"].min()), rows, "topologies")


@metric("GB/s", "mean bus bandwidth by nccl-tests", "Which bandwidth does the library's own test reach?")
def library_bandwidth(profile: Profile, statistic: str = "mean") -> Measurement:
    """Bus bandwidth over the rows of nccl-tests: their mean, or the ``max``.

    The mean is the one that the tool prints where it is that of the rows, which have two decimals only.
    """
    log = job_log(profile)
    if log.comm_tests.empty:
        raise UsageError("the job's output holds no table of nccl-tests")
    values = log.comm_tests["busbw_gb_per_s"]
    choice("statistic", statistic, ("mean", "max"))
    if statistic == "max":
        return of_lines(log, float(values.max()), log.comm_tests, "rows of nccl-tests")
    mean, stated = float(values.mean()), log.settings.get("average_bus_bandwidth_gb_per_s")
    printed = mean if stated is None else float(stated.value)
    value = printed if abs(printed - mean) <= ROW_ROUNDING else mean
    return of_lines(log, value, log.comm_tests, "rows of nccl-tests")


@metric("GB/s", "{figure} bandwidth by nccl-tests at one size", "Which bandwidth does one message size reach?")
def library_bandwidth_at(profile: Profile, size_bytes: int, figure: str = "bus", in_place: int = 0) -> Measurement:
    """Bus or algorithm bandwidth of the rows of nccl-tests of one size, their mean where several runs printed it."""
    choice("figure", figure, ("bus", "alg"))
    log, rows = _test_rows(profile, size_bytes, in_place)
    return of_lines(log, float(rows[f"{figure}bw_gb_per_s"].mean()), rows, "rows of nccl-tests of this size")


@metric("ms", "time of one collective by nccl-tests at one size", "How long does a collective of one size take?")
def library_time_ms(profile: Profile, size_bytes: int, in_place: int = 0) -> Measurement:
    """Time of a collective by the rows of nccl-tests of one size, their mean where several runs printed it."""
    log, rows = _test_rows(profile, size_bytes, in_place)
    return of_lines(log, float(rows["time_us"].mean()) / 1e3, rows, "rows of nccl-tests of this size")


def _test_rows(profile: Profile, size_bytes: int, in_place: int) -> tuple[JobLog, pd.DataFrame]:
    """The rows of one size, out of place or in place; UsageError with the sizes that there are."""
    log = job_log(profile)
    if log.comm_tests.empty:
        raise UsageError("the job's output holds no table of nccl-tests")
    own = log.comm_tests[log.comm_tests["in_place"] == bool(in_place)]
    rows = own[own["size_bytes"] == size_bytes]
    if rows.empty:
        sizes = log.comm_tests["size_bytes"]
        raise UsageError(f"nccl-tests ran with sizes of {sizes.min()} to {sizes.max()} bytes, not with {size_bytes}")
    return log, rows


@metric("ms", "wait before a collective timed out", "How long did a rank wait for a collective that timed out?")
def timeout_wait_ms(profile: Profile, rank: int, sequence: int = -1) -> Measurement:
    """Time for which the rank's watchdog saw the collective run, else the limit that it passed.

    ``sequence``: the collective's number, -1 for the first one of the rank that timed out.
    """
    log = job_log(profile)
    own = [each for each in log.timeouts if each.rank == rank and sequence in (-1, each.sequence)]
    if not own:
        raise UsageError(f"no collective of rank {rank} timed out")
    first = own[0]
    rows = pd.DataFrame([{"rank": each.rank, "sequence": each.sequence, "line": each.line} for each in own])
    waited = float(first.timeout_ms if first.ran_ms is None else first.ran_ms)
    return replace(of_lines(log, waited, rows, "collective timeout"), ranks=(rank,))


@metric("/step", "allocator flushes", "How often does the allocator release its cache?")
def printed_flushes_per_step(profile: Profile) -> Measurement:
    """Cache flushes of PyTorch's allocator that DeepSpeed warns of, over the printed steps."""
    log = job_log(profile)
    found = warning_of(log, "allocator_flush")
    steps = int(log.steps["span"].sum())
    if found is None or not steps:
        raise UsageError("the job's output holds no warning about allocator flushes")
    if steps < found.count:  # a step warns once at most: not all steps are printed
        raise UsageError("the job's output holds fewer steps than warnings about allocator flushes")
    rows = pd.DataFrame([{"line": line} for line in (found.first_line, found.last_line)])
    return of_lines(log, found.amount / steps, rows, f"{found.count} warnings")


@metric("flushes", "times that the allocator released its cache", "How often does the allocator release its cache?")
def printed_flushes(profile: Profile) -> Measurement:
    """Cache flushes of PyTorch's allocator that DeepSpeed warns of, summed over its lines."""
    log = job_log(profile)
    found = warning_of(log, "allocator_flush")
    if found is None:
        raise UsageError("the job's output holds no warning about allocator flushes")
    rows = pd.DataFrame([{"line": line} for line in (found.first_line, found.last_line)])
    return of_lines(log, found.amount, rows, f"{found.count} warnings")


@metric("%", "printed steps with NaN or infinity", "In how many steps is the loss no finite number?")
def not_finite_pct(profile: Profile) -> Measurement:
    """Step lines whose loss or gradient norm is NaN or infinite, of all printed ones: those in a hundred."""
    log = job_log(profile)
    found = warning_of(log, "not_finite_loss")
    if found is None or log.steps.empty:
        raise UsageError("no step line of the job's output states a loss that is no finite number")
    if found.first_line < log.steps.loc[log.steps["file"] == found.file, "line"].min() or log.begins:
        raise UsageError("step lines of other starts state a loss that is no finite number: their share is not known")
    rows = pd.DataFrame([{"line": line} for line in (found.first_line, found.last_line)])
    return of_lines(log, 100.0 * min(found.count / len(log.steps), 1.0), rows, f"{found.count} step lines")


@metric("GiB", "memory {what} when the device's memory was exhausted", "How was device memory used when it ran out?")
def exhausted_memory_gib(profile: Profile, what: str) -> Measurement:
    """As PyTorch's first report states it: asked, total, free, of other processes, own, allocated, reserved unused."""
    log = job_log(profile)
    if not log.memory:
        raise UsageError("the job's output states no amounts of exhausted memory")
    stated = log.memory[choice("amount", what, sorted(log.memory))]
    rows = pd.DataFrame([{"amount": what, "bytes": stated.value, "line": stated.line, "file": stated.file}])
    return of_lines(log, float(stated.value) / GIB, rows, "report of exhausted memory")


@metric("GiB", "free memory and that in the allocator's cache together", "Would joined pieces have sufficed?")
def exhausted_joined_gib(profile: Profile) -> Measurement:
    """What the first report of exhausted memory states as free and as reserved but not allocated, added up."""
    log = job_log(profile)
    if not {"free", "unused"} <= set(log.memory):
        raise UsageError("the job's output does not state both what is free and what is reserved unused")
    parts = {name: log.memory[name] for name in ("free", "unused")}
    rows = pd.DataFrame([{"amount": name, "bytes": each.value, "line": each.line} for name, each in parts.items()])
    total = sum(float(each.value) for each in parts.values())
    return of_lines(log, total / GIB, rows, "report of exhausted memory")


@metric("ms", "wait for data of step {step} as printed", "How long does a printed step wait for data?")
def logged_step_wait_ms(profile: Profile, step: int) -> Measurement:
    """What the line of this step states of its wait for data."""
    log = job_log(profile)
    own = log.steps[(log.steps["step"] == step) & log.steps["data_wait_ms"].notna()]
    if own.empty:
        raise UsageError(f"no line of step {step} states its wait for data")
    return of_lines(log, float(own["data_wait_ms"].median()), own, "step lines", (step,))


@metric("lines", "warnings about {kind}", "How often does the output warn of it?")
def warning_lines(profile: Profile, kind: str) -> Measurement:
    """Lines with a warning of that kind; their first and last line are shown."""
    log = job_log(profile)
    found = warning_of(log, choice("kind", kind, [each.kind for each in log.warnings]))
    assert found is not None
    rows = pd.DataFrame([{"line": line} for line in (found.first_line, found.last_line)])
    return of_lines(log, float(found.count), rows, "warnings")


TIMED_WARNINGS = ("slow_compile", "unnamed_timeout")  # compilations add up; collectives run at the same time


@metric("s", "time stated by warnings about {kind}", "How long did what the output warns of take?")
def warned_s(profile: Profile, kind: str) -> Measurement:
    """The sum of the times that the warnings state; of collectives only where one line reports one."""
    log = job_log(profile)
    found = warning_of(log, choice("kind", kind, TIMED_WARNINGS))
    if found is None or not found.amount or (kind == "unnamed_timeout" and found.count > 1):
        raise UsageError("no line of the output states that time")
    rows = pd.DataFrame([{"line": line} for line in (found.first_line, found.last_line)])
    return of_lines(log, found.amount, rows, f"{found.count} warnings")


@metric("lines", "lines that report {code} of {place}", "How often does a driver report this error?")
def reported_error_lines(profile: Profile, code: str, place: str = "") -> Measurement:
    """Lines with that code, of one device where ``place`` names its address; the first and last line are shown."""
    log = job_log(profile)
    choice("code", code, [each.code for each in log.errors])
    own = [each for each in log.errors if each.code == code and place in ("", each.place)]
    if not own:
        raise UsageError(f"no line reports {code} of {place}")
    rows = pd.DataFrame(
        [{"line": line, "file": each.file} for each in own for line in (each.first_line, each.last_line)]
    )
    return of_lines(log, float(sum(each.count for each in own)), rows, "errors")


@metric(
    "%", "share of the epoch that waits for data by the profiler's table", "How long does the training wait for data?"
)
def profiled_loader_pct(profile: Profile) -> Measurement:
    """Time of Lightning's ``train_dataloader_next`` (``get_train_batch`` before 2.0) of that of the training epoch."""
    log = job_log(profile)
    table = log.actions[log.actions["table"] == "Lightning"]
    epoch = table[table["action"].str.contains("run_training_epoch", regex=False)]
    waiting = table[table["action"].str.contains(NEXT_BATCH, regex=True)]
    if epoch.empty or waiting.empty:
        raise UsageError("the job's output holds no table of Lightning's profiler with the wait for data")
    value = 100.0 * float(waiting["total_ms"].max()) / float(epoch["total_ms"].max())
    return of_lines(log, value, pd.concat([epoch, waiting]), "rows of Lightning's profiler")


@metric("%", "share of the profiler's rows that wait for data", "How much of the table's time waits for data?")
def profiled_loader_rows_pct(profile: Profile) -> Measurement:
    """The same of all rows of the table together, where none of them holds another one."""
    log = job_log(profile)
    table = log.actions[log.actions["table"] == "Lightning"]
    waiting = table[table["action"].str.contains(NEXT_BATCH, regex=True)]
    if waiting.empty or table["action"].str.contains(HOLDS_OTHERS, regex=True).any():
        raise UsageError("the job's output holds no table of Lightning's profiler of such rows with the wait for data")
    value = 100.0 * float(waiting["total_ms"].max()) / float(table["total_ms"].sum())
    return of_lines(log, value, table, "rows of Lightning's profiler")


@metric("samples/s", "samples per second as the job states them", "Which throughput does the job state?")
def stated_samples_per_s(profile: Profile) -> Measurement:
    """``train_samples_per_second`` of HF Trainer, over the whole training with its start and saves."""
    return _of_statement(job_log(profile), "train_samples_per_second")


@metric("samples/s", "samples per second by the job's step lines", "How many samples a second does the job train on?")
def logged_samples_per_s(profile: Profile) -> Measurement:
    """Samples of the usual steps over their time, by the global batch size that each step line states."""
    log = job_log(profile)
    if profile.series is None or "samples" not in profile.series.usual:
        raise UsageError("the job's output does not state the samples of its steps")
    usual = profile.series.usual
    own = usual[((usual["rank"] == profile.series.slowest_rank) & usual["samples"].notna()).to_numpy()]
    if own.empty:
        raise UsageError("the job's output does not state the samples of its steps")
    trained, taken_s = (own["samples"] * own["span"]).sum(), (own["wall_ms"] * own["span"]).sum() / 1e3
    return of_lines(log, float(trained / taken_s), own, "samples of step lines", tuple(map(int, own["step"])))


@metric("tokens/s", "tokens per second by the job's step lines", "How many tokens a second does the job state?")
def logged_tokens_per_s(profile: Profile) -> Measurement:
    """Median over the usual lines that state it, of the whole job or of one device as the program counts."""
    log = job_log(profile)
    if profile.series is None:
        raise UsageError("the job's output holds no series of step times")
    usual = profile.series.usual[["rank", "step"]]
    own = log.steps[log.steps["tokens_per_s"] > 0].merge(usual, on=["rank", "step"])
    if own.empty:
        raise UsageError("the job's output does not state its tokens per second")
    return of_lines(log, float(own["tokens_per_s"].median()), own, "step lines", tuple(map(int, own["step"])))


@metric("s", "length of the training as the job states it", "How long does the training take as a whole?")
def stated_runtime_s(profile: Profile) -> Measurement:
    """``train_runtime`` of HF Trainer, else a line behind the last step that states the time of the training."""
    log = job_log(profile)
    taken = log.whole_run.get("took_s")
    if "train_runtime" in log.settings or taken is None:
        return _of_statement(log, "train_runtime")
    if (log.steps[log.steps["file"] == taken.file]["line"] > taken.line).any():
        raise UsageError("the job's output goes on behind the line that states the time of the training")
    rows = pd.DataFrame([{"seconds": float(taken.value), "line": taken.line, "file": taken.file}])
    return of_lines(log, float(taken.value), rows, "time of the training")


@metric("workers", "loader workers by the job's arguments", "How many processes load data for a rank by its arguments?")
def stated_loader_workers(profile: Profile) -> Measurement:
    """``workers`` or ``num_workers`` of argparse, ``dataloader_num_workers`` of HF Trainer; 0: the training process."""
    return _of_statement(job_log(profile), "loader_workers")


@metric("s", "time of all printed steps together", "How long do the printed steps take together?")
def printed_steps_s(profile: Profile) -> Measurement:
    """The sum over the step lines of one rank, each for the steps that it stands for; UsageError where lines stand for
    one step of several."""
    log = job_log(profile)
    own = log.steps[log.steps["rank"] == log.steps["rank"].min()]
    own = own[own["wall_ms"].notna()]
    if own.empty or (log.step_time in SINGLE and log.span > 1):
        raise UsageError("the job's output does not state how long all of its steps take")
    value = float((own["wall_ms"] * own["span"]).sum()) / 1e3
    return of_lines(log, value, own, "times of step lines", tuple(map(int, own["step"])))


@metric("ms", "mean step of the whole training as Trainer states it", "How long is a step over the whole training?")
def stated_mean_step_ms(profile: Profile) -> Measurement:
    """``train_runtime`` over the trained steps, evaluations and saves included; of a resumed training too short, since
    Trainer then counts the time of the last part alone."""
    log = job_log(profile)
    steps = log.whole("trained_steps")
    if not steps:
        raise UsageError("no trainer_state.json states the steps of the whole training")
    whole = _of_statement(log, "train_runtime")
    return replace(whole, value=1e3 * whole.value / steps)


@metric("%", "share of the training in evaluations as Trainer states it", "How much of the training is evaluation?")
def stated_evaluation_pct(profile: Profile) -> Measurement:
    """The sum of ``eval_runtime`` over ``train_runtime``."""
    log = job_log(profile)
    whole, evaluated = _of_statement(log, "train_runtime"), _of_statement(log, "eval_runtime")
    return replace(evaluated, value=100.0 * evaluated.value / whole.value)


@metric("s", "{statistic} time of an evaluation as stated", "How long does an evaluation take?")
def evaluation_s(profile: Profile, statistic: str = "median") -> Measurement:
    """Over the lines that state the time of a whole evaluation."""
    log = job_log(profile)
    if not log.evaluation_times:
        raise UsageError("no line of the output states the time of an evaluation")
    rows = pd.DataFrame([{"seconds": float(each.value), "line": each.line} for each in log.evaluation_times])
    value = over_steps(rows["seconds"].to_numpy(dtype=np.float64), statistic)
    return of_lines(log, value, rows, f"{len(rows)} lines of evaluations")


@metric("s", "{statistic} time of the inference of an evaluation", "How long does the inference of an evaluation take?")
def evaluation_inference_s(profile: Profile, statistic: str = "median") -> Measurement:
    """Over the lines of Detectron2 that state it, without the first batches and what follows it."""
    log = job_log(profile)
    if not log.inference_times:
        raise UsageError("no line of the output states the time of the inference of an evaluation")
    rows = pd.DataFrame([{"seconds": float(each.value), "line": each.line} for each in log.inference_times])
    value = over_steps(rows["seconds"].to_numpy(dtype=np.float64), statistic)
    return of_lines(log, value, rows, f"{len(rows)} lines of inferences")


@metric(
    "s", "{statistic} time of an evaluation by its lines", "How long is an evaluation from its first to its last line?"
)
def evaluation_by_lines_s(profile: Profile, statistic: str = "median") -> Measurement:
    """From the line that begins the inference to that with the results, by the time stamps of both."""
    log = job_log(profile)
    known = [{"seconds": each.whole_s, "line": each.end_line} for each in log.inference_times if each.whole_s]
    if not known:
        raise UsageError("the output does not state when evaluations begin and end")
    rows = pd.DataFrame(known)
    value = over_steps(rows["seconds"].to_numpy(dtype=np.float64), statistic)
    return of_lines(log, value, rows, f"{len(rows)} lines of results")


def _of_statement(log: JobLog, name: str) -> Measurement:
    stated = log.settings.get(name)
    if stated is None:
        raise UsageError(f"the job's output does not state {name}")
    rows = pd.DataFrame([{"name": name, "value": stated.value, "line": stated.line}])
    return of_lines(log, float(stated.value), rows, name)


def warning_of(log: JobLog, kind: str) -> LogWarning | None:
    """The warning of that kind; None where the output holds none."""
    return next((each for each in log.warnings if each.kind == kind), None)


def _of_arguments(log: JobLog, value: int | None, names: Sequence[str]) -> Measurement:
    if value is None:
        raise UsageError(f"the job's output does not state {', '.join(names)}")
    known = [(name, log.settings[name]) for name in names if name in log.settings]
    rows = pd.DataFrame([{"argument": name, "value": each.value, "line": each.line} for name, each in known])
    return of_lines(log, float(value), rows, "arguments of the job")


def of_lines(log: JobLog, value: float, rows: pd.DataFrame, what: str, steps: tuple[int, ...] = ()) -> Measurement:
    """A figure from these rows, whose lines the selector names."""
    where = _places(rows["line"])
    if len(log.files) > 1 and "file" in rows:
        files = list(rows.groupby("file")["line"])
        named = [f"{log.files[int(str(file))]}, {_places(lines)}" for file, lines in files[:FILES_NAMED]]
        where = "; ".join(named) + f"; {len(files) - FILES_NAMED} more files" * (len(files) > FILES_NAMED)
    return Measurement(value, lambda: rows.reset_index(drop=True), f"{what}, {where}", (), steps, source=JOB_LOG_FORMAT)


FILES_NAMED = 3


def _places(lines: pd.Series[int]) -> str:
    first, last = int(lines.min()), int(lines.max())
    return f"line {first}" if first == last else f"lines {first} to {last}"
