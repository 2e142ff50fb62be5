"""Statements about a made-up run whose loader keeps the device waiting: what passes, how it reads, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.evidence.citations import wrong_citations
from hermes_agent.evidence.index import evidence_index
from hermes_agent.statements.attempt import rendered
from hermes_agent.statements.checks import faults_of
from hermes_agent.statements.context import CheckContext, names_of
from hermes_agent.statements.record import Statement
from tests.hermes_agent.statements.slow_loader import diagnosis, id_of, statement

CONTEXT = CheckContext(diagnosis(), evidence_index(diagnosis()), names_of(diagnosis(), diagnosis().evidence))
CAUSE = "slow_data_processing"
STEP = id_of("predicted_step_ms", cause=CAUSE)
IMPACT = id_of("cause_impact_ms", cause=CAUSE)
GAIN = id_of("predicted_speedup", cause=CAUSE)
LOW = id_of("predicted_speedup", cause=CAUSE, bound="low")
DATA, HOST = id_of("part_pct", part="data_wait"), id_of("part_pct", part="host")
WAIT = id_of("part_ms", part="data_wait", rank=0)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            statement(f"A step would run about {{{GAIN}}} faster."),
            f"A step would run about 1.67x [{GAIN}] (after fixing too few data loader workers) faster.",
        ),
        (
            statement(f"A step would run {{{LOW}}} faster."),
            f"A step would run 1.28x [{LOW}] (low end of the range, after fixing too few data loader workers) faster.",
        ),
        (
            statement(f"Waiting for data fills {{{DATA}}}, {{than}} the host program with {{{HOST}}}."),
            f"Waiting for data fills 40.0 % [{DATA}], more than the host program with 4.47 % [{HOST}].",
        ),
        (
            statement("Pinned copies run with the step.", "causal", "slow_data_fetching", "about"),
            "In general, not about this run: Pinned copies run with the step.",
        ),
        (statement("This one shows first in the data, one of the loaders.", "causal", CAUSE, "present"), None),
        (statement("Could the batches be read ahead?", "unknown"), "Could the batches be read ahead?"),
        (statement("Is the network slow?", "unknown"), "Is the network slow?"),
        (statement("Could it be {cause:slow_link}?", "unknown"), "Could it be a slow link?"),
        (statement("Is there a slow network?", "unknown"), "Is there a slow network?"),
        (
            statement(f"A step would take {{{STEP}}}."),
            f"A step would take 60.0 ms [{STEP}] (after fixing too few data loader workers).",
        ),
        (
            statement(f"With {{A1}} a step would take {{{STEP}}}."),
            f"With load batches in worker processes [A1] a step would take 60.0 ms [{STEP}].",
        ),
        (statement(f"{{A1}} would cut the step to {{{STEP}}}.", "advice"), None),
        (statement(f"{{A1}} would save {{{IMPACT}}} per step.", "advice"), None),
        (
            statement(f"The loader’s wait – in use – is {{{WAIT}}}."),
            f"The loader's wait - in use - is 40.0 ms [{WAIT}].",
        ),
    ],
)
def test_true_statements_pass_and_read_well(made: Statement, text: str | None) -> None:
    assert faults_of(made, CONTEXT) == []
    assert text is None or rendered(made, CONTEXT) == text
    assert wrong_citations(rendered(made, CONTEXT), CONTEXT.index) == []


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (statement(f"A step would take {{{GAIN}}}."), "is a ratio of speeds"),
        (statement(f"Packets are resent for {{{DATA}}}."), "says nothing of 'resent'"),
        (statement(f"Recomputation takes {{{HOST}}}."), "says nothing of 'recomputation'"),
        (statement(f"Steps run {{{GAIN}}} faster."), "is predicted: say would or could"),
        (statement(f"A step would run {{{GAIN}}} slower."), "says nothing of 'slower'"),
        (statement(f"The host program fills {{{DATA}}}."), "says nothing of 'host'"),
        (statement(f"A step takes {{{WAIT}}}."), "what it measures: part_ms"),
        (statement(f"Waiting for data fills {{{DATA}}}, {{than}} the step."), "a comparison has two figures"),
        (statement(f"{{name:made_up}} waits {{{WAIT}}} for data."), "no evidence and no tool result has the name"),
        (statement(f"{{name:0}} waits {{{WAIT}}} for data."), "no evidence and no tool result has the name"),
        (statement("The network is in use."), "'network' needs a figure"),
        (statement("The network is in use.", "advice", None, None, "A1"), "'network' needs a figure"),
        (statement("", "causal", "operator_dispatch", "absent"), "its claim is present"),
        (statement("", "causal", CAUSE, "present", HOST), "is no evidence of slow_data_processing"),
        (statement("Garbage collection stops {rank:0}.", "causal", "garbage_collection", "about"), "was not found"),
        (statement(f"The loader takes {{{WAIT}}}.", None, "slow_link"), "the diagnosis did not find slow_link"),
        (statement(f"The loader takes {{{WAIT}}}.", None, None, "present"), "only a statement of kind causal"),
        (statement("The link is congested. Should it change?", "unknown"), "'congested' judges"),
        (statement("When did the network throttle?", "unknown"), "'throttle' judges"),
        (statement("Should {cause} be fixed?", "unknown", "slow_link"), "takes it for granted"),
        (statement("Could the slow network be replaced?", "unknown"), "'slow' takes for granted"),
        (statement("When did {cause:slow_link} start?", "unknown"), "the diagnosis did not find slow_link"),
        (statement(f"A step takes {{{WAIT}}}, should it?", "unknown"), "what it measures: part_ms"),
        (statement("The network resent packets.", "unknown", "rdma_retransmission"), "'network' needs a figure"),
        (statement(f"This would save {{{STEP}}} per step."), "is the time of a step, no saving"),
        (statement(f"A step would take {{{IMPACT}}}."), "is what a step loses"),
        (statement(f"The step takes {{{IMPACT}}}."), "is what a step loses"),
        (statement(f"A step of {{{STEP}}} takes {{{IMPACT}}}."), "is what a step loses"),
        (statement(f"{{A1}} would cut the step to {{{IMPACT}}}.", "advice"), "is what a step loses"),
        (statement(f"Data loading would take {{{STEP}}}."), "what it measures: predicted_step_ms"),
        (statement(f"With {{cause:straggler}} fixed a step would take {{{STEP}}}."), f"{STEP} is about {CAUSE}"),
        (statement("Remove the training script.", "advice", None, None, "A1"), "advice needs the slot of an advice"),
        (statement("The device is slow.", "causal", CAUSE, "about"), "'device' is judged"),
        (statement(f"The host program is slow with {{{HOST}}}.", "causal", CAUSE, "about"), "no evidence of what"),
        (
            statement(f"The host program takes {{{HOST}}}, which is excessive.", "causal", CAUSE, "about"),
            "no evidence of",
        ),
        (statement(f"Data waits fill {{{DATA}}}, as long as the step.", None, CAUSE), "'as long as'"),
        (statement("The first rank waits for data.", "causal", CAUSE, "about"), "'first rank'"),
        (statement("The run performs well."), "'well' blames or clears"),
        (statement(f"{{than}} data, {{{DATA}}}, host work fills {{{HOST}}}."), "stands between"),
        (statement(f"Data fills {{{DATA}}}. Host work fills {{{HOST}}}, {{than}} it."), "stands between"),
        (statement(f"Data fills {{{DATA}}}, {{than}} this, host work {{{HOST}}}."), "stands between"),
    ],
)
def test_false_statements_are_refused_with_a_reason(made: Statement, reason: str) -> None:
    assert reason in "; ".join(faults_of(made, CONTEXT))


def test_a_name_that_only_the_model_asked_for_may_not_be_quoted() -> None:
    base = next(record for record in diagnosis().evidence if record.value)
    said = "the network is at fault"
    asked = base.model_copy(update={"metric": "host_name_ms", "arguments": {"name": said}, "value": 0.0})
    known = base.model_copy(update={"metric": "host_name_ms", "arguments": {"name": "aten::mm"}, "value": 1.5})
    texts = [f"`host_name_ms(name={said})`: 0 ms [E61]", "`aten::add`: 2 ms [E62]"]
    names = names_of(diagnosis(), [asked, known], texts)
    assert not [name for name in names if said in name]
    assert {"`aten::mm`", "`aten::add`"} <= names


TOKENS = """data the waits {E1} {E6} {E7} {E9} {rank:0} {rank:9999999} {step:0} {than} {cause} {cause:straggler} {A1}
{C1} {A1:how} {verdict} {open:memory.peak} {name:x} {} , . ( ) : ? \x1b ½ \u200b { } would faster network slow - /"""
WORDS = st.sampled_from(TOKENS.replace("\n", " ").split(" "))
KINDS = st.sampled_from(["causal", "measured", "predicted", "advice", "unknown"])
CAUSES = st.sampled_from([None, CAUSE, f"{CAUSE}:too_few_workers", "slow_link", "", ":", "x:y"])
CLAIMS = st.sampled_from([None, "present", "absent", "guess", "about"])


@given(st.lists(WORDS, max_size=12), KINDS, CAUSES, CLAIMS, st.lists(st.sampled_from(["E1", "A1", "", "C7", "é"])))
def test_whatever_a_model_returns_is_refused_or_rendered(
    words: list[str], kind: str, cause: str | None, claim: str | None, ids: list[str]
) -> None:
    made = statement(" ".join(words), kind, cause, claim, *ids)
    if not faults_of(made, CONTEXT):
        assert wrong_citations(rendered(made, CONTEXT), CONTEXT.index) == []


COMMAND = "rm -rf /"
PLANTED = CheckContext(
    CONTEXT.diagnosis, CONTEXT.index, names_of(CONTEXT.diagnosis, (), [f"`{COMMAND}` and `aten::add` ran"])
)


@pytest.mark.parametrize(
    "made",
    [
        statement(f"To remedy this, run {{name:{COMMAND}}}.", "causal", CAUSE, "about"),
        statement(f"{{A1}}, or execute {{name:{COMMAND}}} on the machine.", "advice"),
        statement(f"First use {{name:{COMMAND}}}; a step would take {{{STEP}}}."),
        statement(f"Could you type {{name:{COMMAND}}}?", "unknown"),
        statement(f"{{name:{COMMAND}}} is what you need.", "causal", CAUSE, "about"),
    ],
)
def test_a_name_of_the_run_never_becomes_a_command(made: Statement) -> None:
    assert any("what to do comes from the advice table" in fault for fault in faults_of(made, PLANTED))


def test_a_name_of_the_run_may_be_described() -> None:
    name = "aten::add"
    made = statement(f"The loader's wait of {{{WAIT}}} shows next to {{name:{name}}}.")
    assert faults_of(made, PLANTED) == []
    assert rendered(made, PLANTED) == f"The loader's wait of 40.0 ms [{WAIT}] shows next to `{name}`."


@pytest.mark.parametrize("text", ["Run rm -rf on the folder.", "Run sudo reboot.", "Use the shell: rm the files."])
def test_a_command_in_plain_words_is_refused(text: str) -> None:
    assert any("is not in the vocabulary" in fault for fault in faults_of(statement(text, "advice"), PLANTED))
