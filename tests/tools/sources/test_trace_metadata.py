"""What a trace says of itself is taken as text that can be written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.errors import InputError
from tools.sources.inventory import take_inventory
from tools.sources.kineto.decode import parse_lenient, parse_members
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions


def test_halves_of_surrogate_pairs_are_replaced_and_whole_pairs_kept() -> None:
    assert parse_members(b'{"a": "x\\ud800y", "b": ["\\ud83d\\ude00"]}') == {"a": "x?y", "b": ["😀"]}
    assert parse_lenient('{"\\uDFFF": 1.5}') == {"?": 1.5}


def test_a_trace_with_half_a_character_in_its_metadata_is_read_and_cached(tmp_path: Path) -> None:
    trace = write_trace(
        tmp_path / "rank0.json",
        [span("op", 0, 10)],
        distributedInfo=rank_info(0, backend="nccl\ud800"),
        deviceProperties='[{"id": 0, "name": "GPU\\ud800"}]',
    )

    run = load_run([trace], LoadOptions(workers=1, cache_dir=tmp_path / "cache"))

    assert run.layout.backend == "nccl?"
    assert run.ranks[0].devices[0].name == "GPU?"
    assert len(list((tmp_path / "cache").glob("*.run"))) == 1


def test_white_space_before_a_trace_is_passed_over_whatever_its_length(tmp_path: Path) -> None:
    trace = tmp_path / "rank0.json"
    write_trace(trace, [span("op", 0, 10)])
    trace.write_bytes(b" " * 5_000_000 + trace.read_bytes())

    run = load_run([trace], LoadOptions(workers=1, limits=Limits(metadata_bytes=1_000_000)))

    assert len(run.ranks[0].events) == 1


def test_a_path_that_no_file_can_have_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        take_inventory([Path("x" * 5000)], Limits())
