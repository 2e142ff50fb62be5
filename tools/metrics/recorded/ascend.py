"""Figures of the tables that an Ascend profiler writes: its account of a step, kernels, collectives, packets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.instances import collective_of
from tools.metrics.measurement import Measurement, choice, metric
from tools.run.kinds import ASCEND_FORMAT
from tools.run.recorded.ascend import AscendTables
from tools.run.row_ids import parse
from tools.views.profile import Profile

ACCOUNT = ("computing", "exposed_communication", "overlapped", "communication", "free", "stage")
BUSY = 0.8  # of a kernel's time: then the unit bounds it (msprof-analyze)
LEAST_FALLBACK_US = 20.0  # shorter kernels of the AI CPU cost hardly more than their launch (msprof-analyze)
CONVERSIONS = ("TransData", "Cast", "TransDataRNN", "Transpose", "TransposeD")
LARGE_MB: Mapping[str, float] = {"SDMA": 16.0, "HCCS": 16.0, "RDMA": 1.0}  # below it a link of Ascend is not full
ALIGNED_BYTES = 512  # of a transfer over HCCS; what is smaller is sent as it is
BYTES_PER_MB = 1e6
UNITS: Mapping[str, tuple[str, ...]] = {
    **{"matrix": ("mac_ratio",), "vector": ("vec_ratio",), "scalar": ("scalar_ratio",)},
    "memory": ("mte2_ratio", "mte3_ratio"),  # the busier of reading and writing
}
GROUPS = ("ai_cpu", "conversion", "foreach", "vector", "matrix", "memory", "unbound")


def tables(profile: Profile) -> AscendTables:
    """The record of the tables; UsageError where there is none."""
    if profile.run.ascend is None:
        raise UsageError("the run holds no tables of an Ascend profiler")
    return profile.run.ascend


def _account(profile: Profile, rank: int | None, ranks: tuple[int, ...] = (), part: str | None = None) -> pd.DataFrame:
    steps = tables(profile).steps
    own = steps if rank is None else steps[steps["rank"] == rank]
    own = own[own["rank"].isin(ranks)] if ranks else own
    if part is not None and len(own):
        own = own[own[f"{part}_ms"].notna()]
        if own.empty:
            raise UsageError(f"the account of the steps (step_trace_time) has no column for {part}")
    if own.empty:
        raise UsageError(
            "the tables hold no account of the steps (step_trace_time)" + ("" if rank is None else " there")
        )
    return own


@metric("ms", "{part} per step by the profiler's account", "What does the profiler's own account say of a step?")
def account_ms(profile: Profile, part: str = "stage", rank: int | None = None) -> Measurement:
    """Mean over steps of a column of step_trace_time; without a rank the mean over ranks."""
    choice("part", part, ACCOUNT)
    own = _account(profile, rank, part=part)
    return _of_rows(float(own.groupby("rank")[f"{part}_ms"].mean().mean()), own, f"{part} in step_trace_time")


@metric("%", "{part} share of the step by the profiler's account", "Which share of a step is free or communication?")
def account_pct(profile: Profile, part: str, rank: int | None = None) -> Measurement:
    """Of the stage, which is the time from the device's first to its last work of a step."""
    choice("part", part, ACCOUNT)
    own = _account(profile, rank, part=part)
    share = 100.0 * float(own[f"{part}_ms"].sum()) / float(own["stage_ms"].sum())
    return _of_rows(share, own, f"{part} of stage in step_trace_time")


@metric("ms", "spread of {part} between ranks by the profiler's account", "How far are the ranks apart?")
def account_spread_ms(profile: Profile, part: str) -> Measurement:
    """Largest less smallest mean of the ranks."""
    choice("part", part, ACCOUNT)
    own = _account(profile, None, part=part)
    means = own.groupby("rank")[f"{part}_ms"].mean()
    return _of_rows(float(means.max() - means.min()), own, f"{part} by rank in step_trace_time")


