from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.suite.case_schema import Measured, RunRef
from evals.suite.labels import recorded_cases
from evals.suite.run_places import Places, check_label, locate, missing_folder
from tools.errors import InputError

LABEL: dict[str, Any] = {
    "verdict": "problem",
    "cause": "garbage_collection",
    "mechanism": "",
    "also_right": [{"cause": "straggler", "reason": "one rank only"}],
    "ranks": [1],
    "steps": "every eighth",
    "symptoms": [{"cause": "straggler", "ranks": [0]}],
    "not_causes": ["slow_link"],
    "must_name": ["rank 1"],
    "injected": "a large heap on rank 1",
    "workload": "images",
    "strength": "mild",
    "split": "dev",
}
PAIR = {
    "before_ms": {"median": 90.0, "low": 88.0, "high": 92.0},
    "after_ms": {"median": 60.0, "low": 59.0, "high": 61.0},
    "speedup": {"median": 1.5, "low": 1.45, "high": 1.55},
    "statistic": "mean",
}


def _recorded(lab: Path, place: str, label: dict[str, Any], pair: dict[str, Any] | None = None) -> Path:
    folder = lab / place
    for side in ("slow", "fixed", "run"):
        (folder / side).mkdir(parents=True, exist_ok=True)
    (folder / "label.json").write_text(json.dumps(label), encoding="utf-8")
    (folder / "measured.json").write_text(json.dumps(pair or PAIR), encoding="utf-8")
    return folder


def test_a_label_makes_a_slow_a_mended_and_a_compared_case(tmp_path: Path) -> None:
    _recorded(tmp_path, "heap_one_rank/images-mild", LABEL)
    slow, fixed, compared = recorded_cases((tmp_path,), "lab")
    assert (slow.id, fixed.id, compared.id) == (
        "lab-heap-one-rank-images-mild",
        "lab-heap-one-rank-images-mild-fixed",
        "lab-heap-one-rank-images-mild-compared",
    )
    assert slow.expected.causes == ("garbage_collection",)
    assert slow.expected.accepted == ("garbage_collection", "straggler")
    assert (slow.expected.ranks, slow.expected.names, slow.tags.kind) == ((1,), ("rank 1",), "masked")
    assert (slow.tags.split, slow.tags.fault, slow.tags.difficulty) == ("dev", "heap_one_rank", "hard")
    assert (fixed.expected.verdict, fixed.tags.kind) == (("healthy", "inconclusive"), "healthy"), "no monitor records"
    assert fixed.expected.not_causes == ("garbage_collection",)
    assert compared.baseline is not None
    assert compared.baseline.lab == "heap_one_rank/images-mild/slow"


def test_the_split_comes_from_the_label_and_a_fixed_run_need_not_be_healthy(tmp_path: Path) -> None:
    label = {**LABEL, "split": "test", "workload": "tokens", "fixed_verdict": "unlabelled"}
    _recorded(tmp_path, "heap_one_rank/tokens-strong", label)
    slow, fixed, _ = recorded_cases((tmp_path,), "lab")
    assert slow.tags.split == "test"
    assert (fixed.tags.kind, fixed.expected.verdict) == ("unlabelled", ())


def test_a_healthy_recording_is_one_case_that_must_stay_healthy(tmp_path: Path) -> None:
    _recorded(tmp_path, "healthy/images-large", {"verdict": "healthy", "workload": "images", "split": "test"})
    (only,) = recorded_cases((tmp_path,), "lab")
    assert (only.id, only.tags.kind, only.tags.split) == ("lab-healthy-images-large", "healthy", "test")
    assert only.run.lab == "healthy/images-large/run"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cause": "slow_network"}, "not a cause of the taxonomy"),
        ({"cause": None}, "without its cause"),
        ({"split": "train"}, "split"),
        ({"verdict": "broken"}, "verdict"),
    ],
)
def test_a_label_that_cannot_be_right_is_an_error_that_names_its_file(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    _recorded(tmp_path, "fault/images-mild", {**LABEL, **change})
    with pytest.raises(InputError, match=said) as caught:
        recorded_cases((tmp_path,), "lab")
    assert "label.json" in str(caught.value)


def test_the_same_recording_in_two_folders_counts_once_and_the_first_folder_is_read(tmp_path: Path) -> None:
    for name in ("first", "second"):
        _recorded(tmp_path / name, "fault/images-mild", LABEL)
    folders = (tmp_path / "first", tmp_path / "second")
    assert len(recorded_cases(folders, "lab")) == 3
    located = locate(RunRef(lab="fault/images-mild/slow"), Places(tmp_path, folders), tmp_path / "scratch")
    assert located.path == tmp_path / "first" / "fault/images-mild/slow"
    assert located.measured == Measured(
        before_ms=90, after_ms=60, speedup_low=1.45, speedup_high=1.55, statistic="mean"
    )


def test_a_saving_within_its_noise_is_no_label(tmp_path: Path) -> None:
    noisy = {**PAIR, "speedup": {"median": 1.5, "low": 0.98, "high": 1.9}}
    _recorded(tmp_path, "fault/images-mild", LABEL, noisy)
    slow = recorded_cases((tmp_path,), "lab")[0]
    located = locate(slow.run, Places(tmp_path, (tmp_path,)), tmp_path / "scratch")
    with pytest.raises(InputError, match="within the noise"):
        check_label(slow, located.measured)


def test_a_lab_folder_that_was_named_and_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="HERMES_LAB"):
        Places.from_environment({"HERMES_LAB": str(tmp_path / "nowhere")})


