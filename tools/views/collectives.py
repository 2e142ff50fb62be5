"""All collectives of a run in one table: what was exchanged, in which group, by whom, when.

On a rank with a device a collective is its communication kernel; on a rank without one it is the library's own host
span (``gloo:all_reduce``). Point-to-point transfers are listed but never matched across ranks.

Columns of the table
    rank, row          whose it is, and its row in the rank's event table
    kind               all_reduce, all_gather, ... ("" when not recorded)
    group, members     recorded name and rank list of the group ("" when absent)
    group_size         -1 when neither recorded nor to be taken from the world size
    bytes              whole buffer that a rank ends or starts with, the larger one, as in the NCCL tests; -1 unknown
    step               step in which the host asked for it (of its own start without a recorded launch), -1 outside
    sequence           its place among the rank's collectives of that group, kind and step
    start_ns, end_ns
    match              id shared by the same collective on several ranks, -1 when not matched
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, intersect, union
from tools.knowledge.name_patterns import collective_kind
from tools.run.links import enclosing
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

UNKNOWN = -1
LARGEST_ELEMENTS = 1 << 48  # no buffer is larger; more is a damaged shape

FP8_TYPES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
BYTES_OF: Mapping[str, int] = {
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "int8", "uint8", *FP8_TYPES), 1),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "short int", "int16"), 2),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("double", "float64", "long", "long int", "int64", "complexfloat"), 8),
    "complexdouble": 16,
}


def element_bytes(dtype: str) -> int:
    """Bytes of one element of a recorded type name, ``UNKNOWN`` when the name is not known."""
    return BYTES_OF.get(dtype.strip().lower().removeprefix("c10::").removeprefix("torch."), UNKNOWN)


def elements_of(dims: str) -> int:
    """Elements of the first input of a recorded shape list (``[[5, 3], []]`` or a list of tensors ``[[[5], [3]]]``)."""
    first = _first(dims)
    if not isinstance(first, list) or not first:
        return UNKNOWN
    shapes = first if isinstance(first[0], list) else [first]
    total = 0
    for shape in shapes:
        if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
            return UNKNOWN
        total += math.prod(shape)
        if total > LARGEST_ELEMENTS:
            return UNKNOWN
    return total


def element_bytes_of(types: str) -> int:
    """Bytes of one element of the first input, ``UNKNOWN`` when its type was not recorded."""
    first = _first(types)
    return element_bytes(first) if isinstance(first, str) else UNKNOWN


def bus_factor(kind: str, group_size: int) -> float:
    """What turns algorithm bandwidth into bus bandwidth (NCCL tests, PERFORMANCE.md), so that peers compare."""
    if group_size < 2:
        return 1.0
    match kind:
        case "all_reduce":
            return 2.0 * (group_size - 1) / group_size
        case "all_gather" | "reduce_scatter" | "all_to_all" | "gather" | "scatter":
            return (group_size - 1) / group_size
        case _:
            return 1.0


def _first(text: str) -> object:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values[0] if isinstance(values, list) and values else None


PLACE = ["group", "members", "kind", "step"]  # what, with the sequence number, names one collective
SAME_BYTES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")  # other kinds differ by rank
SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
WAITING = "wait"  # record_param_comms names the host's wait for a collective like a collective


@memoized
def collectives(profile: Profile) -> pd.DataFrame:
    """The table of all collectives of the run, ordered by rank and start; computed once per profile."""
    world_size = profile.run.layout.world_size
    tables = [_of_rank(rank, world_size) for rank in profile.ranks]
    table = pd.concat(tables, ignore_index=True)
    table["sequence"] = table.groupby(["rank", *PLACE], sort=False).cumcount()
    table["match"] = _matches(table)
    return table


def unmatched(profile: Profile) -> int:
    """How many collectives inside steps have no counterpart on another traced rank (point-to-point not counted)."""
    table = collectives(profile)
    return int(((table["match"] < 0) & (table["step"] >= 0) & (table["kind"] != "send_recv")).sum())


def asking_spans(rank: RankProfile) -> IntervalSet:
    """The moments in which a host thread of the rank is inside an operator that asks for a collective."""
    rows = rank.in_steps(np.flatnonzero(rank.named("communication_operator") & (rank.end > rank.start)))
    return rank.covered(rows)


def _of_rank(rank: RankProfile, world_size: int | None) -> pd.DataFrame:
    rows = rank.communication_kernels if rank.rank.has_device else rank.host_collective_rows
    launched_by = np.full(len(rank.kind), -1, dtype=np.int64)
    launched_by[rank.launches["device_row"].to_numpy()] = rank.launches["launch_row"].to_numpy()
    asked = launched_by[rows]  # the runtime call that launched each kernel, -1 where not recorded
    table = pd.DataFrame({"rank": rank.rank.rank, "row": rows})
    # The host span (``nccl:all_reduce``) around each launch; the row itself where it is the span; else -1.
    spans = np.flatnonzero(rank.named("communication_span") & (rank.end > rank.start))
    span = _around(rank, asked, spans) if rank.rank.has_device else rows
    recorded = _recorded(rank, rows, asked)
    shapes = _shapes(rank, span)
    own_kind, span_kind = _kinds(rank, rows), _kinds(rank, span)
    kind = recorded["kind"].where(recorded["kind"] != "", span_kind)
    table["kind"] = kind.where(kind != "", own_kind)
    table["group"], table["members"] = recorded["group"], recorded["ranks"]
    size = recorded["group_size"]
    table["group_size"] = np.where(size > 0, size, world_size or UNKNOWN)
    table["bytes"] = _bytes(table, recorded, shapes)
    table["step"] = rank.step_of(np.where(asked >= 0, asked, rows))
    table["start_ns"], table["end_ns"] = rank.start[rows], rank.end[rows]
    return table


def _around(rank: RankProfile, inner: NDArray[np.int64], outer: NDArray[np.int64]) -> NDArray[np.int64]:
    result = np.full(len(inner), -1, dtype=np.int64)
    known = inner >= 0
    if known.any() and len(outer):
        result[known] = enclosing(rank.events, inner[known], outer)
    return result


def _recorded(rank: RankProfile, rows: NDArray[np.int64], asked: NDArray[np.int64]) -> pd.DataFrame:
    """What the collective's own row, or the parameter record around its launch, says; one row per collective."""
    details = rank.events.details.collectives
    details = details[(details["collective"].astype(str) != WAITING).to_numpy()]
    position = np.full(len(rank.kind) + 1, -1, dtype=np.int64)
    position[details["row"].to_numpy()] = np.arange(len(details))
    host = rank.events.tracks["device"].to_numpy()[rank.track[details["row"].to_numpy()]] < 0
    record = _around(rank, asked, details["row"].to_numpy()[host])
    at = np.where(position[rows] >= 0, position[rows], position[record])
    padded = details.reindex(range(-1, 0)) if details.empty else details
    taken = padded.iloc[np.maximum(at, 0)].reset_index(drop=True)
    missing = at < 0
    result = pd.DataFrame(index=range(len(rows)))
    for column in ("collective", "group", "ranks", "dtype"):
        result[column] = taken[column].astype(str).mask(missing, "")
    for column in ("group_size", "in_elements", "out_elements"):
        result[column] = taken[column].mask(missing, UNKNOWN).astype("int64")
    result["kind"] = _mapped(result["collective"], collective_kind)
    return result


