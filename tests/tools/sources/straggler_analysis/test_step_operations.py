"""Tables of step operations: steps, slowed workers and stages of made-up pipelines, published ones, damaged files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.real_runs import real_profile
from tests.tools.whatif.planners.test_straggler import step
from tools.analyzers.registry import check_of
from tools.errors import InputError
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.sources.formats import Anchor, FolderFiles
from tools.sources.load import load_run
from tools.sources.straggler_analysis.reader import read_operations
from tools.sources.straggler_analysis.source import STEP_OPERATIONS
from tools.views.profile import Profile


def table(rows: list[dict[str, object]], steps: tuple[int, ...] = (5, 6)) -> pd.DataFrame:
    frame = pd.concat([pd.DataFrame(rows).assign(step=number) for number in steps], ignore_index=True)
    frame["start_ts"], frame["duration"] = frame.pop("start_ms") / 1e3, frame.pop("duration_ms") / 1e3
    return frame


def written(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_parquet(path, index=False)
    return path


def answer(profile: Profile) -> Check:
    found = check_of(profile, "pipeline.operations")
    assert found is not None
    return found


def every_stage_1_slow() -> list[dict[str, object]]:
    """Both data-parallel ranks of stage 1 compute three times as long: those of the second are copies of the first."""
    first = [row for row in step() if row["dp_rank"] == 0]
    return first + [{**row, "dp_rank": 1, "rank": {0: 1, 2: 3}[int(str(row["rank"]))]} for row in first]


def test_a_step_ends_with_the_last_operation_of_any_rank(tmp_path: Path) -> None:
    """10 + 1 ms until the slow worker has its input, 90 + 1 + 90 of its own, 1 + 20 behind it, 4 at the end."""
    run = load_run([written(tmp_path / "anything.bin", table(step()))])
    assert run.operations is not None
    assert run.ranks == ()
    assert run.operations.steps["wall_ms"].tolist() == pytest.approx(8 * [217.0])
    assert (run.layout.data_parallel, run.layout.pipeline_parallel, run.layout.world_size) == (2, 2, None)


def test_a_slow_worker_is_a_straggler_with_its_place(tmp_path: Path) -> None:
    profile = Profile(load_run([written(tmp_path / "t.parquet", table(step()))]))
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.ranks) == ("straggler", (2,))
    assert "pipeline stage 1, data-parallel rank 0" in finding.claim.template
    own, every = finding.details[1].facts
    assert own.value == pytest.approx(180.0)  # two micro-batches of 30 + 60 ms
    assert every.value == pytest.approx((3 * 60.0 + 180.0) / 4)
    assert ranking(profile).causes[0].finding.cause == "straggler"


def test_a_slow_stage_is_unbalanced_with_all_of_its_ranks(tmp_path: Path) -> None:
    profile = Profile(load_run([written(tmp_path / "t.parquet", table(every_stage_1_slow()))]))
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.ranks) == ("pipeline_imbalance", (2, 3))
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([180.0, 120.0])
    step_ms, ideal_ms = (measure(profile, "replayed_step_ms", ideal=each).value for each in ("nothing", "everything"))
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(step_ms - ideal_ms)  # what is moved away others compute


def test_equal_workers_are_clean_and_incomplete_steps_not_judged(tmp_path: Path) -> None:
    equal = Profile(load_run([written(tmp_path / "e.parquet", table(step(factor=1.0)))]))
    assert answer(equal).status == "clean"
    assert ranking(equal).causes == ()
    lacking = Profile(load_run([written(tmp_path / "l.parquet", table(step()).drop(index=3))]))
    assert answer(lacking).status == "cannot_answer"
    assert "same operations" in answer(lacking).reason


@pytest.mark.parametrize(
    ("name", "slowdown", "original_ms", "ideal_ms", "cause", "ranks"),
    [
        ("AR", 1.973, 46336.4, 23484.7, "straggler", (0,)),
        ("ST", 1.1787, 2172.7, 1843.3, "pipeline_imbalance", (6, 7)),
    ],
)
def test_published_trials_give_the_published_results(
    traces: Path, name: str, slowdown: float, original_ms: float, ideal_ms: float, cause: str, ranks: tuple[int, ...]
) -> None:
    profile = real_profile(traces / "straggler_analysis" / f"trace-{name}.parquet")
    assert measure(profile, "operations_slowdown").value == pytest.approx(slowdown, abs=5e-4)
    replayed = [measure(profile, "replayed_step_ms", ideal=each).value for each in ("nothing", "everything")]
    assert replayed == pytest.approx([original_ms, ideal_ms], rel=1e-5)
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.ranks) == (cause, ranks)


def test_other_columns_and_cut_files_are_one_sentence(tmp_path: Path) -> None:
    whole = written(tmp_path / "t.parquet", table(step())).read_bytes()
    other = written(tmp_path / "other.parquet", pd.DataFrame({"text": ["a"]}))
    with pytest.raises(InputError, match=r"other\.parquet"):
        load_run([other])
    for end in range(0, len(whole), 97):
        (tmp_path / "t.parquet").write_bytes(whole[:end])
        read = STEP_OPERATIONS.read([FolderFiles(STEP_OPERATIONS, tmp_path, (tmp_path / "t.parquet",))], Anchor())
        assert read.operations is None
        assert [source.status for source in read.sources] == ["excluded"]
        assert "t.parquet" in read.notes[0]


@pytest.mark.parametrize(
    ("column", "value", "wrong"),
    [
        ("duration", -1.0, "no duration negative"),
        ("start_ts", float("nan"), "to be numbers"),
        ("rank", -1, "0 or more"),
    ],
)
def test_impossible_values_are_refused(tmp_path: Path, column: str, value: float, wrong: str) -> None:
    file = BytesIO()
    table(step()).assign(**{column: value}).to_parquet(file, index=False)
    (tmp_path / "t.parquet").write_bytes(file.getvalue())
    with pytest.raises(InputError, match=wrong):
        load_run([tmp_path / "t.parquet"])


@pytest.mark.parametrize("column", ["optype", "step"])
def test_a_long_text_in_every_row_is_refused_before_it_is_unpacked(tmp_path: Path, column: str) -> None:
    """A dictionary holds it once in the file."""
    rows = pd.concat([table(step())] * 100, ignore_index=True)
    names = pa.DictionaryArray.from_arrays(np.zeros(len(rows), dtype="int32"), pa.array(["x" * 100_000]))
    whole = pa.Table.from_pandas(rows.drop(columns=column), preserve_index=False).append_column(column, names)
    path = tmp_path / "t.parquet"
    pq.write_table(whole.replace_schema_metadata(None), path, store_schema=False)
    assert path.stat().st_size < 1 << 20
    wrong = "at most 200 characters" if column == "optype" else "the columns step have to be numbers"
    with pytest.raises(InputError, match=wrong):
        read_operations(path)
