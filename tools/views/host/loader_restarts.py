"""Data loaders whose worker processes are stopped at the end of an epoch and started again for the next."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.views.profile import Profile, memoized

SELDOM = 0.3  # of the calls: where more follow each other without training, steps take batches of several loaders


@memoized
def restarts(profile: Profile, rank: int) -> pd.DataFrame:
    """The restarts of loader workers inside a rank's steps: columns step, start_ns, first_ns, end_ns, usual_ns.

    An epoch ends with a call of the loader that gives no batch: the next call follows without training between them.
    Where the workers live on (``persistent_workers=True``) that call looks at a counter and returns; where they do not,
    it stops their processes, and before the next call new ones are started: both last at least ``worker_restart_ms``.
    A restart lasts from the begin of the one call to the end of the other (begun at ``first_ns``), which waits for new
    workers to import and prepare their first batch; ``usual_ns`` is the median of the other calls. Steps that take
    batches of several loaders look alike, but in every step; epochs of fewer than three batches count as such.
    """
    view, least_ns = profile.rank(rank), 1e6 * profile.thresholds["worker_restart_ms"]
    rows = view.in_steps(view.loader_rows)
    rows = rows[view.named("multi_process_loader")[rows]]
    training = np.flatnonzero(view.named("backward_node") | view.named("optimizer_update"))
    trained = np.sort(view.start[training])
    begin, end = view.start[rows], view.end[rows]
    idle = np.searchsorted(trained, end[:-1]) == np.searchsorted(trained, begin[1:])  # no training until the next call
    alone = ~np.append(False, idle[:-1]) & ~np.append(idle[1:], False)  # batches that are skipped come in longer rows
    stopped = idle & alone & (end[:-1] - begin[:-1] >= least_ns) & (begin[1:] - end[:-1] >= least_ns)
    seldom = len(trained) > 0 and idle.sum() <= SELDOM * len(rows)
    at = np.flatnonzero(stopped) if seldom else np.empty(0, dtype=np.int64)
    others = np.setdiff1d(np.arange(len(rows)), np.append(at, at + 1))
    usual = float(np.median((end - begin)[others])) if len(others) else 0.0
    return pd.DataFrame(
        {
            "step": view.step_of(rows[at]),
            "start_ns": begin[at],
            "first_ns": begin[at + 1],
            "end_ns": end[at + 1],
            "usual_ns": np.full(len(at), usual),
        }
    )