def _shapes(rank: RankProfile, span: NDArray[np.int64]) -> pd.DataFrame:
    """Elements and element size of the first input that the span recorded."""
    operators = rank.events.details.operators
    position = np.full(len(rank.kind) + 1, -1, dtype=np.int64)
    position[operators["row"].to_numpy()] = np.arange(len(operators))
    at = np.where(span >= 0, position[span], -1)
    known = at >= 0
    result = pd.DataFrame({"elements": UNKNOWN, "element_bytes": UNKNOWN}, index=range(len(span)))
    if known.any():
        taken = operators.iloc[at[known]]
        result.loc[known, "elements"] = _mapped(taken["dims"].astype(str), elements_of).to_numpy()
        result.loc[known, "element_bytes"] = _mapped(taken["types"].astype(str), element_bytes_of).to_numpy()
    return result


def _bytes(table: pd.DataFrame, recorded: pd.DataFrame, shapes: pd.DataFrame) -> NDArray[np.int64]:
    has_record = recorded["in_elements"].to_numpy() >= 0
    inputs = np.where(has_record, recorded["in_elements"], shapes["elements"])
    outputs = np.where(has_record, recorded["out_elements"], UNKNOWN)
    size = np.where(has_record, _mapped(recorded["dtype"], element_bytes), shapes["element_bytes"])
    gathered = (table["kind"] == "all_gather").to_numpy() & (outputs < 0) & (inputs >= 0)
    group = table["group_size"].to_numpy()
    elements = np.where(gathered, np.where(group > 0, inputs * group, UNKNOWN), np.maximum(inputs, outputs))
    return np.where((elements >= 0) & (size > 0), elements * size, UNKNOWN).astype(np.int64)