@metric("ms", "compute of pipeline stage {stage} per step", "How long does a pipeline stage compute?")
def stage_account_ms(profile: Profile, stage: int | None = None) -> Measurement:
    """Mean over the ranks of a stage of the layout that the folders state; without a stage the mean of the stages."""
    stages = tables(profile).stages
    if not stages:
        raise UsageError("the folders state no pipeline stages")
    if stage is not None and not 0 <= stage < len(stages):
        raise UsageError(f"there is no stage {stage}; the stages are 0 to {len(stages) - 1}")
    chosen = stages if stage is None else (stages[stage],)
    own = [_account(profile, None, ranks) for ranks in chosen]
    values = [float(table.groupby("rank")["computing_ms"].mean().mean()) for table in own]
    return _of_rows(float(np.mean(values)), pd.concat(own), "computing by stage in step_trace_time")


COLLECTIVE_CORES = ("HCCL", "COMMUNICATION")
NO_CORE = ("", "N/A")  # kernels of a profile of level 0, or of a table without the column


def cores_stated(profile: Profile, rank: int) -> bool:
    """Whether the table says of the rank's kernels which core they ran on."""
    kernels = tables(profile).kernels
    return not kernels.loc[kernels["rank"] == rank, "core"].isin(NO_CORE).all()


def computing_kernels(profile: Profile, rank: int) -> pd.DataFrame:
    """The kernels of a rank but for its collectives; UsageError where the table does not tell these apart."""
    kernels = tables(profile).kernels
    own = kernels[(kernels["rank"] == rank) & ~kernels["core"].isin(COLLECTIVE_CORES)]
    if own.empty:
        raise UsageError("the tables hold no kernels of that rank (kernel_details), which needs level 1")
    if not cores_stated(profile, rank):
        raise UsageError("the core that a kernel ran on is not stated (Accelerator Core), which needs level 1")
    return own


def kernel_rows(profile: Profile, group: str, rank: int) -> pd.DataFrame:
    """The kernels of a group: by the unit that is busy nearly all of their time, or by what they do."""
    choice("group", group, GROUPS)
    own = computing_kernels(profile, rank)
    if group == "ai_cpu":
        fallback = own["core"].str.contains("AI_CPU|AICPU") & (own["duration_us"] >= LEAST_FALLBACK_US)
        return own[fallback]
    if group == "conversion":
        return own[own["op_type"].isin(CONVERSIONS)]
    if group == "foreach":
        return own[own["op_type"].str.startswith("Foreach")]
    ratios = pd.DataFrame({unit: own[list(UNITS[unit])].max(axis=1) for unit in ("matrix", "vector", "memory")})
    if ratios.isna().all(axis=0).any():
        raise UsageError("the units' busy time was not measured, which needs level 1 with aic_metrics PipeUtilization")
    memory, vector, matrix = (ratios[unit] > BUSY for unit in ("memory", "vector", "matrix"))
    masks = {"matrix": matrix, "vector": vector & ~matrix, "memory": memory & ~vector & ~matrix}
    return own[masks.get(group, ~(memory | vector | matrix) & ratios.notna().any(axis=1))]


def steps_of(profile: Profile, rank: int) -> int:
    """Steps of the rank's account; 1 where there is none."""
    steps = tables(profile).steps
    return max(int(steps.loc[steps["rank"] == rank, "step"].nunique()), 1)


@metric("ms", "{group} kernels per step on Ascend", "How long do kernels of one kind run?")
def ascend_kernel_ms(profile: Profile, group: str, rank: int) -> Measurement:
    """Durations of the group's kernels in kernel_details, per step."""
    own = kernel_rows(profile, group, rank)
    total = float(own["duration_us"].sum()) / 1e3 / steps_of(profile, rank)
    return _of_rows(total, own, f"{group} kernels in kernel_details", rank)


@metric("%", "share of kernel time in {group} kernels on Ascend", "Which share of the kernels' time is of one kind?")
def ascend_kernel_pct(profile: Profile, group: str, rank: int) -> Measurement:
    """Of the time of all kernels but collectives."""
    own, every = kernel_rows(profile, group, rank), computing_kernels(profile, rank)
    share = 100.0 * float(own["duration_us"].sum()) / max(float(every["duration_us"].sum()), 1e-9)
    return _of_rows(share, own, f"{group} kernels in kernel_details", rank)


