"""Text from standard input in place of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.cli.commands import ask, diagnose
from hermes_agent.locations.paste import pasted, question_in, seen, taken_apart
from hermes_agent.locations.places import by_origin, origin
from tests.hermes_agent.cli.execution import execute
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.utilisation import outputs
from tools.errors import InputError
from tools.run.first_printed import PASTED_LOG, PASTED_TABLES, sampled_before_steps
from tools.sources.load import load_run

TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 535.183.01    Driver Version: 535.183.01    CUDA Version: 12.2    |
|-------------------------------+----------------------+----------------------+
|   0  NVIDIA H100 80GB    On   | 00000000:00:0A.0 Off |                    0 |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
"""
LIGHTNING_ROW = "|  run_training_epoch  |  98.5  |  1  |  98.5  |  98.0  |\n"
STEPS = megatron(*((step, 1000.0 + step) for step in range(1, 21)))
BYTES = st.lists(st.sampled_from([line.encode() + b"\n" for line in (TABLE + LIGHTNING_ROW + "text").split("\n")]))


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_device_table_is_taken_out_of_a_paste_and_lines_keep_their_numbers() -> None:
    log, tables = (part.decode().split("\n") for part in taken_apart((STEPS + TABLE + LIGHTNING_ROW).encode()))
    assert len(log) == len(tables)
    assert "NVIDIA-SMI" in tables[21]
    assert "No running processes" in tables[27]
    assert [line for line in log if line] == [*STEPS.splitlines()]
    apart = "text\n" + LIGHTNING_ROW + "text\n"
    assert taken_apart(apart.encode()) == (apart.encode(), b"")


@given(lines=BYTES)
def test_every_line_of_a_paste_is_in_one_of_its_parts(lines: list[bytes]) -> None:
    data = b"".join(lines)
    parts = [part.split(b"\n") for part in taken_apart(data)]
    if parts[1] == [b""]:
        assert parts[0] == data.split(b"\n")
    else:
        assert [one or other for one, other in zip(*parts, strict=True)] == data.split(b"\n")


def test_a_paste_is_a_folder_of_the_cache_with_a_file_for_each_reader(tmp_path: Path) -> None:
    folder = pasted((STEPS + TABLE).encode(), tmp_path)
    assert sorted(file.name for file in folder.iterdir()) == sorted((PASTED_LOG, PASTED_TABLES))
    assert origin(folder) == "pasted text"
    assert pasted((STEPS + TABLE).encode(), tmp_path) == folder
    with pytest.raises(InputError, match="holds nothing that a reader knows"):
        pasted(b"hello\n", tmp_path)


@pytest.mark.parametrize(("text", "before"), [(outputs.TABLE + STEPS, True), (STEPS + outputs.TABLE, False)])
def test_a_device_table_of_a_paste_stands_before_the_first_step_by_its_lines(
    text: str, before: bool, tmp_path: Path
) -> None:
    run = load_run([pasted(text.encode(), tmp_path)])
    assert bool(sampled_before_steps(run)) == before


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("how long is a step?\n" + STEPS, "how long is a step?"),
        (STEPS + "\nhow long is a step?\n", "how long is a step?"),
        (STEPS, ""),
        ("really?\n" + STEPS, ""),
    ],
)
def test_the_question_may_stand_before_or_behind_the_paste(text: str, asked: str) -> None:
    assert question_in(text.encode()) == asked


@pytest.mark.usefixtures("commands_cache")
@pytest.mark.parametrize(("words", "asked"), [(["-", "how long is a step?"], ""), (["-"], "how long is a step?\n")])
def test_a_question_is_answered_from_a_paste(
    words: list[str], asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps 3 to 20 take 1,003 to 1,020 ms; the first tenth is left out as warm-up."""
    typed(monkeypatch, STEPS + TABLE + asked)
    assert execute(ask, *words) == 0
    assert "1012 ms" in capsys.readouterr().out


@pytest.mark.usefixtures("commands_cache")
def test_a_paste_is_diagnosed_and_an_empty_one_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, STEPS)
    assert execute(diagnose, "-") == 0
    assert capsys.readouterr().out.startswith("pasted.log · ranks not stated · 20 steps · no trace")
    typed(monkeypatch, " \n")
    with pytest.raises(InputError, match="nothing was pasted"):
        execute(diagnose, "-")


@pytest.mark.usefixtures("commands_cache")
def test_a_document_that_is_pasted_is_read_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,319 s over 1,000 steps are 1,319 ms each."""
    state = {"train_runtime": 1319.0, "train_samples_per_second": 14.45, "train_steps_per_second": 0.758}
    history = [{"loss": 1.0, "step": 500}, {"step": 1000, "total_flos": 1.0, "train_loss": 1.0, **state}]
    typed(monkeypatch, json.dumps({"global_step": 1000, "max_steps": 1000, "log_history": history}))
    assert execute(ask, "-", "how long did a step take?") == 0
    assert "1319 ms" in capsys.readouterr().out


@pytest.mark.usefixtures("commands_cache")
def test_a_paste_that_cannot_be_read_is_not_named_by_its_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, '{"rows": [1, 2]}')
    with pytest.raises(InputError) as error:
        execute(diagnose, "-")
    assert by_origin(str(error.value)).startswith("pasted text")
    assert "fetched" not in by_origin(str(error.value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NCCL is slow on my machines\n", "1 line of NCCL"),
        ("we are at step 5 of the training\n", "1 line with a step"),
        ("Batch [7] of an epoch\nepoch 1, batch: 7/100\n", "2 lines with a step"),
        ("it took 3 s to load\nand 4 s to save\n", "2 lines with a time"),
    ],
)
def test_a_refused_paste_says_what_it_holds_and_what_is_missing(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        pasted(text.encode(), tmp_path)


@pytest.mark.parametrize("text", [b"Syncing run [Training][batch:256]\n", b"batch: -1\nimgsz: 640\n", b"batch=16\n"])
def test_the_size_of_a_batch_is_no_step(text: bytes) -> None:
    assert seen(text) == ""
