"""What a run computes with its parameters: the calls that tell one model from another, however the rest is written."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from tools.profilers.operator_cost import MATH_OPERATORS
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.profilers.work import operator_rows
from tools.run.events import name_mask

# Besides convolutions and matrix products, what reads tables of parameters or mixes tokens.
LAYER = re.compile(r"^aten::(embedding|embedding_dense_backward|_?scaled_dot_product_\w+|_(flash|efficient)_attention\w*)$")


def layer_calls(profile: Profile) -> pd.Series[float]:
    """Calls per step and rank of convolutions, matrix products, embeddings and attention inside the steps.

    The index tells name and recorded input shapes apart; empty when no shapes were recorded.
    """
    return profile.memo("layer_calls", lambda: _mean([_calls(view) for view in profile.ranks]))


def _calls(view: RankProfile) -> pd.Series[float]:
    names, details = view.events.frame["name"], view.events.details.operators
    shaped = np.full(len(view.kind), -1, dtype=np.int64)
    shaped[details["row"].to_numpy()] = details["dims"].cat.codes.to_numpy()
    texts = details["dims"].cat.categories
    rows = operator_rows(view)
    rows = rows[name_mask(names, np.array([_is_layer(str(name)) for name in names.cat.categories], dtype=bool))[rows]]
    rows = rows[shaped[rows] >= 0]
    pairs = pd.DataFrame({"name": names.cat.codes.to_numpy()[rows], "dims": shaped[rows]}).value_counts()
    keys = [f"{names.cat.categories[name]} {texts[dims]}" for name, dims in pairs.index]
    return pd.Series(pairs.to_numpy() / max(len(view.rank.steps), 1), index=pd.Index(keys, dtype="str"))


def _is_layer(name: str) -> bool:
    return name in MATH_OPERATORS or LAYER.match(name) is not None


def _mean(calls: list[pd.Series[float]]) -> pd.Series[float]:
    total: pd.Series[float] = pd.concat(calls).groupby(level=0).sum() / len(calls)
    return total
