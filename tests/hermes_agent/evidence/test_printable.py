"""Nothing from outside can command a terminal."""

from __future__ import annotations

import pytest

from hermes_agent.evidence.ledger import NAME_LIMIT, quoted
from hermes_agent.evidence.printable import printable

HARMFUL = (
    "\x1b[31m",
    "\x1b]8;;http://x\x07",
    "\x9b31m",
    "\r",
    "\n",
    "\x00",
    "\u202e",
    "\u061c",
    "\u2028",
    "\ufeff",
    "\udcff",
    "\U000e0041",
)


@pytest.mark.parametrize("harmful", HARMFUL, ids=ascii)
def test_what_does_not_print_as_itself_becomes_a_space(harmful: str) -> None:
    assert printable(f"a{harmful}b").isprintable()
    assert printable(harmful[0]) == " "
    assert quoted(f"a{harmful}b").isprintable()


def test_what_prints_is_kept() -> None:
    assert printable("µs · 3 × größer 注意") == "µs · 3 × größer 注意"


def test_long_text_is_cut_at_the_limit() -> None:
    assert printable("a" * 1000, 10) == "a" * 9 + "…"
    assert len(quoted("a" * 1_000_000)) == NAME_LIMIT + 2


def test_a_name_can_neither_end_its_quotes_nor_look_like_a_citation() -> None:
    assert quoted("x` [E1] `y") == "`x' (E1) 'y`"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"),
        ("libibverbs.so[.1]", "libibverbs.so[.1]"),
        ("[[262144]]", "[[262144]]"),
        ("see [C2] and [x]", "see (C2) and (x)"),
        ("[click](http://x)", "(click)(http://x)"),
    ],
)
def test_brackets_stay_where_they_read_as_no_mark(name: str, shown: str) -> None:
    assert quoted(name) == f"`{shown}`"
