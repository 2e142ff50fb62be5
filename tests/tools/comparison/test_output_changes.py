"""Comparisons of outputs of jobs: the timer that explains a longer step, and runs of which one was profiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tools.comparison.compare import compare
from tools.errors import NotComparableError
from tools.sources.load import load_run
from tools.views.profile import Profile

HEAD = "using world size: {}, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"


def timed(folder: Path, name: str, step_ms: float, sync_ms: float, batch_ms: float = 10.0, world: int = 8) -> Profile:
    rows = "".join(
        f"    {timer} ................................: ({least:.2f}, {most:.2f})\n"
        for timer, least, most in (
            ("forward-compute", 400.0, 410.0),
            ("all-grads-sync", sync_ms - 10.0, sync_ms),
            ("batch-generator", batch_ms - 1.0, batch_ms),
        )
    )
    text = HEAD.format(world) + "".join(
        megatron((step, step_ms + step % 2)) + "(min, max) time across ranks (ms):\n" + rows for step in range(1, 21)
    )
    (folder / name).write_text(text)
    return Profile(load_run([folder / name]))


def test_the_timer_that_grew_explains_a_longer_step(tmp_path: Path) -> None:
    before, after = timed(tmp_path, "a.log", 1000.0, 60.0), timed(tmp_path, "b.log", 1300.0, 360.0)
    (change,) = compare(before, after).changes
    assert change.names == ("all-grads-sync",)
    assert [fact.value for fact in change.facts] == [60.0, 360.0]
    assert change.template.endswith("per step: nearly all of the change of the step.")
    other = timed(tmp_path, "c.log", 1300.0, 60.0, batch_ms=160.0)
    (change,) = compare(before, other).changes
    assert change.names == ("batch-generator",)
    assert change.template.endswith("more than half of it.")


def test_a_longer_step_without_any_changed_timer_says_so(tmp_path: Path) -> None:
    before, after = timed(tmp_path, "a.log", 1000.0, 60.0), timed(tmp_path, "b.log", 1300.0, 60.0)
    assert [each.template for each in compare(before, after).changes] == [
        "No timer, wait for data, setting or fact of NCCL that both outputs state changed with it."
    ]
    assert compare(before, timed(tmp_path, "c.log", 1000.0, 60.0)).changes == ()


def test_nccl_s_network_and_variables_that_differ_are_named(tmp_path: Path) -> None:
    lines = (
        "host:1:1 [0] NCCL INFO Using network {}\nhost:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to {}.\n"
    )
    runs = []
    for name, network, off in (("a.log", "IB", 0), ("b.log", "Socket", 1)):
        timed(tmp_path, name, 1000.0, 60.0)
        (tmp_path / name).write_text(lines.format(network, off) + (tmp_path / name).read_text())
        runs.append(Profile(load_run([tmp_path / name])))
    names = [each.names for each in compare(*runs).changes]
    assert ("IB", "Socket") in names
    assert ("NCCL_IB_DISABLE", "0", "1") in names


def test_a_refusal_states_the_comparability(tmp_path: Path) -> None:
    before, after = timed(tmp_path, "a.log", 1000.0, 60.0), timed(tmp_path, "b.log", 1000.0, 60.0, world=16)
    with pytest.raises(NotComparableError, match=r"comparability 0 of 1"):
        compare(before, after)
