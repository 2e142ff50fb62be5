"""Samples that are cut at any byte, changed at any byte, or written as UTF-16."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.sources.utilisation import outputs, reports
from tools.run.recorded.counters import COUNTERS
from tools.sources.utilisation.reader import read_counters, samples_in

EVERY = outputs.EVERY | reports.EVERY
# Rows without an index are numbered by how many are written at once, which a cut may leave open.
WHOLE = "\n".join(text for name, text in EVERY.items() if name != "WITHOUT_INDEX").encode()


def taken(data: bytes) -> list[tuple[str, str, int, float]]:
    """Counter, part, device and value of everything in the text."""
    return [
        row
        for each in samples_in((data,))
        for row in zip(each.counters, each.parts, each.places, each.values, strict=True)
    ]


OF_WHOLE = set(taken(WHOLE))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(WHOLE)))
def test_what_stands_before_a_cut_is_read(at: int) -> None:
    cut = taken(WHOLE[: WHOLE.rfind(b"\n", 0, at) + 1])
    assert set(cut) <= OF_WHOLE


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=6))
def test_changed_bytes_never_break_the_reader(at: int, change: bytes) -> None:
    for counter, _, device, value in taken(WHOLE[:at] + change + WHOLE[at + len(change) :]):
        assert counter in COUNTERS
        assert device >= -1
        assert abs(value) < 1e30


def test_utf_16_and_carriage_returns_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(outputs.QUERY.replace("\n", "\r\n").encode("utf-16"))
    records = read_counters(path).records
    assert records is not None
    assert len(records.samples) == len(taken(outputs.QUERY.encode()))
