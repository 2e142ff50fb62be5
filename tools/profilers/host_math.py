"""Matrix operators that ran on the host, by the type of their operands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.profilers.operator_cost import MATH_OPERATORS, precision_of
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.run.events import name_mask


def host_math_rows(profile: Profile, rank: int, precision: str) -> NDArray[np.int64]:
    """Rows of matrix operators inside the steps whose first floating operand has that type ("" for any type)."""
    return profile.memo(f"host_math:{precision}:{rank}", lambda: _rows(profile.rank(rank), precision))


def _rows(rank: RankProfile, precision: str) -> NDArray[np.int64]:
    names = rank.events.frame["name"]
    wanted = name_mask(names, np.array([str(name) in MATH_OPERATORS for name in names.cat.categories], dtype=bool))
    recorded = rank.events.details.operators
    types = [precision_of(str(kind)) for kind in recorded["types"].cat.categories]
    fits = np.array([bool(kind) if not precision else kind == precision for kind in types], dtype=bool)
    rows = recorded["row"].to_numpy()
    chosen = np.append(fits, False)[recorded["types"].cat.codes.to_numpy()] & wanted[rows]
    return rank.in_steps(np.asarray(rows[chosen], dtype=np.int64))
