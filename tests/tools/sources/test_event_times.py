"""Times written as text become the same nanoseconds at once as one decimal number after the other."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.sources.kineto.decode import Decoder
from tools.sources.kineto.times import UNUSABLE, Times, decimal_times, plain_times

PLAIN = st.from_regex(r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,3})?", fullmatch=True)


def raw(texts: list[str]) -> list[msgspec.Raw]:
    return [msgspec.Raw(text.encode()) for text in texts]


def rows(times: Times) -> list[tuple[int, int, bool]]:
    return list(zip(times.start_ns.tolist(), times.length_ns.tolist(), times.usable.tolist(), strict=True))


@given(st.lists(st.tuples(PLAIN, PLAIN)))
def test_plain_numbers_are_exact_to_the_last_digit(pairs: list[tuple[str, str]]) -> None:
    starts, lengths = [start for start, _ in pairs], [length for _, length in pairs]

    found = plain_times(raw(starts), raw(lengths))

    assert found is not None
    one_by_one = decimal_times([Decimal(each) for each in starts], [Decimal(each) for each in lengths])
    assert rows(found) == rows(one_by_one)


@pytest.mark.parametrize(
    "text",
    ["-1", "1e3", "1.2345", '"5"', "null", "true", "1.", ".5.5", "12345678901234567", "[1]", "nan", "1 ", "+1", "1,5"],
)
def test_any_other_way_to_write_a_number_is_left_to_the_exact_reader(text: str) -> None:
    assert plain_times(raw(["1.5", text, "2"]), raw(["1", "1", "1"])) is None
    assert plain_times(raw(["1.5", "1", "2"]), raw(["1", text, "1"])) is None


def test_an_absent_start_is_not_usable_and_an_absent_length_is_zero() -> None:
    found = plain_times(raw(["", "7.25", ""]), raw(["1", "", ""]))

    assert found is not None
    assert rows(found) == [(UNUSABLE, 1000, False), (7250, 0, True), (UNUSABLE, 0, False)]


def test_times_beyond_the_range_of_a_run_are_not_usable() -> None:
    found = plain_times(raw(["9" * 16, str(2**62 // 1000)]), raw(["1", "0.001"]))

    assert found is not None
    assert rows(found) == [(UNUSABLE, 1000, False), (2**62 // 1000 * 1000, 1, True)]


LATE = '{"ph":"X","name":"op","ts":1694128201422525.123,"dur":0.5}'


def test_a_file_keeps_the_plainest_form_that_its_times_allow() -> None:
    decoder = Decoder()
    forms = []
    for text in ('[{"ph":"X","ts":5.5,"dur":1}]', f"[{LATE}]", f"[{LATE}]", f'[{LATE},{{"ph":"X","ts":1e3}}]', "[]"):
        decoder.strict(bytearray(text.encode()))
        forms.append(decoder.form)

    assert forms == ["float", "text", "text", "decimal", "decimal"]


def test_all_forms_of_one_time_give_the_same_nanoseconds() -> None:
    plain, quoted = LATE, LATE.replace("1694128201422525.123", '"1694128201422525.123"')

    starts = {int(Decoder().strict(bytearray(f"[{each}]".encode())).times.start_ns[0]) for each in (plain, quoted)}

    assert starts == {1694128201422525123}


def test_what_is_no_time_at_all_is_refused_in_every_form() -> None:
    for form in ("float", "text", "decimal"):
        with pytest.raises(msgspec.DecodeError):
            Decoder(form).strict(bytearray(b'[{"ph":"X","ts":null}]'))


def test_taking_some_events_takes_their_times() -> None:
    times = plain_times(raw(["1", "2", "3"]), raw(["0", "0", "1"]))

    assert times is not None
    assert rows(times.taken(np.array([2, 0]))) == [(3000, 1000, True), (1000, 0, True)]
