"""A case library that cannot be searched costs a diagnosis its similar cases and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from case_library.retrieval.chroma_store import CaseIndexError, ChromaStore, build_store, chroma
from case_library.retrieval.hashed_embedding import DIMENSION, HashedTextEmbedding
from case_library.retrieval.recall import CaseIndex
from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import NOT_LOOKED_UP
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from hermes_agent.workflow.workspace import Workspace

TIMED_OUT = "pool timed out while waiting for an open connection"


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception, int], None]:
    """Make the next openings of the case index fail with an error."""
    whole = Workspace._open_index

    def fail(error: Exception, times: int) -> None:
        left = [error] * times

        def opened(self: Workspace) -> CaseIndex:
            if left:
                raise left.pop()
            return whole(self)

        monkeypatch.setattr(Workspace, "_open_index", opened)

    return fail


@pytest.mark.parametrize("error", [CaseIndexError(TIMED_OUT), OSError(28, TIMED_OUT)])
def test_the_diagnosis_says_that_no_cases_could_be_looked_up(
    error: Exception, opening: Callable[[Exception, int], None]
) -> None:
    opening(error, 2)
    result = diagnose(Request((demo_run(),)), lambda _: None)
    assert (result.verdict, result.causes[0].cause) == ("problem", "slow_data_processing")
    assert result.advice
    assert result.cases == []
    assert result.recall_note.startswith(NOT_LOOKED_UP)
    assert TIMED_OUT in result.recall_note
    assert result.recall_note in result.notes


def test_an_opening_that_failed_in_the_background_is_tried_again(opening: Callable[[Exception, int], None]) -> None:
    opening(CaseIndexError(TIMED_OUT), 1)
    result = diagnose(Request((demo_run(),)), lambda _: None)
    assert result.cases
    assert result.recall_note == ""


def test_a_stored_diagnosis_without_a_look_up_is_made_again(
    opening: Callable[[Exception, int], None], tmp_path: Path
) -> None:
    request = Request((demo_run(),), cache_dir=tmp_path)
    opening(CaseIndexError(TIMED_OUT), 2)
    assert not diagnose(request, lambda _: None).cases
    assert diagnose(request, lambda _: None).cases


def test_what_chroma_raises_is_an_error_of_the_case_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library, embedding = chroma(), HashedTextEmbedding([1.0] * DIMENSION)

    def refusing(*_: object) -> None:
        raise library.errors.InternalError(TIMED_OUT)

    monkeypatch.setattr(library, "PersistentClient", refusing)
    with pytest.raises(CaseIndexError, match=TIMED_OUT):
        build_store(tmp_path, embedding, [], [])
    with pytest.raises(CaseIndexError, match=TIMED_OUT):
        ChromaStore(tmp_path, embedding)
