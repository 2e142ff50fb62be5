"""The closed grammar of changes."""

from __future__ import annotations

import re

import pytest

from tools.errors import UsageError
from tools.whatif.asked_changes import (
    FORMS,
    MOST_CHANGES,
    asked_change,
    asked_changes,
    changes_named_in,
    grammar_schema,
    grammar_text,
)

EXAMPLES = {
    "bucket_cap_mb": ("bucket_cap_mb=0.5", 0.5, ""),
    "num_workers": ("NUM_WORKERS = 8", 8, ""),
    "micro_batches": ("--num-micro-batches=16", 16, ""),
    "rank": ("rank 3 as fast as the others", 3, ""),
    "equal_stages": ("equal stages", 0, ""),
    "data": ("no waits for data", 0, ""),
    "link": ("link 2.5x", 2.5, ""),
    "kernels": ('kernels "Gemm_64" 2x', 2, "Gemm_64"),
    "bf16": ("bf16", 0, ""),
    "synchronisation": ("without synchronization", 0, ""),
    "without": ("without Slow_Device/Throttling", 0, "slow_device/throttling"),
    "batch_size": ("batch_size=64", 64, ""),
    "sequence_length": ("sequence_length=4096", 4096, ""),
    "tensor_parallel": ("tensor_parallel=2", 2, ""),
    "data_parallel": ("data_parallel=2", 2, ""),
    "pipeline_parallel": ("pipeline_parallel=2", 2, ""),
}


def test_every_form_is_listed_with_an_example() -> None:
    assert {form.kind for form in FORMS} == EXAMPLES.keys()
    assert all(form.written in grammar_text() for form in FORMS)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_form_gives_its_number_and_name(kind: str) -> None:
    text, number, name = EXAMPLES[kind]
    found = asked_change(text)
    assert (found.kind, found.number, found.name) == (kind, number, name)
    branches = grammar_schema()["anyOf"]
    assert isinstance(branches, list)
    matching = [each for each in branches if re.search(each["pattern"], " ".join(text.split()), re.IGNORECASE)]
    assert matching[0]["description"] == next(form.meaning for form in FORMS if form.kind == kind)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("bucket_cap=50", "did you mean bucket_cap_mb=N"),
        ("num_worker=8", "did you mean num_workers=N"),
        ("rank 3 as quick as others", "did you mean rank R as fast as the others"),
        ("qqqq", "the forms are bucket_cap_mb=N"),
        ("num_workers=1.5", "1.5 is not a whole number from 1"),
        ("link 0x", "0 is not more than 0"),
        ("link " + "9" * 300 + "x", "longer than 200 characters"),
    ],
)
def test_what_is_no_change_is_refused_with_the_nearest_forms(text: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=re.escape(nearest)):
        asked_change(text)


def test_changes_made_together_are_different_and_few() -> None:
    assert [each.kind for each in asked_changes(["bf16", "rank 0 as fast as others", "rank 1 as fast as others"])] == [
        *("bf16", "rank", "rank")
    ]
    with pytest.raises(UsageError, match="change the same thing"):
        asked_changes(["num_workers=2", "num_workers=4"])
    with pytest.raises(UsageError, match="at most 8"):
        asked_changes([f"rank {number} as fast as the others" for number in range(MOST_CHANGES + 1)])
    with pytest.raises(UsageError, match="name a change"):
        asked_changes([])


def test_a_question_names_changes_in_its_order() -> None:
    asked = "What would num_workers=8 bring, and what if rank 3 were as fast as the others with bucket_cap_mb=50?"
    assert [(each.kind, each.number) for each in changes_named_in(asked)] == [
        *(("num_workers", 8), ("rank", 3), ("bucket_cap_mb", 50))
    ]
    assert changes_named_in("Why is rank 3 slow without cause and does batch_size=8 matter?") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("num_workers=-4", "the number must be at least 1"),
        ("num_workers -4", "the number must be at least 1"),
        ("micro_batches: -2", "the number must be at least 1"),
        ("bucket_cap_mb=-25", "the number must be more than 0"),
        ("link -2x", "the number must be more than 0"),
        ("num_worker=-4", "did you mean num_workers=N"),
    ],
)
def test_a_negative_number_is_refused_with_the_least_one(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked_change(text)
