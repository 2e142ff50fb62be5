"""Costs of all distinct operator calls of a rank."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from tools.profilers.kernels import NAMED_PRECISIONS
from tools.profilers.operator_cost import TYPE_BYTES, CostModel, precision_of, streaming_bytes, type_names
from tools.profilers.rank_profile import RankProfile

UNTYPED_BYTES = 4  # traces that record shapes but no types are older than mixed precision by default


def call_costs(rank: RankProfile, keys: list[tuple[int, int, int, bool]]) -> pd.DataFrame:
    """One row per key (name code, dims code, types code, whether a matrix operator).

    Columns: flops, bytes (NaN unknown), typed (category, type of the operands), sizes (category, text like
    "128 x 1000"), common_size (greatest common divisor of the sizes that alignment concerns, 0 when there are none).
    """
    recorded = rank.events.details.operators
    names = rank.events.frame["name"].cat.categories
    dims, types = recorded["dims"].cat.categories, recorded["types"].cat.categories
    calls = [
        (str(names[name]), str(dims[shape]) if shape >= 0 else "", str(types[kind]) if kind >= 0 else "", is_math)
        for name, shape, kind, is_math in keys
    ]
    model = CostModel([(name, shape) for name, shape, _, _ in calls])
    rows = [_math_row(model, *call[:3]) if call[3] else _streaming_row(*call[:3]) for call in calls]
    return pd.DataFrame(
        {
            "flops": np.array([row[0] for row in rows], dtype=float),
            "bytes": np.array([row[1] for row in rows], dtype=float),
            "typed": pd.Categorical([row[2] for row in rows], categories=list(NAMED_PRECISIONS)),
            "sizes": pd.Categorical([" x ".join(str(size) for size in row[3]) for row in rows]),
            "common_size": np.array([math.gcd(*row[3]) for row in rows], dtype=np.int64),
        }
    )


def _math_row(model: CostModel, name: str, dims: str, types: str) -> tuple[float, float, str, tuple[int, ...]]:
    cost = model.math_cost(name, dims)
    widths = [TYPE_BYTES[kind] for kind in type_names(types) if kind in TYPE_BYTES]
    width = widths[0] if widths else math.nan if types else UNTYPED_BYTES
    return cost.flops, cost.elements * width, precision_of(types), cost.aligned_sizes


def _streaming_row(name: str, dims: str, types: str) -> tuple[float, float, str, tuple[int, ...]]:
    return math.nan, streaming_bytes(name, dims, types), "", ()
