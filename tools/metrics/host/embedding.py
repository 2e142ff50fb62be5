"""Dense gradients of embedding tables: passes over whole tables, of which a step reads few rows, to make and apply."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from tools.intervals import length
from tools.metrics.measurement import Measurement, as_pct, metric, of_events
from tools.run.links import enclosing
from tools.views.device.operator_cost import Shape, tensor_shapes
from tools.views.device.roofline import math_operators
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile


@memoized
def looked_up(profile: Profile, rank: int) -> dict[tuple[int, ...], float]:
    """Of each embedding table (by shape) the largest share of its rows that one look-up can touch.

    Shapes that matrix operators take as well are left out: an output layer of that shape has a dense gradient anyway.
    So are shapes of sparse tensors: the gradient of such a table is sparse, and what has its shape touches few rows.
    """
    view = profile.rank(rank)
    found: dict[tuple[int, ...], float] = {}
    for shapes in _operands(view, "embedding_lookup"):
        if len(shapes) > 1 and len(shapes[0]) == 2 and shapes[0][0] and shapes[1]:
            share = min(1.0, math.prod(shapes[1]) / shapes[0][0])
            found[tuple(shapes[0])] = max(found.get(tuple(shapes[0]), 0.0), share)
    multiplied = math_operators(view)["dims"].astype(str).unique()
    dense = {shape for dims in multiplied for each in tensor_shapes(dims) for shape in (tuple(each), tuple(each[::-1]))}
    few = profile.thresholds["table_rows_pct"] / 100.0
    sparse = {tuple(shapes[0]) for shapes in _operands(view, "sparse_operator") if shapes}
    return {table: share for table, share in found.items() if share < few and table not in dense | sparse}


def _operands(view: RankProfile, pattern: str) -> list[list[Shape]]:
    """The different shapes of the operands of operators of that name pattern inside steps."""
    rows = view.in_steps(np.flatnonzero(view.named(pattern)))
    recorded = view.events.details.operators.set_index("row")["dims"]
    return [tensor_shapes(dims) for dims in recorded.reindex(rows).dropna().astype(str).unique()]


@memoized
def table_updates(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Outermost operators that make a gradient of such a table's shape, or whose first operand in the optimizer has it.

    A dense gradient is made by filling a tensor of the table's shape with zeros and adding the rows that were read.
    """
    return updates_of(profile.rank(rank), looked_up(profile, rank))


def sparse_left(profile: Profile, rank: int) -> list[tuple[NDArray[np.int64], float]]:
    """Of each table the rows of ``table_updates``, and what sparse gradients leave of their time.

    Work on the rows that a step reads, each of which costs ``sparse_row_cost`` times as much as in a pass over all.
    """
    view, cost = profile.rank(rank), profile.thresholds["sparse_row_cost"]
    return [(updates_of(view, (table,)), min(cost * share, 1.0)) for table, share in looked_up(profile, rank).items()]


def updates_of(view: RankProfile, tables: Collection[tuple[int, ...]]) -> NDArray[np.int64]:
    """The same of tables of these shapes."""
    recorded = view.events.details.operators
    if not tables:
        return np.empty(0, dtype=np.int64)
    known = {text: tuple((tensor_shapes(str(text)) or [[]])[0]) in tables for text in recorded["dims"].cat.categories}
    chosen = recorded["row"].to_numpy()[recorded["dims"].map(known).fillna(False).to_numpy(dtype=bool)]
    rows = np.intersect1d(chosen, view.in_steps(view.host_compute_rows)).astype(np.int64)
    applied = rows[enclosing(view.events, rows, np.flatnonzero(view.named("optimizer"))) >= 0]
    made = enclosing(view.events, rows, np.flatnonzero(view.named("dense_embedding_gradient")))
    return view.outermost(np.union1d(applied, made[made >= 0]))


@metric("ms", "time per step in passes over whole embedding tables", "How long do passes over whole tables take?")
def table_update_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in operators over whole embedding tables of which a look-up touches less than half of the rows."""
    view, rows = profile.rank(rank), table_updates(profile, rank)
    value = length(view.covered(rows)) / 1e6 / len(view.steps)
    return of_events(view, value, rows, "operators on tensors of the shape of an embedding table")


@metric("%", "share of the step in passes over whole embedding tables", "How much of the step do they take?")
def table_update_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    return as_pct(table_update_ms(profile, rank), float(profile.rank(rank).wall_ms.mean()))


@metric("%", "largest share of an embedding table's rows in one look-up", "Which share of the rows is looked up?")
def table_rows_pct(profile: Profile, rank: int) -> Measurement:
    """The largest share of its rows that one look-up in one of these tables can touch."""
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero(view.named("embedding_lookup")))
    return of_events(view, 100.0 * max(looked_up(profile, rank).values(), default=0.0), rows, "indices over table rows")
