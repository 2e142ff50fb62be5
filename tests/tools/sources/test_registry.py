"""A source declares itself: the inventory, the loader and the copies from a URL take it from its declaration."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import span, write_trace
from tools.errors import InputError
from tools.run.model import Source
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat
from tools.sources.inventory import is_run_file, take_inventory
from tools.sources.load import load_run
from tools.sources.options import Limits
from tools.sources.registry import RECORDS, TRACES, trace_format

REPOSITORY = Path(__file__).resolve().parents[3]


def read_switches(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    files = [file for each in found for file in each.files]
    pairs = (line.partition("=") for file in files for line in file.read_text().splitlines())
    sources = tuple(Source(file, "switches", anchor.ranks, "complete") for file in files)
    return Contribution(variables={name: value for name, _, value in pairs}, sources=sources, notes=("switches read",))


SWITCHES = RecordFormat("switches", re.compile(r".+\.switches\Z"), read_switches, folder="switches", makes_run=False)


def test_a_declared_format_is_listed_and_read_next_to_the_traces(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", [span("aten::mm", 10, 90)])
    (tmp_path / "switches").mkdir()
    own = tmp_path / "switches" / "node0.switches"
    own.write_text("NCCL_ALGO=Ring")

    formats = (*RECORDS, SWITCHES)
    found = take_inventory([tmp_path], Limits(), formats)
    assert found.files == (tmp_path / "rank0.json", own)
    run = load_run([tmp_path], formats=formats)

    assert run.ranks[0].metadata["NCCL_ALGO"] == "Ring"
    assert [(source.format, source.ranks) for source in run.sources] == [("kineto", (0,)), ("switches", (0,))]
    assert "switches read" in run.notes


def test_a_format_that_makes_no_run_is_none_by_itself(tmp_path: Path) -> None:
    (tmp_path / "switches").mkdir()
    (tmp_path / "switches" / "node0.switches").write_text("NCCL_ALGO=Ring")
    with pytest.raises(InputError, match="no trace there"):
        take_inventory([tmp_path], Limits(), (*RECORDS, SWITCHES))


def test_formats_have_names_of_their_own() -> None:
    names = [*(each.name for each in TRACES), *(each.name for each in RECORDS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("folder", "name", "known"),
    [
        ("", "steps_rank0.jsonl", True),
        ("", "steps_rank0.jsonl.gz", True),
        ("", "env.json", True),
        ("", "rank0.pt.trace.json.gz", True),
        ("", "rank00000-1-2.steps", False),
        ("", "train.py", False),
        ("monitor", "rank00000-1-2.steps", True),
        ("monitor", "rank00000-1-2.events.jsonl.gz", True),
        ("monitor", "anomalies-node0.jsonl", True),
        ("monitor", "agent-node0.json", False),
        ("capture-0001", "rank3.pt.trace.json.gz", True),
        ("capture-0001", "notes.txt", False),
    ],
)
def test_a_file_of_a_run_is_one_that_a_reader_knows(folder: str, name: str, known: bool) -> None:
    assert is_run_file(folder, name) is known


@pytest.mark.parametrize("start", [b'{"traceEvents"', b"[{", b"\xef\xbb\xbf {", b"\x1f\x8b\x08", b"", b"no trace"])
def test_every_file_gets_a_reader_which_says_why_it_cannot_read_it(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(start)
    assert trace_format(path).name == "kineto"


def test_files_are_listed_without_pandas() -> None:
    text = "import sys, tools.sources.inventory; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], cwd=REPOSITORY, check=False).returncode == 0
