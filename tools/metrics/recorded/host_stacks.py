"""Figures of sampled stacks: which share of a training thread's samples is in which frame or activity."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.run.model import STACKS_FORMAT
from tools.run.program_frames import program_frame
from tools.run.recorded.host_stacks import HostStacks
from tools.views.profile import Profile, memoized

ACTIVITIES: dict[str, re.Pattern[str]] = {
    "data_loading": re.compile(r"^(?:__next__|_next_data|fetch) \(.*torch/utils/data/"),
    "saving": re.compile(r"^\w*save\w* \(.*torch/(?:serialization|distributed/checkpoint)"),
    "compiling": re.compile(r"\(.*torch/_(?:dynamo|inductor)/|\(.*triton/compiler/"),
}


def host_stacks(profile: Profile) -> HostStacks:
    """The run's sampled stacks; UsageError where there are none."""
    if profile.run.host_stacks is None:
        raise UsageError("the run holds no sampled stacks of its host threads")
    return profile.run.host_stacks


@memoized
def sampled_frames(profile: Profile) -> pd.DataFrame:
    """Training threads: columns rank, name (of the program's innermost frame), samples; most samples first."""
    record = host_stacks(profile)
    rows = record.training
    named = rows.assign(name=[program_frame(record.stacks[at]) for at in rows["stack"]])
    sums = named.groupby(["rank", "name"], sort=True)["samples"].sum().reset_index()
    return sums.sort_values(["rank", "samples"], ascending=[True, False], kind="stable", ignore_index=True)


@metric("samples", "samples of the training thread", "How often was the training thread sampled?")
def stack_samples(profile: Profile, rank: int = -1) -> Measurement:
    """Samples of the training threads of a rank (-1: of processes whose rank is not known)."""
    own = _of_rank(profile, rank)
    return _measured(float(own["samples"].sum()), own, rank)


@metric("%", "share of host samples in {name}", "In which function of the program is the host?")
def frame_share_pct(profile: Profile, name: str, rank: int = -1) -> Measurement:
    """Of the samples of the rank's training thread, those whose innermost frame of the program it is."""
    own, stacks = _of_rank(profile, rank), host_stacks(profile).stacks
    held = own[[program_frame(stacks[at]) == name for at in own["stack"]]]
    if held.empty:
        raise UsageError("no sample of that rank is in this function")
    return _measured(100.0 * float(held["samples"].sum() / own["samples"].sum()), held, rank)


@metric("%", "share of host samples in {activity}", "Does the host load data, save or compile?")
def activity_share_pct(profile: Profile, activity: str, rank: int = -1) -> Measurement:
    """Of the samples of the rank's training thread, those with a frame of the activity on the stack."""
    pattern = ACTIVITIES[choice("activity", activity, ACTIVITIES)]
    own, stacks = _of_rank(profile, rank), host_stacks(profile).stacks
    held = own[[any(map(pattern.search, stacks[at])) for at in own["stack"]]]
    return _measured(100.0 * float(held["samples"].sum() / own["samples"].sum()), held, rank)


@memoized
def loading_frames(profile: Profile, rank: int) -> pd.DataFrame:
    """Samples of the rank's training thread inside its data loader: columns stack, samples, name (of the program's
    innermost frame, "" where only libraries run); empty where no such thread was sampled."""
    record = profile.run.host_stacks
    if record is None or rank not in record.ranks:
        return pd.DataFrame({"stack": [], "samples": [], "name": []})
    own, pattern = _of_rank(profile, rank), ACTIVITIES["data_loading"]
    below = [_below(record.stacks[at], pattern) for at in own["stack"]]
    named = own.assign(name=[program_frame(each) if each else "" for each in below])
    return named[[bool(each) for each in below]]


def _below(stack: Sequence[str], pattern: re.Pattern[str]) -> Sequence[str]:
    """The frames that the first one of the activity called, itself included; none where it is not on the stack."""
    at = next((place for place, frame in enumerate(stack) if pattern.search(frame)), len(stack))
    return stack[at:]


@metric("%", "share of data-loader samples in {name}", "In which function is the data loader?")
def loading_frame_pct(profile: Profile, rank: int, name: str) -> Measurement:
    """Of the samples of the training thread inside its data loader, those with this innermost frame of the program."""
    inside = loading_frames(profile, rank)
    held = inside[inside["name"] == name]
    if held.empty:
        raise UsageError("no sample of the data loader is in this function")
    return _measured(100.0 * float(held["samples"].sum() / inside["samples"].sum()), held, rank)


def _of_rank(profile: Profile, rank: int) -> pd.DataFrame:
    record = host_stacks(profile)
    own = record.training[record.training["rank"] == rank]
    if own.empty:
        raise UsageError(f"no training thread of rank {rank} was sampled; there are {list(record.ranks)[:16]}")
    return own


def _measured(value: float, rows: pd.DataFrame, rank: int) -> Measurement:
    shown = rows.reset_index(drop=True)
    ranks = (rank,) if rank >= 0 else ()
    return Measurement(value, lambda: shown, "samples of training threads", ranks, source=STACKS_FORMAT)
