"""Joins the records of all files of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from tools.run.events import empty_table
from tools.run.recorded.counters import SampleClock
from tools.run.recorded.job_log import (
    ACTION_COLUMNS,
    COMM_TEST_COLUMNS,
    MEANS,
    SINGLE,
    STEP_COLUMNS,
    TIMER_COLUMNS,
    EpochTime,
    JobLog,
    OfWholeRun,
    OtherSteps,
    StepTime,
    WatchdogStatus,
    WholeRunKind,
)
from tools.run.recorded.step_times import both_state
from tools.sources.job_log.memory_summary import failures
from tools.sources.job_log.nccl_files import joined_nccl
from tools.sources.job_log.peak_memory import largest

CLOSEST_FIRST: tuple[StepTime, ...] = (*SINGLE, *MEANS, "smoothed", "running", "stamps")


def _of_silent_ranks(logs: Sequence[JobLog]) -> tuple[WatchdogStatus, ...]:
    """The statuses of ranks of which no file holds a time-out."""
    named = {each.rank for log in logs for each in log.timeouts}
    return tuple(each for log in logs for each in log.statuses if each.rank not in named)


def one_clock(clocks: Iterable[SampleClock]) -> SampleClock:
    """The clock of all step lines; none where they are written by several kinds of clocks."""
    found = set(clocks)
    return found.pop() if len(found) == 1 else "none"


def step_table(tables: Sequence[pd.DataFrame], columns: dict[str, str]) -> pd.DataFrame:
    whole = [table for table in tables if not table.empty]
    return pd.concat(whole, ignore_index=True)[list(columns)].astype(columns) if whole else empty_table(columns)


def joined(reads: Iterable[JobLog]) -> tuple[JobLog | None, tuple[str, ...]]:
    """One record of all files of a job: of each rank the steps of the file that holds the most of them."""
    logs = list(reads)
    if not logs:
        return None, ()
    if len(logs) == 1:
        return replace(logs[0], nccl=joined_nccl([logs[0].nccl])), ()
    notes: list[str] = []
    steps: dict[int, pd.DataFrame] = {}
    holders: dict[int, str] = {}
    left_out: set[str] = set()
    others: dict[str, list[pd.DataFrame]] = {}
    kinds = {log.files[0]: log.step_time for log in logs}
    for log in logs:
        for number, table in log.steps.groupby("rank"):
            rank, name, before = int(str(number)), log.files[0], holders.get(int(str(number)))
            longer = before is None or len(table) > len(steps[rank])
            if before is not None:
                notes.append(f"several files hold steps of rank {rank}; the one with the most is used")
                left_out.add(before if longer else name)
                kept, other = (table, steps[rank]) if longer else (steps[rank], table)
                if both_state(kept, other):
                    others.setdefault(before if longer else name, []).append(other)
            if longer:
                steps[rank], holders[rank] = table, name
    used = [log for log in logs if not log.steps.empty] or logs
    settings = {name: value for log in reversed(logs) for name, value in log.settings.items()}
    whole = replace(
        logs[0],
        steps=step_table([steps[rank] for rank in sorted(steps)], STEP_COLUMNS),
        timers=step_table([log.timers for log in logs], TIMER_COLUMNS),
        rank_timers=max((log.rank_timers for log in logs), key=len),  # the last rank of each stage may print them
        rank_reports=max((log.rank_reports for log in logs), key=len),
        comm_tests=step_table([log.comm_tests for log in logs], COMM_TEST_COLUMNS),
        actions=step_table([log.actions for log in logs], ACTION_COLUMNS),
        files=tuple(name for log in logs for name in log.files),
        step_time=max((log.step_time for log in used), key=CLOSEST_FIRST.index),
        clock=one_clock(log.clock for log in used),
        grammars=tuple(dict.fromkeys(name for log in logs for name in log.grammars)),
        nccl=joined_nccl([log.nccl for log in logs]),
        timeouts=tuple(each for log in logs for each in log.timeouts),
        statuses=_of_silent_ranks(logs),
        warnings=tuple(each for log in logs for each in log.warnings),
        reports=tuple(each for log in logs for each in log.reports),
        errors=tuple(each for log in logs for each in log.errors),
        epoch_times=_epoch_times([log.epoch_times for log in logs]),
        saves=tuple(each for log in logs for each in log.saves),
        evaluations=tuple(each for log in logs for each in log.evaluations),
        evaluation_times=max((log.evaluation_times for log in logs), key=len),  # ranks evaluate together
        whole_run=_of_whole_run(used),
        inference_times=max((log.inference_times for log in logs), key=len),
        memory=next((log.memory for log in logs if log.memory), {}),
        memory_summary=max((log.memory_summary for log in logs), key=failures),
        peak_memory=largest([log.peak_memory for log in logs]),
        settings=settings,
        ranks=tuple(sorted({rank for log in logs for rank in log.ranks})),
        ranks_stated=any(log.ranks_stated for log in used),
        restarts=max((log.restarts for log in used), key=len),
        named_lines=tuple({each.topic: each for log in reversed(used) for each in log.named_lines}.values()),
        named_times=max((log.named_times for log in logs), key=len),
        failed_starts=max((log.failed_starts for log in used), key=len),
        trainings=max(log.trainings for log in used),
        tokens_per_step=next((log.tokens_per_step for log in used if log.tokens_per_step), None),
        generated=next((log.generated for log in used if log.generated), None),
        begins=max(log.begins for log in used),
        unnamed_bar=any(log.unnamed_bar for log in used),
        validated=any(log.validated for log in used),
        epochs=next((log.epochs for log in used), None),
        rounding=max(log.rounding for log in used),
        bar_total=next((log.bar_total for log in used), 0),
        recompilations=tuple(each for log in logs for each in log.recompilations),
        test_starts=tuple(each for log in logs for each in log.test_starts),
        single_rates=next((log.single_rates for log in used if log.single_rates), None),
        throughput=None if steps else next((log.throughput for log in logs if log.throughput), None),
        bars=() if steps else tuple(each for log in logs for each in log.bars),
        bars_apart=tuple(each for log in logs for each in log.bars_apart),
        lines_apart=tuple(each for log in logs for each in log.lines_apart),
        unused=tuple(sorted(left_out - set(holders.values()))),
        used=tuple(dict.fromkeys(holders.values())) if left_out else (),
        other_steps=tuple(OtherSteps(name, step_table(own, STEP_COLUMNS), kinds[name]) for name, own in others.items()),
    )
    return whole, tuple(dict.fromkeys(notes))


def _of_whole_run(used: Sequence[JobLog]) -> dict[WholeRunKind, OfWholeRun]:
    """What the files with the steps state of the whole training; of files that differ in it the first."""
    return {kind: stated for log in reversed(used) for kind, stated in log.whole_run.items()}


def _epoch_times(files: Sequence[tuple[EpochTime, ...]]) -> tuple[EpochTime, ...]:
    """The times of epochs of all files where each names its own ranks; else those of the file with the most."""
    ranks = [{each.rank for each in own} for own in files]
    named = set().union(*ranks)
    if None not in named and sum(map(len, ranks)) == len(named):  # no rank in two of them
        return tuple(each for own in files for each in own)
    return max(files, key=len)
