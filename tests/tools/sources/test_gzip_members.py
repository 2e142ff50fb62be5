"""Gzip files of many members: read whole, and only up to a bound."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.sources.kineto_text import span, trace_text
from tools.errors import InputError
from tools.run.kinds import STEP_LOG_FORMAT
from tools.sources.decompress import PIECE_BYTES, Expansion
from tools.sources.load import load_run
from tools.sources.options import Limits

EMPTY = gzip.compress(b"", mtime=0)


def expanded(path: Path, limits: Limits | None = None) -> bytes:
    expansion = Expansion(path, limits or Limits())
    text = b"".join(expansion)
    assert expansion.damage == ""
    return text


@given(st.lists(st.tuples(st.sampled_from([0, 1, 511, 70_000, PIECE_BYTES + 7]), st.sampled_from([0, 1, 9]))))
def test_members_of_any_size_are_one_text(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[int, int]]
) -> None:
    texts = [bytes(i * i % 251 for i in range(size % 1009)) * (size // 1009 + 1) for size, _ in members]
    path = tmp_path_factory.mktemp("members") / "trace.json.gz"
    packed = (gzip.compress(text, level) for text, (_, level) in zip(texts, members, strict=True))
    path.write_bytes(EMPTY + b"".join(packed))
    assert expanded(path) == b"".join(texts)


def test_members_up_to_the_bound_are_read_however_small(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json.gz"
    path.write_bytes(EMPTY * 200_000 + gzip.compress(b"text"))  # quadratic reading would not come to an end
    assert expanded(path) == b"text"


def test_a_million_members_are_refused_and_those_before_the_bound_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json.gz"
    path.write_bytes(EMPTY * 1_000_000)
    with pytest.raises(InputError, match=r"rank0.json.gz: is made of more than 262,144 gzip members"):
        load_run([tmp_path])
    text = trace_text([span("ProfilerStep#1", 0, 50), span("op", 10, 20)]).encode()
    path.write_bytes(EMPTY * 1000 + gzip.compress(text) + EMPTY * 1000)
    assert load_run([tmp_path]).sources[0].status == "complete"


def test_a_step_log_of_too_many_members_is_left_out_with_a_note(tmp_path: Path) -> None:
    line = gzip.compress(b'{"step": 1, "wall_ms": 2.0}\n', mtime=0)
    (tmp_path / "steps_rank0.jsonl.gz").write_bytes(line + EMPTY * 300_000)
    (tmp_path / "rank0.json").write_text(trace_text([span("ProfilerStep#1", 0, 50), span("op", 10, 20)]))
    run = load_run([tmp_path])
    [log] = [source for source in run.sources if source.format == STEP_LOG_FORMAT]
    assert log.status == "partial"
    assert "what follows was left out" in log.note


def test_expanding_stops_after_its_processor_time(tmp_path: Path) -> None:
    path = tmp_path / "slow.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(InputError, match=r"takes more than 0 s of a processor to expand"):
        expanded(path, Limits(expand_s=0.0))
