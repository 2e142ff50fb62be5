"""Recall measured on the bundled cases; the floors lie below what was measured, see each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from case_library.calibrate import (
    OFF_TOPIC,
    ON_TOPIC,
    answered,
    by_signals,
    by_signature,
    by_text,
    leave_one_out,
    questions,
)
from case_library.library import load_cases
from case_library.recall import CaseIndex, CaseQuery

# Written after the thresholds were set and in no calibration list.
UNSEEN_OFF_TOPIC = (
    "how long should I boil an egg",
    "which museum in Madrid shows Guernica",
    "the dishwasher leaks water on the floor",
    "plan a three day hike in the Alps",
    "rename a column in a spreadsheet",
    "what does a notary do",
    "my bicycle chain keeps slipping under load",
    "write unit tests for a React component",
    "regular expression for an email address",
    "how do I centre a div",
    "convert a list of tuples to a dictionary",
    "explain attention in transformers to a child",
    "choose between Adam and SGD",
    "the model hallucinates facts in long answers",
    "fine-tuned model forgets its earlier tasks",
    "interest rates and the housing market",
    "symptoms of a common cold",
    "learn to play the violin as an adult",
    "the meeting room is double booked",
    "change the language of my phone",
)
UNSEEN_ON_TOPIC = {
    "dataset is on NFS and every read waits": "io",
    "JPEG decoding keeps the CPU busy while the GPU waits": "io",
    "all ranks wait for rank 3 in every all-reduce": "communication",
    "GPUDirect RDMA is disabled in the NCCL log": "communication",
    "PFC pause frames on the switch": "communication",
    "optimizer launches thousands of tiny kernels": "cpu",
    "cudaStreamSynchronize in every step because of .item()": "cpu",
    "gc.collect makes some steps a second longer": "cpu",
    "OMP threads oversubscribe the cores": "cpu",
    "bubbles in the 1F1B pipeline with few microbatches": "parallel",
    "FSDP all-gather is not overlapped with compute": "parallel",
    "GPU clock drops when it is hot": "computation",
    "attention does not use flash kernels": "computation",
    "operators fall back to AI CPU on Ascend": "computation",
    "torch.save of the checkpoint stops every rank": "storage",
    "CUDA caching allocator retries cudaMalloc": "memory",
}


@pytest.fixture(scope="module")
def index() -> Iterator[CaseIndex]:
    with CaseIndex.open() as opened:
        yield opened


def test_a_left_out_case_finds_its_cause_by_its_text_among_the_best_three(index: CaseIndex) -> None:
    result = leave_one_out(index, load_cases(), by_text)
    assert result.cases >= 114
    assert result.recall >= 0.58
    assert result.precision >= 0.72
    assert result.abstained <= 0.25 * result.cases


def test_a_left_out_case_finds_its_cause_by_family_and_signals_among_the_best_three(index: CaseIndex) -> None:
    result = leave_one_out(index, load_cases(), by_signals)
    assert result.recall >= 0.83


def test_a_left_out_case_finds_its_cause_by_the_signature_of_a_finding(index: CaseIndex) -> None:
    result = leave_one_out(index, load_cases(), by_signature)
    assert result.recall == 1.0


def test_nearly_all_off_topic_questions_of_the_calibration_are_abstained_on(index: CaseIndex) -> None:
    asked = questions(OFF_TOPIC)
    assert len(asked) >= 39
    assert len(answered(index, asked)) <= 2


def test_all_on_topic_questions_of_the_calibration_are_answered(index: CaseIndex) -> None:
    asked = questions(ON_TOPIC)
    assert len(asked) >= 22
    assert answered(index, asked) == asked


def test_off_topic_questions_never_calibrated_on_are_abstained_on(index: CaseIndex) -> None:
    assert answered(index, UNSEEN_OFF_TOPIC) == []


def test_on_topic_questions_never_calibrated_on_are_answered_in_the_right_family(index: CaseIndex) -> None:
    right = 0
    for text, family in UNSEEN_ON_TOPIC.items():
        right += family in [hit.family for hit in index.search(CaseQuery(text=text), limit=3).hits]
    assert right / len(UNSEEN_ON_TOPIC) >= 0.8
