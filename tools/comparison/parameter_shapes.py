"""Shapes of the parameters that a run computes with: they tell one model from another, however the rest is written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from tools.run.events import name_mask
from tools.views.operator_cost import tensor_shapes
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import operator_rows

# Operator of a forward pass -> which of its tensors is the parameter.
WEIGHT_AT: Mapping[str, int] = MappingProxyType(
    {"aten::convolution": 1, "aten::linear": 1, "aten::addmm": 2, "aten::embedding": 0}
)


def layers(profile: Profile) -> pd.Series[float]:
    """One entry (1.0) per convolution, linear layer or embedding of another shape in the steps of any rank.

    The index is operator and shape of its parameter. Neither batch size nor number of calls shows, so the same model
    in other pieces has the same layers. Empty when no shapes were recorded.
    """
    return profile.memo("layers", lambda: _distinct(set().union(*(_layers(view) for view in profile.ranks))))


def _distinct(found: set[str]) -> pd.Series[float]:
    return pd.Series(1.0, index=pd.Index(sorted(found), dtype="str"), dtype="float64")


def _layers(view: RankProfile) -> set[str]:
    names, details = view.events.frame["name"], view.events.details.operators
    shaped = np.full(len(view.kind), -1, dtype=np.int64)
    shaped[details["row"].to_numpy()] = details["dims"].cat.codes.to_numpy()
    wanted = name_mask(names, np.array([str(name) in WEIGHT_AT for name in names.cat.categories], dtype=bool))
    rows = operator_rows(view)
    rows = rows[wanted[rows] & (shaped[rows] >= 0)]
    calls = pd.DataFrame({"name": names.cat.codes.to_numpy()[rows], "dims": shaped[rows]}).drop_duplicates()
    texts = details["dims"].cat.categories
    told = (_layer(str(names.cat.categories[name]), str(texts[dims])) for name, dims in calls.itertuples(index=False))
    return {each for each in told if each}


def _layer(operator: str, dims: str) -> str:
    """Operator and parameter shape; "" when the shape is not recorded."""
    shapes = tensor_shapes(dims)
    place = WEIGHT_AT[operator]
    return f"{operator} {shapes[place]}" if len(shapes) > place and shapes[place] else ""
