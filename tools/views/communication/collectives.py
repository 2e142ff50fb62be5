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

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, union
from tools.knowledge.name_patterns import collective_kind
from tools.run.links import enclosing, launching_calls
from tools.views.device.operator_cost import element_bytes, parsed_list, type_names
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

UNKNOWN = -1
LARGEST_ELEMENTS = 1 << 48  # no buffer is larger; more is a damaged shape


def elements_of(dims: str) -> int:
    """Elements of the first input of a recorded shape list (``[[5, 3], []]`` or a list of tensors ``[[[5], [3]]]``)."""
    first = next(iter(parsed_list(dims)), None)
    if not isinstance(first, list) or not first:
        return UNKNOWN
    shapes = first if isinstance(first[0], list) else [first]
    if not all(isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape) for shape in shapes):
        return UNKNOWN
    total = sum(map(math.prod, shapes))
    return total if total <= LARGEST_ELEMENTS else UNKNOWN


def element_bytes_of(types: str) -> int:
    """Bytes of one element of the first input, ``UNKNOWN`` when its type was not recorded."""
    return element_bytes(next(iter(type_names(types)), ""))


def bus_factor(kind: str, group_size: int) -> float:
    """The factor from algorithm bandwidth to bus bandwidth (NCCL tests, PERFORMANCE.md), so that peers compare."""
    if group_size < 2 or kind not in PARTIAL:
        return 1.0
    return (2.0 if kind == "all_reduce" else 1.0) * (group_size - 1) / group_size


def main_group(profile: Profile, rank: int) -> str:
    """The group in whose collectives a rank spends most time: its description, else its name; "" where unknown."""
    table = collectives(profile)
    mine = table[(table["rank"] == rank) & (table["step"] >= 0) & (table["group"] != "")]
    if mine.empty:
        return ""
    name = str((mine["end_ns"] - mine["start_ns"]).groupby(mine["group"].to_numpy()).sum().idxmax())
    described = {group.name: group.description for group in profile.run.layout.groups}
    return described.get(name, "") or name


PLACE = ["group", "members", "kind", "step"]  # what, with the sequence number, names one collective
SAME_BYTES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")  # other kinds differ by rank
PARTIAL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")  # a rank has its own part
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
    """Number of collectives inside steps without a counterpart on another traced rank (point-to-point not counted)."""
    table = collectives(profile)
    return int(((table["match"] < 0) & (table["step"] >= 0) & (table["kind"] != "send_recv")).sum())


def asking_spans(rank: RankProfile) -> IntervalSet:
    """The moments in which a host thread of the rank is inside an operator that asks for a collective."""
    rows = rank.in_steps(np.flatnonzero(rank.named("communication_operator") & (rank.end > rank.start)))
    return rank.covered(rows)


def _of_rank(rank: RankProfile, world_size: int | None) -> pd.DataFrame:
    device = rank.rank.has_device
    rows = rank.communication_kernels if device else rank.host_collective_rows
    asked = launching_calls(rank.events, rows) if device else np.full(len(rows), -1, dtype=np.int64)
    table = pd.DataFrame({"rank": rank.rank.rank, "row": rows})
    # The host span (``nccl:all_reduce``) around each launch; the row itself where it is the span; else -1.
    span = enclosing(rank.events, asked, rank.host_collective_rows) if device else rows
    recorded = _recorded(rank, rows, asked)
    kind = recorded["kind"].where(recorded["kind"] != "", _kinds(rank, span))
    table["kind"] = kind.where(kind != "", _kinds(rank, rows))
    table["group"], table["members"] = recorded["group"], recorded["ranks"]
    size = recorded["group_size"]
    table["group_size"] = np.where(size > 0, size, world_size or UNKNOWN)
    table["bytes"] = _bytes(table, recorded, _shapes(rank, span))
    table["step"] = rank.step_of(np.where(asked >= 0, asked, rows))
    table["start_ns"], table["end_ns"] = rank.start[rows], rank.end[rows]
    return table


def _recorded(rank: RankProfile, rows: NDArray[np.int64], asked: NDArray[np.int64]) -> pd.DataFrame:
    """The description in a collective's own row, or in the parameter record around its launch; a row for each."""
    details = rank.events.details.collectives
    details = details[(details["collective"].astype(str) != WAITING).to_numpy()]
    own_rows = details["row"].to_numpy()
    host = rank.events.tracks["device"].to_numpy()[rank.track[own_rows]] < 0
    at = rank.places(details, rows)
    at = np.where(at >= 0, at, rank.places(details, enclosing(rank.events, asked, own_rows[host])))
    padded = details.reindex(range(-1, 0)) if details.empty else details
    taken, missing = padded.iloc[np.maximum(at, 0)].reset_index(drop=True), at < 0
    texts = {name: taken[name].astype(str).mask(missing, "") for name in ("collective", "group", "ranks", "dtype")}
    numbers = {name: taken[name].mask(missing, UNKNOWN) for name in ("group_size", "in_elements", "out_elements")}
    result = pd.DataFrame({**texts, **{name: values.astype("int64") for name, values in numbers.items()}})
    return result.assign(kind=_mapped(result["collective"], collective_kind))


def _shapes(rank: RankProfile, span: NDArray[np.int64]) -> pd.DataFrame:
    """Elements and element size of the first input that the span recorded."""
    operators = rank.events.details.operators
    at = rank.places(operators, span)
    taken = operators.iloc[at[at >= 0]]
    columns = {}
    for name, source, function in (("elements", "dims", elements_of), ("element_bytes", "types", element_bytes_of)):
        columns[name] = np.full(len(span), UNKNOWN, dtype=np.int64)
        columns[name][at >= 0] = _mapped(taken[source].astype(str), function).to_numpy().astype(np.int64)
    return pd.DataFrame(columns)


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
    codes = np.where(rows >= 0, rank.codes[np.maximum(rows, 0)], -1)
    return _mapped(pd.Series(codes), lambda code: "" if code < 0 else collective_kind(str(rank.categories[code])))


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
    """True where all ranks were in it at one moment; all pass where hardly any do: the clocks are apart then."""
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
    start = mine["start_ns"].to_numpy()
    return intersect(union(start, start + mine["wait_ns"].to_numpy()), profile.rank(rank).parts.exposed_communication)


def partner_wait_ns(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Per step of the rank, the time in which it does nothing but wait for the partner of a transfer."""
    return profile.rank(rank).per_step_ns(waiting_for_partner(profile, rank))