def _kinds(rank: RankProfile, rows: NDArray[np.int64]) -> pd.Series[str]:
    """The kind each row's name stands for, "" for -1; names are looked up once per distinct name."""
    names = rank.events.frame["name"].cat
    codes = np.where(rows >= 0, names.codes.to_numpy()[np.maximum(rows, 0)], -1)
    return _mapped(pd.Series(codes), lambda code: "" if code < 0 else collective_kind(str(names.categories[code])))


def _mapped(values: pd.Series[Any], function: Callable[[Any], Any]) -> pd.Series[Any]:
    """The function of every value, called once per distinct value."""
    return values.map({value: function(value) for value in values.unique()})


def _matches(table: pd.DataFrame) -> NDArray[np.int64]:
    """Ids of collectives of several ranks: equal group, kind, step, place, count and size, at one moment."""
    result = np.full(len(table), -1, dtype=np.int64)
    wanted = ((table["step"] >= 0) & (table["kind"] != "send_recv")).to_numpy()
    chosen = table[wanted]
    if chosen.empty:
        return result
    number = chosen.groupby([*PLACE, "sequence"], sort=False).ngroup()
    counts = chosen.groupby(["rank", *PLACE], sort=False)["row"].transform("size")
    same_count = counts.groupby([chosen[column] for column in PLACE], sort=False).transform("nunique") == 1
    several = chosen["rank"].groupby(number).transform("nunique") > 1
    same_size = chosen["bytes"].groupby(number).transform("nunique") == 1
    good = same_count & several & (same_size | ~chosen["kind"].isin(SAME_BYTES))
    good &= _together(chosen, number, good)
    result[wanted] = np.where(good, number, -1)
    return result


def _together(chosen: pd.DataFrame, number: pd.Series[int], good: pd.Series[bool]) -> pd.Series[bool]:
    """Whether all ranks were in it at one moment; all pass where hardly any do: the clocks are apart then."""
    last_start = chosen["start_ns"].groupby(number).transform("max")
    first_end = chosen["end_ns"].groupby(number).transform("min")
    together = (last_start <= first_end) | ~chosen["kind"].isin(SYNCHRONISING)
    return together if float(together[good].mean() if good.any() else 0.0) > 0.25 else good


# When the partner was ready is not recorded. The shortest transfer of the same size in the run is taken for the
# transfer itself, everything beyond it for waiting; what is exposed of it is time in which the rank did nothing else.


KIND = "send_recv"


@memoized
def point_to_point(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` that are sends or receives inside steps, with a column ``wait_ns``."""
    table = collectives(profile)
    table = table[((table["kind"] == KIND) & (table["step"] >= 0)).to_numpy()].reset_index(drop=True)
    duration = table["end_ns"] - table["start_ns"]
    return table.assign(wait_ns=duration - duration.groupby(table["bytes"]).transform("min"))


def waiting_for_partner(profile: Profile, rank: int) -> IntervalSet:
    """The moments in which a rank does nothing but wait for the partner of a transfer."""
    table = point_to_point(profile)
    mine = table[(table["rank"] == rank) & (table["wait_ns"] > 0)]
    if mine.empty:
        return EMPTY
    start = mine["start_ns"].to_numpy()
    return intersect(union(start, start + mine["wait_ns"].to_numpy()), profile.rank(rank).parts.exposed_communication)


def partner_wait_ns(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Per step of the rank, the time in which it does nothing but wait for the partner of a transfer."""
    return profile.rank(rank).per_step_ns(waiting_for_partner(profile, rank))
