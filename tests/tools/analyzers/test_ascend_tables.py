"""What the tables of an Ascend profiler answer, with and without a timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.sources.ascend.ascend_files import (
    KERNEL_HEAD,
    collective,
    communication,
    kernel_line,
    step_csv,
    transport,
    write_folder,
)
from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import check_of
from tools.errors import UsageError
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile


def answer(profile: Profile, name: str) -> Check:
    found = check_of(profile, name)
    assert found is not None
    return found


def profile_of(run: Path, rank_files: dict[int, dict[str, str]], stages: tuple[tuple[int, ...], ...] = ()) -> Profile:
    for rank, files in rank_files.items():
        output = write_folder(run, rank, stages)
        for name, text in files.items():
            (output / name).write_text(text)
    return Profile(load_run([run]))


def accounts(*times_us: tuple[float, float, float]) -> dict[int, dict[str, str]]:
    return {rank: {"steps.csv": step_csv(*each)} for rank, each in enumerate(times_us)}


def test_the_heavier_of_two_stages_is_found_with_what_balance_saves(tmp_path: Path) -> None:
    """Stages of 2,000 and 4,000 us, the mean 3,000: 1 of a step of 8 ms."""
    light, heavy = (2000.0, 5000.0, 1000.0), (4000.0, 3000.0, 1000.0)
    profile = profile_of(tmp_path, accounts(light, light, heavy, heavy), ((0, 1), (2, 3)))
    (finding,) = answer(profile, "pipeline.account").findings
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([4.0, 3.0])
    assert finding.ranks == (2, 3)
    assert finding.saving is not None
    assert (finding.saving.saved_ms, finding.saving.step_ms) == pytest.approx((1.0, 8.0))
    assert ranking(profile).causes[0].finding.cause == "pipeline_imbalance"


def test_stages_that_compute_alike_are_clean_and_a_missing_stage_is_not_judged(tmp_path: Path) -> None:
    alike = (3000.0, 4000.0, 1000.0)
    assert (
        answer(profile_of(tmp_path / "a", accounts(alike, alike), ((0,), (1,))), "pipeline.account").status == "clean"
    )
    half = profile_of(tmp_path / "b", accounts(alike), ((0,), (1,)))
    assert answer(half, "pipeline.account").status == "cannot_answer"


def test_a_rank_that_is_free_while_the_others_communicate_holds_them_up(tmp_path: Path) -> None:
    """Rank 1 is 4 ms free, the others 1 ms, and all steps last 10 ms: without it a step would take 3 ms less."""
    usual, late = (1000.0, 8000.0, 1000.0), (1000.0, 5000.0, 4000.0)
    profile = profile_of(tmp_path, accounts(usual, late, usual, usual))
    (finding,) = answer(profile, "communication.account").findings
    assert (finding.cause, finding.ranks) == ("straggler", (1,))
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(3.0)
    alike = profile_of(tmp_path / "alike", accounts(usual, usual, usual))
    assert answer(alike, "communication.account").status == "clean"


def test_free_time_of_every_rank_is_a_hypothesis_only(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, accounts((1000.0, 1000.0, 2000.0), (1000.0, 500.0, 2500.0)))
    (finding,) = answer(profile, "cpu.account").findings
    assert finding.claim.facts[0].value == pytest.approx(50.0)
    assert finding.confidence == 0.45
    busy = profile_of(tmp_path / "busy", accounts((3000.0, 950.0, 50.0)))
    assert answer(busy, "cpu.account").status == "clean"


KERNELS = (
    KERNEL_HEAD
    + kernel_line("MatMul1", "MatMulV2", "AI_CORE", 500.0, 0.9, 0.3)
    + kernel_line("Add1", "Add", "AI_VECTOR_CORE", 100.0, 0.0, 0.0, 0.2, 0.95)
    + kernel_line("Mul1", "Mul", "AI_VECTOR_CORE", 100.0, 0.0, 0.0, 0.9, 0.95)
    + kernel_line("Slow1", "Index", "AI_VECTOR_CORE", 100.0, 0.0, 0.0, 0.1, 0.1)
    + kernel_line("trans_TransData_0", "TransData", "AI_VECTOR_CORE", 100.0, 0.0, 0.0, 0.1, 0.1)
    + kernel_line("NonZero1", "NonZero", "AI_CPU", 400.0)
    + kernel_line("Tiny", "Range", "AI_CPU", 5.0)
)


def test_kernels_on_the_ai_cpu_and_conversions_cost_their_time(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, {0: {"steps.csv": step_csv(1305.0, 0.0, 695.0), "kernels.csv": KERNELS}})
    (fallback,) = answer(profile, "computation.ai_cpu").findings
    assert fallback.mechanism == "fallback_unit"
    assert fallback.claim.facts[0].value == pytest.approx(0.4)  # the one of 5 us is not counted
    assert fallback.saving is not None
    assert fallback.saving.saved_ms == pytest.approx(0.36)
    (converted,) = answer(profile, "computation.conversion").findings
    assert converted.claim.facts[1].value == pytest.approx(100 * 100 / 1305)


def test_kernels_are_bound_by_the_unit_that_is_busy(tmp_path: Path) -> None:
    """Of 1,305 us: matrix 500, vector 100, memory 100, and 605 without a busy unit."""
    check = answer(profile_of(tmp_path, {0: {"kernels.csv": KERNELS}}), "computation.units")
    shares = [fact.value for fact in check.support[0].facts]
    assert shares == pytest.approx([100 * each / 1305 for each in (500, 100, 100, 605)])


def bounds_of(profile: Profile) -> dict[str, tuple[str, list[float]]]:
    """By operator the sentence of its limit without its name, and the figures."""
    said = (each for each in answer(profile, "computation.units").support if each.names)
    return {each.names[0]: (each.template, [fact.value for fact in each.facts]) for each in said}


def test_of_the_longest_operators_the_limit_is_named(tmp_path: Path) -> None:
    """Two kernels of one type count by their time: (0.9 * 500 + 0.5 * 100) / 600."""
    text = KERNEL_HEAD + kernel_line("MatMul2", "MatMulV2", "AI_CORE", 100.0, 0.5, 0.3)
    text += kernel_line("MatMul1", "MatMulV2", "AI_CORE", 500.0, 0.9, 0.3)
    text += kernel_line("Add1", "Add", "AI_VECTOR_CORE", 100.0, 0.0, 0.0, 0.2, 0.95)
    text += kernel_line("Slow1", "Index", "AI_VECTOR_CORE", 90.0, 0.0, 0.0, 0.1, 0.2)
    profile = profile_of(tmp_path, {0: {"kernels.csv": text}})
    bounds = bounds_of(profile)
    assert {name: figures for name, (_, figures) in bounds.items()} == {
        "MatMulV2": pytest.approx([0.6, 100 * (450 + 50) / 600]),
        "Add": pytest.approx([0.1, 95.0]),
        "Index": pytest.approx([0.09, 20.0]),
    }
    assert "compute-bound, its matrix unit" in bounds["MatMulV2"][0]
    assert "memory-bound, its memory unit" in bounds["Add"][0]
    assert "underutilised, the memory unit" in bounds["Index"][0]
    memory = measure(profile, "ascend_unit_pct", unit="memory", op_type="Add", rank=0)
    assert memory.value == pytest.approx(95.0)


def test_counted_operations_give_the_rate_and_memory_stays_open(tmp_path: Path) -> None:
    """473 GFLOP in 1,478 us with the matrix unit busy for 0.8 + 0.09 of it; 2.17 GFLOP in 1,725 us."""
    head = (
        "Name,Type,Accelerator Core,Start Time(us),Duration(us),aic_mac_fp16_ratio,aic_mac_int8_ratio,aic_cube_fops,"
        "aic_vector_fops,aiv_vec_fp32_ratio,aiv_vec_int32_ratio,aiv_vector_fops\n"
    )
    text = head + "a,MatMul,AI_CORE,1,1478,0.8,0.09,473000000000,0,0,0,0\n"
    text += "b,ApplyAdamW,AI_VECTOR_CORE,1,1725,0,0,0,0,0.21,0.02,2170000000\n"
    profile = profile_of(tmp_path, {0: {"kernels.csv": text}})
    bounds = bounds_of(profile)
    assert bounds["MatMul"][1] == pytest.approx([1.478, 89.0, 473e9 / 1478e-6 / 1e12])
    assert "compute-bound" in bounds["MatMul"][0]
    assert bounds["ApplyAdamW"][1] == pytest.approx([1.725, 23.0, 2.17e9 / 1725e-6 / 1e12])
    assert "not compute-bound" in bounds["ApplyAdamW"][0]
    assert "PipeUtilization" in answer(profile, "computation.units").support[-1].template


@pytest.mark.parametrize(("foreach_us", "status"), [(300.0, "found"), (1.0, "clean")])
def test_foreach_kernels_of_an_optimizer_could_be_fused(tmp_path: Path, foreach_us: float, status: str) -> None:
    text = KERNELS + kernel_line("ForeachAdd1", "ForeachAddList", "AI_VECTOR_CORE", foreach_us, 0.0, 0.0, 0.1, 0.4)
    profile = profile_of(tmp_path, {0: {"steps.csv": step_csv(1305.0, 0.0, 695.0), "kernels.csv": text}})
    check = answer(profile, "computation.affinity_apis")
    assert check.status == status
    assert check.support[0].facts[0].value == pytest.approx(foreach_us / 1e3)
    assert check.support[0].facts[1].value == pytest.approx(100 * foreach_us / (1305 + foreach_us))


def test_without_the_units_columns_the_level_is_named(tmp_path: Path) -> None:
    text = KERNELS.replace("aic_mac_ratio", "a").replace("aic_mte2_ratio", "b").replace("aiv_", "c_")
    check = answer(profile_of(tmp_path, {0: {"kernels.csv": text}}), "computation.units")
    assert check.status == "cannot_answer"
    assert "level 1 with aic_metrics" in check.needs
    assert answer(profile_of(tmp_path / "b", accounts((1.0, 1.0, 1.0))), "computation.ai_cpu").needs == (
        "a profile of level 1 or 2"
    )


def test_a_table_that_states_no_cores_answers_nothing_of_kernels(tmp_path: Path) -> None:
    """Without the column neither the AI CPU nor collectives are told apart: that is no zero."""
    text = KERNELS.replace("Accelerator Core", "Other")
    profile = profile_of(tmp_path, {0: {"steps.csv": step_csv(1305.0, 0.0, 695.0), "kernels.csv": text}})
    for name in ("ai_cpu", "conversion", "units", "affinity_apis"):
        check = answer(profile, f"computation.{name}")
        assert (check.status, check.needs) == ("cannot_answer", "a profile of level 1 or 2")
        assert "Accelerator Core" in check.reason
    with pytest.raises(UsageError, match="Accelerator Core"):
        measure(profile, "ascend_kernel_pct", group="conversion", rank=0)


def test_a_unit_without_a_column_is_not_idle(tmp_path: Path) -> None:
    text = KERNELS.replace("aic_mte2_ratio", "b").replace("aiv_mte2_ratio", "c")
    profile = profile_of(tmp_path, {0: {"kernels.csv": text}})
    said = answer(profile, "computation.units").support
    assert said[0].names == ("MatMulV2",)
    assert "Whether memory bounds kernels was not measured" in said[-1].template
    with pytest.raises(UsageError, match="busy time was not measured"):
        measure(profile, "ascend_kernel_pct", group="memory", rank=0)


def test_a_column_of_the_account_that_is_missing_is_no_zero(tmp_path: Path) -> None:
    text = step_csv(300.0, 400.0, 300.0).replace(",Overlapped,", ",Other,")
    profile = profile_of(tmp_path, {0: {"steps.csv": text}})
    assert measure(profile, "account_pct", part="free").value == pytest.approx(30.0)
    with pytest.raises(UsageError, match="no column for overlapped"):
        measure(profile, "account_pct", part="overlapped")


def test_collectives_without_their_times_do_not_wait(tmp_path: Path) -> None:
    said = collective(10.0, 0.5, 5.0, HCCS=transport({"32.0": (1, 1.0)}, 32.0, 1.0))
    text = json.dumps(communication(hcom_allReduce=said)).replace("Transit Time(ms)", "Other")
    files = {"steps.csv": step_csv(1000.0, 9000.0, 1000.0), "c.json": text}
    assert answer(profile_of(tmp_path, {0: files}), "communication.tabled_wait").status == "cannot_answer"


def test_a_table_of_kernels_with_another_column_is_named_where_kernels_are_asked_for(tmp_path: Path) -> None:
    text = KERNELS.replace(",Duration(us)", ",Task Duration(us)")
    files = {"steps.csv": step_csv(1305.0, 0.0, 695.0), "kernel_details.csv": text}
    profile = profile_of(tmp_path, {0: files})
    assert "columns Duration(us) are absent or renamed" in profile.run.unread
    assert "kernel_details was not read" in answer(profile, "computation.ai_cpu").reason


def talks(matrix: bool = True, **collectives: dict[str, Any]) -> dict[str, str]:
    links = communication(all={f"0-{to}": {"Transport Type": "HCCS"} | transport({}, 8.0, 1.0) for to in range(4)})
    files = {"steps.csv": step_csv(1000.0, 9000.0, 1000.0), "c.json": json.dumps(communication(**collectives))}
    return files | ({"m.json": json.dumps(links)} if matrix else {})


def test_collectives_that_wait_on_every_recorded_rank_wait_for_one_that_is_not(tmp_path: Path) -> None:
    """10 ms of which 1 ms moves bytes, on ranks 0 and 1 of the 4 that the links name."""
    said = collective(10.0, 0.5, 5.0, HCCS=transport({"32.0": (1, 1.0)}, 32.0, 1.0))
    profile = profile_of(tmp_path, {rank: talks(hcom_allReduce=said) for rank in (0, 1)})
    (finding,) = answer(profile, "communication.tabled_wait").findings
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([10.0, 9.0])
    assert "(2, 3)" in finding.claim.template
    whole = profile_of(tmp_path / "all", {rank: talks(hcom_allReduce=said) for rank in range(4)})
    assert answer(whole, "communication.tabled_wait").status == "clean"


def test_small_and_unaligned_packets_are_counted(tmp_path: Path) -> None:
    """One of two collectives moves packets of 2 MB; over HCCS 2.000001 of 66.000001 MB are no multiple of 512 bytes."""
    small = collective(1.0, 0.5, 0.0, HCCS=transport({"2.000001": (1, 0.1)}, 2.000001, 0.1))
    large = collective(1.0, 0.5, 0.0, HCCS=transport({"32.0": (2, 1.0)}, 64.0, 1.0))
    check = answer(profile_of(tmp_path, {0: talks(a=small, b=large)}), "communication.packets")
    (finding,) = check.findings
    assert finding.cause == "small_packet"
    assert finding.claim.facts[0].value == pytest.approx(50.0)
    assert finding.details[0].facts[0].value == pytest.approx(100 * 2.000001 / 66.000001)
    aligned = answer(profile_of(tmp_path / "b", {0: talks(b=large)}), "communication.packets")
    assert aligned.status == "clean"


@pytest.mark.parametrize(("least_ms", "status"), [(4500.0, "found"), (100.0, "clean")])
def test_a_retransmission_is_slow_on_every_rank_and_a_late_rank_is_not(
    tmp_path: Path, least_ms: float, status: str
) -> None:
    slow = collective(5000.0, 4200.0, 0.0, RDMA=transport({"2.0": (1, 4200.0)}, 2.0, 4200.0))
    other = collective(least_ms, 50.0, 0.0, RDMA=transport({"2.0": (1, 50.0)}, 2.0, 50.0))
    profile = profile_of(tmp_path, {0: talks(a=slow), 1: talks(a=other)})
    assert answer(profile, "communication.rdma").status == status


def test_nothing_is_asked_of_runs_without_such_tables(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(megatron(*((step, 1000.0) for step in range(1, 31))))
    profile = Profile(load_run([tmp_path]))
    names = ("step.account", "cpu.account", "computation.ai_cpu", "communication.packets", "communication.rdma")
    assert [check_of(profile, name) for name in names] == [None] * 5
