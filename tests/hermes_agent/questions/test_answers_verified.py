"""Every figure in an answer on recorded runs is the one that it cites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.session import Session
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import EXAMPLES
from tools.analyzers.registry import checks_for, spec_of
from tools.knowledge.taxonomy import causes

RECORDED = {
    "demo": None,
    "slow loader": "kineto/resnet50_workers0.pt.trace.json.gz",
    "host bound": "hta/nccl_parser_config.json.gz",
    "exposed communication": "tracelens/mi300_resnet_act_checkpoint.json.gz",
    "without a device": "hta/cpu_only.json.gz",
}
MORE = (
    "which rank is slow?", "is rank 0 slow?", "any spikes?", "breakdown of rank 0", "what if I fix the first cause?",
    "how do I fix the data loader?", "why not the network?", "could it be gc?", "is it the cpu?", "tensor cores?",
    "storage?", "is communication slow?", "memory?", "what is slow device?", "what is underutilization?", "show A1",
    "show C1", "show E1 and E2", "cases like slow checkpoints on NFS", "what is the weather", "top kernels of rank 0",
    "top host calls of rank 0", "how long do the all-reduces take?", "is rank 0 a straggler?",
    "what if I fix everything?",
    "how much faster if I fixed both the loader and the small operators?", "why is rank 0 waiting?",
    "how long does a step of rank 0 take?", "launch queue of rank 0", "GPU utilization of rank 0", "is it NCCL?",
    "Warum ist es langsam?", "为什么训练这么慢？", "¿Es la red?", "Que dois-je changer ?",
    "why are steps 1 and 8 slow?",
)  # fmt: skip


@pytest.fixture(scope="module", params=list(RECORDED))
def session(request: pytest.FixtureRequest, shared_cache: Path) -> Iterator[Session]:
    name = RECORDED[request.param]
    path = demo_run() if name is None else Path(request.getfixturevalue("traces")) / name
    with Session(Request(paths=(path,), cache_dir=shared_cache), Settings(cache_dir=shared_cache)) as opened:
        opened.diagnose(ignore)
        yield opened


def asked(session: Session, question: str) -> None:
    answer = session.ask(question, ignore)
    assert answer.text
    assert answer.notes == (), question
    assert discussed.unsupported(answer.text, session.discussion) == [], question
    assert {record.id for record in answer.evidence} == {i for i in cited_ids(answer.text) if i.startswith("E")}


@pytest.mark.parametrize("question", [*EXAMPLES, "help", *MORE])
def test_every_kind_of_answer_is_borne_out_by_its_evidence(session: Session, question: str) -> None:
    asked(session, question)


def test_what_is_said_about_every_cause_is_borne_out(session: Session) -> None:
    for cause in causes().values():
        for name in (cause.id, *cause.mechanisms):
            asked(session, f"could it be {name}?")


def test_every_cause_and_mechanism_can_be_asked_what_it_is(session: Session) -> None:
    for name in causes():
        answer = session.ask(f"what is {name}?", ignore)
        assert answer.intent == "definition"
        assert answer.notes == ()


def test_every_check_is_declared(session: Session) -> None:
    for check in session.diagnosis.checks:
        assert spec_of(check.analyzer).question


def test_every_cause_is_found_by_a_check_that_is_known_to_look_for_it(session: Session) -> None:
    found = [(cause.cause, cause.mechanism, cause.check) for cause in session.diagnosis.causes]
    assert [each for each in found if each[2] not in checks_for(each[0], each[1])] == []