@metric("%", "time of {op_type} in which its {unit} unit is busy", "Which unit bounds an operator on Ascend?")
def ascend_unit_pct(profile: Profile, unit: str, op_type: str, rank: int) -> Measurement:
    """Busy time of the unit in the kernels of a type, of their time; kernels without that counter are left out."""
    columns = list(UNITS[choice("unit", unit, UNITS)])
    kernels = tables(profile).kernels
    own = kernels[(kernels["rank"] == rank) & (kernels["op_type"] == op_type)]
    busy = own[columns].max(axis=1)
    own, busy = own[busy.notna()], busy[busy.notna()]
    if own.empty or not own["duration_us"].sum() > 0.0:
        raise UsageError(f"the tables hold no busy time of the {unit} unit for {op_type!r} on rank {rank}")
    value = 100.0 * float((busy * own["duration_us"]).sum() / own["duration_us"].sum())
    return _of_rows(value, own, f"{' and '.join(columns)} of {op_type} in kernel_details", rank)


def _of_type(profile: Profile, op_type: str, rank: int) -> pd.DataFrame:
    kernels = tables(profile).kernels
    own = kernels[(kernels["rank"] == rank) & (kernels["op_type"] == op_type)]
    if own.empty:
        raise UsageError(f"the tables hold no kernel of type {op_type!r} on rank {rank} (kernel_details)")
    return own


@metric("ms", "{op_type} kernels per step on Ascend", "How long do kernels of one type run?")
def ascend_type_ms(profile: Profile, op_type: str, rank: int) -> Measurement:
    """Durations of the kernels of a type in kernel_details, per step."""
    own = _of_type(profile, op_type, rank)
    total = float(own["duration_us"].sum()) / 1e3 / steps_of(profile, rank)
    return _of_rows(total, own, f"{op_type} in kernel_details", rank)


@metric("TFLOP/s", "rate of {op_type} on Ascend", "How fast does an operator compute on Ascend?")
def ascend_type_tflops(profile: Profile, op_type: str, rank: int) -> Measurement:
    """Operations that the counters of matrix and vector units state, per time of these kernels."""
    own = _of_type(profile, op_type, rank)
    own = own[own["flops"].notna()]
    if own.empty or not own["duration_us"].sum() > 0.0:
        raise UsageError("operations were not counted, which needs aic_metrics=AiCMetrics.ArithmeticUtilization")
    value = float(own["flops"].sum()) / float(own["duration_us"].sum()) / 1e6
    return _of_rows(value, own, f"operations of {op_type} in kernel_details", rank)


def moved(profile: Profile, rank: int) -> pd.DataFrame:
    """The collectives of a rank with ``moving_ms``: the longest that any transport of theirs was moving bytes.

    Transports move at the same time, over several links each, whose times are summed: an upper bound.
    """
    record = tables(profile)
    own = record.collectives[(record.collectives["rank"] == rank) & (record.collectives["kind"] == "collective")]
    if own.empty:
        raise UsageError("the tables hold no collectives of that rank (communication.json), which needs level 1")
    keys = ["rank", "step", "name", "group"]
    longest = record.transfers.groupby(keys)["transit_ms"].max().rename("moving_ms").reset_index()
    joined = own.merge(longest, on=keys, how="left", validate="m:1")
    most = joined[["moving_ms", "transit_ms"]].max(axis=1).clip(upper=joined["elapse_ms"])
    known = joined.assign(moving_ms=most)[(most.notna() & joined["elapse_ms"].notna()).to_numpy()]
    if known.empty:
        raise UsageError("the tables do not state how long collectives last and move data (communication.json)")
    return known


@metric("ms", "collectives per step by the profiler's tables", "How long do collectives last?")
def tabled_collective_ms(profile: Profile, rank: int) -> Measurement:
    """Elapsed time of the rank's collectives, per step."""
    own = moved(profile, rank)
    return _of_rows(float(own["elapse_ms"].sum()) / steps_of(profile, rank), own, "communication.json", rank)


