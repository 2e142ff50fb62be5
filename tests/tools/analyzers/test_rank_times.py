"""Ranks and stages by a job's own timers, its step lines, and Megatron-LM's straggler report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.sources.load import load_run
from tools.views.profile import Profile

STEPS = 30
TIMERS, REPORT = "communication.rank_timers", "computation.straggler_report"
STAGES = (
    "using world size: 8, data-parallel size: 2, context-parallel size: 1, tensor-model-parallel size: 1, "
    "pipeline-model-parallel size: 4\n"
)


def answer(folder: Path, text: str, name: str = TIMERS) -> Check | None:
    (folder / "job.out").write_text(text)
    return check_of(Profile(load_run([folder])), name)


def with_timers(timers: dict[str, list[float]], step_ms: float = 1000.0) -> str:
    """Steps with the times of each rank in ms, by timer."""
    listed = "".join(
        f"  {name}:\n" + "".join(f"     rank {rank:2d}: {ms:.2f}\n" for rank, ms in enumerate(each))
        for name, each in timers.items()
    )
    return "".join(megatron((at, step_ms)) + f"times across ranks (ms):\n{listed}" for at in range(1, STEPS + 1))


def test_the_rank_whose_forward_and_backward_take_longest_holds_up_the_others(tmp_path: Path) -> None:
    """The others wait 200 ms for rank 5 where gradients are summed, so that their step is as long."""
    own, waits = [700.0] * 8, [210.0] * 8
    own[5], waits[5] = 900.0, 10.0
    check = answer(tmp_path, with_timers({"forward-backward": own, "all-grads-sync": waits}))
    assert check is not None
    (finding,) = check.findings
    assert (finding.cause, finding.ranks) == ("straggler", (5,))
    assert [fact.value for fact in finding.claim.facts] == [900.0, 700.0]
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(200.0)


@pytest.mark.parametrize("own", [[700.0] * 8, [700.0] * 5 + [900.0] * 3])
def test_ranks_that_are_alike_and_several_long_ones_name_no_rank(tmp_path: Path, own: list[float]) -> None:
    check = answer(tmp_path, with_timers({"forward-backward": own}))
    assert check is not None
    assert (check.status, check.findings) == ("clean", ())


def test_a_timer_of_waiting_names_no_rank(tmp_path: Path) -> None:
    assert answer(tmp_path, with_timers({"all-grads-sync": [10.0] * 7 + [500.0]})) is None


def test_one_long_step_names_no_rank(tmp_path: Path) -> None:
    usual = with_timers({"forward-backward": [700.0] * 4})
    one = usual.replace("rank  3: 700.00", "rank  3: 9000.00", 20).replace("rank  3: 9000.00", "rank  3: 700.00", 19)
    check = answer(tmp_path, one)
    assert check is not None
    assert check.status == "clean"


def test_a_stage_that_computes_longer_is_named_where_the_pipeline_is_stated(tmp_path: Path) -> None:
    forward, backward = [100.0] * 6 + [200.0] * 2, [200.0] * 6 + [400.0] * 2
    timers = with_timers({"forward-compute": forward, "backward-compute": backward, "forward-backward": [900.0] * 8})
    check = answer(tmp_path, STAGES + timers)
    assert check is not None
    (finding,) = check.findings
    assert (finding.cause, finding.ranks) == ("pipeline_imbalance", (6, 7))
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([600.0, 375.0])
    assert finding.claim.template.startswith("Pipeline stage 3 (ranks 6, 7)")


def test_forward_and_backward_of_a_pipeline_hold_waits_and_name_no_rank(tmp_path: Path) -> None:
    assert answer(tmp_path, STAGES + with_timers({"forward-backward": [700.0] * 7 + [900.0]})) is None


def test_a_rank_whose_own_lines_state_longer_steps_is_named(tmp_path: Path) -> None:
    def lines(each: list[float]) -> str:
        steps = range(1, STEPS + 1)
        return "".join(f"{rank}: step {at} step_time: {ms} ms\n" for at in steps for rank, ms in enumerate(each))

    check = answer(tmp_path, lines([100.0, 101.0, 160.0, 99.0]))
    assert check is not None
    assert (check.status, check.findings) == ("found", ())
    assert check.support[0].template.startswith("Rank 2 takes {0} per step by its own lines")
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([160.0, 100.0])
    assert answer(tmp_path, lines([160.0, 160.2, 160.1, 160.0])) is None


def report(slowest: int, clock_mhz: float, first_ms: float = 1010.0) -> str:
    line = (
        f"[2026-08-22 15:22:23] | MnRtt/Rnk: {first_ms:.2f}ms/12 | MxRtt/Rnk: 1147.00ms/{slowest} | "
        f"MnPwr/Rnk: 412.00W/{slowest} | MxPwr/Rnk: 690.00W/1 | MnTmp/Rnk: 44.00C/3 | MxTmp/Rnk: 86.00C/{slowest} | "
        "MnUtl/Rnk: 97.00%/1 | "
        f"MxUtl/Rnk: 100.00%/2 | MnClk/Rnk: {clock_mhz:.2f}MHz/{slowest} | MxClk/Rnk: 1980.00MHz/0 | "
        f"MnDRtt/Rnk: 0.01us/2 | MxDRtt/Rnk: 0.02us/5 | MnEtpt/Rnk: 350.00TF/{slowest} | MxEtpt/Rnk: 430.00TF/3\n"
    )
    return "".join(megatron((at, 1150.0)) + line for at in range(1, STEPS + 1))


def test_the_slowest_rank_of_the_straggler_report_has_a_low_clock(tmp_path: Path) -> None:
    check = answer(tmp_path, report(7, 1245.0), REPORT)
    assert check is not None
    (finding,) = check.findings
    assert (finding.cause, finding.mechanism, finding.ranks) == ("slow_device", "down_clock", (7,))
    values = [fact.value for fact in finding.claim.facts]
    assert values == [30.0, 1147.0, 1010.0, 1245.0, 1980.0, 44.0, 86.0, 412.0, 690.0]
    assert "rank 7 is the slowest" in finding.claim.template


def test_a_clock_that_a_power_limit_lowers_is_no_slow_device(tmp_path: Path) -> None:
    check = answer(tmp_path, report(7, 1800.0), REPORT)
    assert check is not None
    assert (check.status, check.findings) == ("found", ())


def test_ranks_that_take_turns_in_the_straggler_report_are_alike(tmp_path: Path) -> None:
    lines = [report(at % 4, 1900.0).splitlines(keepends=True)[2 * at : 2 * at + 2] for at in range(STEPS)]
    check = answer(tmp_path, "".join(line for each in lines for line in each), REPORT)
    assert check is not None
    assert check.status == "clean"
    near = answer(tmp_path, report(7, 1245.0, first_ms=1140.0), REPORT)
    assert near is not None
    assert near.status == "clean"
