"""A team's own cases never reach a remote model, unless the user's own settings allow it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from case_library.retrieval.query import CaseHit, CaseQuery
from case_library.retrieval.recall import CaseIndex
from hermes_agent.config.settings import Settings
from hermes_agent.evidence.cases import recalled, recalled_case
from hermes_agent.llm.model import Reply, ToolCall
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.questions.discussion import Discussion
from hermes_agent.report.markdown import render_markdown
from hermes_agent.statements.answer import writer_for
from hermes_agent.statements.attempt import Accepted
from hermes_agent.statements.private import PublicDiscussion, sendable_discussion, without_private_cases
from hermes_agent.statements.question import ModelAnswers
from tests.case_library.own_cases import draft, public_fields, put
from tests.hermes_agent.llm.fake_endpoint import said, serving
from tests.hermes_agent.llm.scripted import ScriptedModel
from tests.hermes_agent.statements.slow_loader import (
    Listener,
    NoCases,
    answer_of,
    diagnosis,
    id_of,
    never,
    settings_of,
    statement,
)

SECRET = "Project Nightjar"
COST = id_of("cause_impact_ms", cause="slow_data_processing")
LIKE = CaseQuery(text="nightly backup slows ranks on one rack, run queue longer than the cores")
REMOTE = "https://models.example.org/v1"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[CaseIndex]:
    public, private = tmp_path / "public", tmp_path / "private"
    put(public, public_fields("public-backup"))
    own = draft(title=f"{SECRET} slowed by a backup", effect=f"{SECRET} is back at 310 ms.")
    put(private, {"id": "our-backup", "source": {"kind": "internal"}, **own})
    with CaseIndex.open(public, private_folder=private) as opened:
        yield opened


@pytest.fixture
def hits(index: CaseIndex) -> dict[bool, CaseHit]:
    """The private and the public hit, by whether it is private."""
    return {hit.private: hit for hit in index.search(LIKE).hits}


@pytest.fixture
def recalling(hits: dict[bool, CaseHit]) -> Diagnosis:
    """The diagnosis with a private and a public case, and a sentence that cites the private one."""
    plain = diagnosis()
    cases = [recalled("C1", hits[True]), recalled("C2", hits[False])]
    advice = [item.model_copy(update={"cases": ["C1", "C2"]}) for item in plain.advice]
    answer = [*plain.answer, f"It looks like {SECRET} [C1]."]
    return plain.model_copy(update={"cases": cases, "advice": advice, "answer": answer})


class WithCases(NoCases):
    """The made-up run with a case library."""

    def __init__(self, index: CaseIndex) -> None:
        super().__init__()
        self._index = index

    def cases(self) -> CaseIndex:
        return self._index


def sent_to(
    url: str, folder: Path, about: Diagnosis, bodies: list[dict[str, object]], **env: str
) -> tuple[str, Diagnosis]:
    """What an endpoint at that address got to see, and the diagnosis that came of it."""
    settings = settings_of(folder, HERMES_DX_LLM_BASE_URL=url, HERMES_DX_LLM_MODEL="tiny", **env)
    writer = writer_for(settings)
    assert writer is not None
    result = writer(about, Listener())
    return json.dumps(bodies), result


def test_a_remote_writer_sees_the_public_case_and_not_the_private_one(tmp_path: Path, recalling: Diagnosis) -> None:
    text = answer_of(statement(f"The loader costs {{{COST}}} per step."))
    with serving(said(text)) as endpoint:  # all interfaces: an address that is not known to stay on this machine
        url = endpoint.url.replace("127.0.0.1", "0.0.0.0")
        seen, result = sent_to(url, tmp_path, recalling, endpoint.bodies)
    assert endpoint.bodies
    assert SECRET not in seen
    assert "our-backup" not in seen
    assert "[C2]" in seen
    assert [case.id for case in result.cases] == ["C1", "C2"]


@pytest.mark.parametrize(("host", "env"), [("127.0.0.1", {}), ("0.0.0.0", {"HERMES_DX_CASES_SEND_PRIVATE": "true"})])
def test_a_model_on_this_machine_or_one_that_is_allowed_sees_it(
    host: str, env: dict[str, str], tmp_path: Path, recalling: Diagnosis
) -> None:
    with serving(said("no answer")) as endpoint:
        url = endpoint.url.replace("127.0.0.1", host)
        seen, _ = sent_to(url, tmp_path, recalling, endpoint.bodies, **env)
    assert SECRET in seen


def test_an_answer_kept_from_templates_keeps_its_sentences_on_private_cases(
    tmp_path: Path, recalling: Diagnosis
) -> None:
    with serving(said("It costs 99 ms.")) as endpoint:
        _, result = sent_to(endpoint.url.replace("127.0.0.1", "0.0.0.0"), tmp_path, recalling, endpoint.bodies)
    assert result.answer_by == "template"
    assert result.answer == recalling.answer


def test_no_reference_to_a_private_case_is_left_in_what_is_sent(recalling: Diagnosis) -> None:
    left = without_private_cases(recalling).model_dump_json()
    assert SECRET not in left
    assert '"C1"' not in left
    assert "[C1]" not in left


def test_a_remote_model_cannot_search_or_open_private_cases(
    tmp_path: Path, index: CaseIndex, recalling: Diagnosis
) -> None:
    whole = Discussion(recalling, WithCases(index))
    model = ScriptedModel(
        [
            Reply(calls=(ToolCall("a", "cases", json.dumps({"text": LIKE.text})),)),
            Reply(calls=(ToolCall("b", "evidence", json.dumps({"id": "C1"})),)),
            answer_of(statement(f"The loader costs {{{COST}}} per step.")),
        ]
    )
    settings = settings_of(tmp_path, HERMES_DX_LLM_BASE_URL=REMOTE, HERMES_DX_LLM_MODEL="tiny")
    answers = ModelAnswers(sendable_discussion(whole, settings), model, settings)
    assert isinstance(answers.answer("What else was like this?", Listener(), never), Accepted)
    sent = [message.content for request in model.requests for message in request.messages]
    assert len(model.requests) == 3
    assert not any(SECRET in text for text in sent)
    assert any("Nightly backup halves the speed" in text for text in sent)


def test_cases_recalled_for_a_remote_model_are_numbered_after_the_private_ones(
    index: CaseIndex, hits: dict[bool, CaseHit]
) -> None:
    plain = diagnosis().model_copy(update={"cases": [recalled("C1", hits[True])]})
    whole = Discussion(plain, WithCases(index))
    about = PublicDiscussion(whole)
    (hit,) = about.recall(LIKE).hits
    assert about.case(hit).id == "C2"
    assert [record.id for record in about.cases] == ["C2"]
    assert [record.id for record in whole.cases] == ["C1", "C2"]
    assert "C1" not in about.index().cases
    assert about.ledger is whole.ledger


def test_the_project_s_own_file_cannot_let_private_cases_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "hermes-dx.toml"
    path.write_text("[cases]\nsend_private = true\n", encoding="utf-8")
    path.chmod(0o644)
    settings = Settings.load(tmp_path, {"HOME": str(tmp_path / "home")})
    assert not settings.sends_private_cases
    assert "cases.send_private is not taken" in settings.notes[0]


def test_a_private_case_is_marked_and_read_from_its_own_folder(recalling: Diagnosis) -> None:
    own, public = recalling.cases
    assert own.title == f"{SECRET} slowed by a backup (private)"
    case = recalled_case(own)
    assert case is not None
    assert (case.private, case.effect) == (True, f"{SECRET} is back at 310 ms.")
    assert public.title == "Nightly backup halves the speed of ranks on rack seven"
    text = render_markdown(recalling)
    assert "## Similar cases, public and private" in text
    assert f"- [C1] {SECRET} slowed by a backup (private)\n" in f"{text}\n"


def test_a_private_case_whose_file_went_is_known_by_its_record_alone(recalling: Diagnosis) -> None:
    Path(recalling.cases[0].file).unlink()
    assert recalled_case(recalling.cases[0]) is None