@metric("ms", "wait in collectives per step by the profiler's tables", "How long do collectives move nothing?")
def tabled_wait_ms(profile: Profile, rank: int) -> Measurement:
    """Elapsed time less the longest that a transport was moving bytes: a lower bound."""
    own = moved(profile, rank)
    waited = float((own["elapse_ms"] - own["moving_ms"]).sum()) / steps_of(profile, rank)
    return _of_rows(waited, own, "communication.json", rank)


TABLED = ("elapse", "transit", "wait", "synchronization", "idle")


@metric("ms", "{part} time of the collective {collective} by the profiler's table", "What does its table say of it?")
def tabled_instance_ms(profile: Profile, collective: str, part: str = "elapse") -> Measurement:
    """A column of communication.json for one collective by its id (``c0.1962``), found by its name and step."""
    choice("part", part, TABLED)
    record = collective_of(profile, parse(collective))
    view, rank = profile.rank(int(record["rank"])), int(record["rank"])
    name = str(view.categories[view.codes[int(record["row"])]])
    known = tables(profile).collectives
    own = known[(known["rank"] == rank) & (known["step"] == int(record["step"])) & (known["name"] == name)]
    if len(own) != 1 or not np.isfinite(float(own[f"{part}_ms"].iloc[0])):
        raise UsageError(f"the tables do not state the {part} time of that collective (communication.json)")
    return _of_rows(float(own[f"{part}_ms"].iloc[0]), own, f"{part} time in communication.json", rank)


def packets(profile: Profile) -> pd.DataFrame:
    """Packets over links that have a size from which on they are full."""
    own = tables(profile).packets
    own = own[own["transport"].isin(list(LARGE_MB)) & (own["count"] > 0)]
    if own.empty:
        raise UsageError("the tables hold no sizes of packets (communication.json), which needs level 1")
    return own


@metric("%", "collectives whose packets do not fill the link", "Which share of collectives does not fill the link?")
def packets_below_size_pct(profile: Profile) -> Measurement:
    """Collectives whose largest packet over a link is below the size from which on it is full."""
    own = packets(profile)
    small = own["packet_mb"] < own["transport"].map(dict(LARGE_MB))
    each = small.groupby([own[key] for key in ("rank", "step", "name", "group")]).all()
    return _of_rows(100.0 * float(each.mean()), own, "Size Distribution in communication.json")


@metric("%", "share of unaligned bytes over HCCS", "Which share of bytes moves in unaligned packets?")
def unaligned_pct(profile: Profile) -> Measurement:
    """Packets over HCCS beyond 512 bytes whose size is no multiple of 512 bytes."""
    own = packets(profile)
    own = own[own["transport"] == "HCCS"]
    if own.empty:
        raise UsageError("nothing moved over HCCS")
    size = (own["packet_mb"] * BYTES_PER_MB).round()
    loose = (size > ALIGNED_BYTES) & (size % ALIGNED_BYTES != 0)
    weight = own["packet_mb"] * own["count"]
    return _of_rows(100.0 * float(weight[loose].sum() / weight.sum()), own, "Size Distribution in communication.json")


@metric("ms", "longest RDMA transfer of a collective", "How long did the slowest transfer over RDMA take?")
def rdma_transit_ms(profile: Profile) -> Measurement:
    """The largest transit time over RDMA in one collective of one rank."""
    own = tables(profile).transfers
    own = own[(own["transport"] == "RDMA") & own["transit_ms"].notna()]
    if own.empty:
        raise UsageError("nothing moved over RDMA")
    return _of_rows(float(own["transit_ms"].max()), own, "RDMA in communication.json")


def _of_rows(value: float, rows: pd.DataFrame, selector: str, rank: int | None = None) -> Measurement:
    ranks = tuple(sorted({int(each) for each in rows["rank"]})) if rank is None else (rank,)
    steps = tuple(sorted({int(each) for each in rows["step"] if each >= 0}))
    shown = rows.reset_index(drop=True)
    return Measurement(value, lambda: shown, selector, ranks, steps, source=ASCEND_FORMAT)
