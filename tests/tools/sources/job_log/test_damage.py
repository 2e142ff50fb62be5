"""Logs that are cut at any byte, changed at any byte, or read in pieces of any size."""

from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL, TEST, WATCHDOG
from tests.tools.sources.job_log.test_tables import AVERAGES, LIGHTNING
from tools.run.recorded.job_log import JobLog
from tools.sources.job_log.collect import Collector
from tools.sources.job_log.lines import LineReader
from tools.sources.job_log.reader import log_of

WHOLE = (
    NCCL
    + "".join(megatron((step, 90.0 + step), prefix=f"{step % 2}:") for step in range(1, 30))
    + "\r".join(f"{at}%| | {at}/40 [00:{at:02d}<00:00, 1.0s/it]" for at in range(40))
    + LIGHTNING
    + AVERAGES
    + WATCHDOG
    + TEST
    + "epoch,step,step_time_ms\n0,1,5\n0,2,6\n"
).encode()


def read_pieces(*pieces: bytes) -> JobLog | None:
    collector = Collector(0)
    for raw in LineReader(pieces, collector.wants_all):
        collector.take(raw)
    collector.close()
    return log_of(collector, "log")[0]


STEPS = (NCCL + "".join(megatron((step, 90.0 + step), prefix=f"{step % 2}:") for step in range(1, 30))).encode()


@settings(max_examples=30, deadline=None)
@given(end=st.integers(0, len(STEPS)))
def test_a_cut_log_gives_what_stands_before_the_cut(end: int) -> None:
    whole, cut = read_pieces(STEPS), read_pieces(STEPS[:end])
    assert whole is not None
    if cut is None:
        return
    complete = STEPS[:end].count(b"\n")  # the line of the cut itself may be half
    found = cut.steps[cut.steps["line"] <= complete]
    expected = whole.steps[whole.steps["line"].isin(found["line"])]
    assert (
        found[["rank", "step", "wall_ms"]].to_numpy().tolist()
        == expected[["rank", "step", "wall_ms"]].to_numpy().tolist()
    )


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), put=st.binary(max_size=4), taken=st.integers(0, 6))
def test_a_changed_log_is_read_and_its_figures_are_believable(at: int, put: bytes, taken: int) -> None:
    log = read_pieces(WHOLE[:at] + put + WHOLE[at + taken :])
    assert log is not None
    assert (log.steps["wall_ms"] > 0).all()
    assert log.steps["line"].between(1, WHOLE.count(b"\n") + 6).all()
    assert (log.timers["min_ms"] <= log.timers["max_ms"]).all()


@settings(max_examples=8, deadline=None)
@given(size=st.integers(7, 5000))
def test_the_size_of_the_pieces_does_not_matter(size: int) -> None:
    whole = read_pieces(WHOLE)
    parts = read_pieces(*(WHOLE[at : at + size] for at in range(0, len(WHOLE), size)))
    assert whole is not None
    assert parts is not None
    for name in ("steps", "timers", "comm_tests", "actions"):
        pd.testing.assert_frame_equal(getattr(whole, name), getattr(parts, name))
    assert parts.timeouts == whole.timeouts
