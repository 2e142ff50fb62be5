"""Operations of hybrid-parallel training steps, as ByteDance's straggler study records them: no kernels, no calls."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

OPERATION_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("dp_rank", "stage", "rank", "step"), "int64"),
    "optype": "str",
    **dict.fromkeys(("start_ms", "duration_ms"), "float64"),
    **dict.fromkeys(("seq_id", "mc", "gmc"), "int64"),
}


@dataclass(frozen=True, eq=False)
class StepOperations:
    """One row for each operation (``OPERATION_COLUMNS``), of one tensor-parallel rank of each stage and data-parallel
    rank; ``start_ms`` is from the begin of its step, ``mc`` and ``gmc`` are the model chunk on the stage and in the
    model (-1 where it has none).
    """

    rows: pd.DataFrame

    @property
    def steps(self) -> pd.DataFrame:
        """Columns rank, step, wall_ms: a step of every rank, which ends when the last rank's last operation does."""
        ends = self.rows["start_ms"] + self.rows["duration_ms"]
        by_step = self.rows.assign(end_ms=ends).groupby("step").agg(begin=("start_ms", "min"), end=("end_ms", "max"))
        pairs = self.rows[["rank", "step"]].drop_duplicates().sort_values(["rank", "step"], ignore_index=True)
        return pairs.assign(wall_ms=pairs["step"].map(by_step["end"] - by_step["begin"]))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The recorded ranks, ascending."""
        return tuple(int(rank) for rank in sorted(self.rows["rank"].unique()))

    @property
    def stage_count(self) -> int:
        """Pipeline stages."""
        return int(self.rows["stage"].nunique())

    @property
    def data_parallel(self) -> int:
        """Data-parallel ranks."""
        return int(self.rows["dp_rank"].nunique())