def test_a_recording_without_its_label_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    _recorded(tmp_path, "fault/images-mild", LABEL, PAIR)
    (tmp_path / "fault/images-mild/label.json").unlink()
    with pytest.raises(InputError, match=r"fault/images-mild is a recording without label\.json"):
        recorded_cases((tmp_path,), "lab")


def test_of_folders_that_were_named_the_runs_they_lack_are_skipped_and_told(tmp_path: Path) -> None:
    _recorded(tmp_path, "fault/images-mild", LABEL, PAIR)
    (slow, *_) = recorded_cases((tmp_path,), "lab")
    elsewhere = slow.model_copy(update={"run": RunRef(lab="other/images-mild/slow")})
    named = Places.from_environment({"HERMES_LAB": str(tmp_path)})
    assert missing_folder(slow, named) == ""
    assert (
        missing_folder(elsewhere, named) == "other/images-mild/slow is not among the recordings that HERMES_LAB names"
    )
    assert missing_folder(elsewhere, Places(tmp_path, (tmp_path,))) == ""


def _with_sources(run: Path) -> None:
    (run / "monitor").mkdir(parents=True, exist_ok=True)
    names = ("rank0.pt.trace.json.gz", "steps_rank0.jsonl.gz", "env.json", "run.json", "monitor/rank0.steps.bin")
    for name in names:
        (run / name).write_bytes(b"")


def test_a_run_is_judged_with_everything_with_each_of_its_sources_alone_and_with_pairs_of_them(tmp_path: Path) -> None:
    folder = _recorded(tmp_path, "heap_one_rank/images-mild", {**LABEL, "sources": ["monitor"]})
    _with_sources(folder / "slow")
    _with_sources(folder / "fixed")
    fixed = next(case for case in recorded_cases((tmp_path,), "lab") if case.id.endswith("fixed"))
    assert (fixed.id[-5:], fixed.expected.verdict) == ("fixed", ("healthy",)), "its monitor shows the host"
    cases = {case.tags.sources: case for case in recorded_cases((tmp_path,), "lab") if case.tags.kind == "masked"}
    assert set(cases) == {"all", "traces", "log", "records", "traces+log", "traces+records", "log+records"}
    assert {case.tags.run for case in cases.values()} == {"lab-heap-one-rank-images-mild"}
    assert cases["log"].id == "lab-heap-one-rank-images-mild-log"
    assert (cases["records"].expected.verdict, cases["records"].expected.may_abstain) == (("problem",), False)
    assert (cases["log"].expected.verdict, cases["log"].expected.may_abstain) == (("problem", "inconclusive"), True)
    assert cases["log+records"].id == "lab-heap-one-rank-images-mild-log-records"
    assert cases["log+records"].expected.verdict == ("problem",), "its records show the fault"
    assert cases["traces+log"].expected.verdict == ("problem", "inconclusive")
    located = locate(cases["records"].run, Places(tmp_path, (tmp_path,)), tmp_path / "scratch")
    assert _names(located.path) == {"env.json", "monitor/rank0.steps.bin"}
    assert located.measured is not None
    both = locate(cases["traces+log"].run, Places(tmp_path, (tmp_path,)), tmp_path / "both")
    assert _names(both.path) == {"rank0.pt.trace.json.gz", "steps_rank0.jsonl.gz"}


def _names(run: Path) -> set[str]:
    return {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()}


def test_a_run_with_one_source_is_judged_once(tmp_path: Path) -> None:
    folder = _recorded(tmp_path, "heap_one_rank/images-mild", LABEL)
    (folder / "slow" / "rank0.pt.trace.json.gz").write_bytes(b"")
    assert len(recorded_cases((tmp_path,), "lab")) == 3


def test_a_pair_of_two_causes_in_other_habits_expects_both(tmp_path: Path) -> None:
    two = {**LABEL, "cause": "garbage_collection", "all_of": ["garbage_collection", "checkpoint_stall"]}
    _recorded(tmp_path, "recommender-two", {**two, "only_causes": ["cpu_contention"], "split": "test"})
    slow, fixed, _ = recorded_cases((tmp_path,), "habits")
    assert (slow.id, slow.run.habits, slow.tags.source) == (
        "habits-recommender-two",
        "recommender-two/slow",
        "habits",
    )
    assert slow.expected.all_of == ("garbage_collection", "checkpoint_stall")
    assert (slow.tags.kind, slow.tags.split) == ("two_causes", "test")
    assert fixed.expected.only_causes == ("cpu_contention",)
    assert fixed.expected.not_causes == ("garbage_collection", "checkpoint_stall")


def test_of_a_log_that_no_reader_knows_nothing_is_asked(tmp_path: Path) -> None:
    folder = _recorded(tmp_path, "evaluation", {**LABEL, "sources": ["trace", "steps"]})
    for name in ("rank0.pt.trace.json.gz", "train.log"):
        (folder / "slow" / name).write_bytes(b"")
    cases = {case.tags.sources: case.expected for case in recorded_cases((tmp_path,), "habits")[:3]}
    assert cases["log"].may_abstain
    assert (cases["traces"].verdict, cases["traces"].may_abstain) == (("problem",), False)
