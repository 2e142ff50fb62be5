"""What is said about runs with known answers."""

from __future__ import annotations

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import Answer, reply
from tests.hermes_agent.questions import discussed


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


@pytest.fixture(scope="module")
def busy() -> Discussion:
    return discussed.busy()


@pytest.fixture(scope="module")
def spiky() -> Discussion:
    return discussed.spiky()


@pytest.fixture(scope="module")
def late() -> Discussion:
    return discussed.late_rank()


def value(answer: Answer, metric: str, **arguments: str | int) -> float:
    """The figure of that measurement among those the answer cites."""
    found = [e.value for e in answer.evidence if e.metric == metric and arguments.items() <= e.arguments.items()]
    assert len(found) == 1, [(e.metric, e.arguments) for e in answer.evidence]
    return found[0]


def test_a_cause_that_was_found_is_confirmed_with_its_place_and_claim(loader: Discussion) -> None:
    answer = reply(loader, "Could it be the dataloader?")
    assert answer.intent == "suspicion"
    assert "Yes: the first of the causes found is too few data loader workers." in answer.text
    assert loader.diagnosis.causes[0].claim in answer.text


def test_a_cause_that_was_looked_for_and_not_found_is_answered_with_the_numbers(busy: Discussion) -> None:
    answer = reply(busy, "is it the data loader?")
    assert "No sign of slow data reading or slow data preprocessing: it was looked for." in answer.text
    assert answer.evidence


def test_an_open_question_says_why_and_what_to_record(busy: Discussion) -> None:
    answer = reply(busy, "could it be garbage collection?")
    check = next(check for check in busy.diagnosis.checks if check.analyzer == "cpu.garbage_collection")
    assert check.status == "cannot_answer"
    assert "Not assessable from these sources: Python garbage collection." in answer.text
    assert check.needs.split("(")[0] in answer.text


@pytest.mark.parametrize("question", ["could it be the power governor?"])
def test_a_cause_without_an_analyzer_is_called_open_and_never_clean(busy: Discussion, question: str) -> None:
    answer = reply(busy, question)
    assert "There is no analyzer for" in answer.text
    assert "not ruled out" in answer.text
    assert "No sign" not in answer.text


@pytest.mark.parametrize("question", ["could it be checkpointing?", "cpu contention?"])
def test_a_cause_that_only_the_monitor_records_is_open_without_its_records(busy: Discussion, question: str) -> None:
    answer = reply(busy, question)
    assert "Not assessable from these sources" in answer.text
    assert "monitor.step()" in answer.text
    assert "No sign" not in answer.text


def test_a_pipeline_bubble_is_looked_for_in_the_trace(busy: Discussion) -> None:
    assert reply(busy, "pipeline bubbles?").text.startswith("No sign of pipeline bubbles: it was looked for.")


def test_a_family_is_answered_cause_by_cause_with_the_open_ones_named(late: Discussion) -> None:
    answer = reply(late, "why isn't it the network?")
    assert "Nothing found points to the network, but not every question about it could be answered." in answer.text
    assert "Not assessable from these sources: bandwidth contention or packet retransmission." in answer.text
    assert "No check for unaligned communication buffers" in answer.text
    assert not answer.text.rstrip().endswith(("checks:", "following."))


def test_a_check_that_found_another_cause_does_not_clear_the_one_asked_for(loader: Discussion) -> None:
    answer = reply(loader, "could it be slow data reading?")
    assert "Not slow data reading on this evidence: the check that looks for it found something else." in answer.text


def test_the_late_rank_is_named_with_what_it_does_longer(late: Discussion) -> None:
    answer = reply(late, "Which rank is the slowest?")
    assert answer.text.startswith("Rank 2 is the slowest")
    assert value(answer, "rank_time_ms", rank=2) == pytest.approx(7.13, abs=0.02)
    assert value(answer, "part_excess_ms", rank=2, part="data_wait") == pytest.approx(3.0, abs=0.01)
    assert "data wait" in answer.text


def test_a_single_rank_cannot_be_compared(busy: Discussion) -> None:
    assert "ranks cannot be compared" in reply(busy, "which rank is slowest?").text


def test_a_rank_that_does_not_exist_is_refused_with_those_there_are(late: Discussion) -> None:
    assert reply(late, "what about rank 9?").text == "This run has no such rank; it has ranks 0 to 3."


def test_the_slowest_step_is_named_with_its_excess_and_where_it_went(spiky: Discussion) -> None:
    answer = reply(spiky, "any spikes?")
    assert answer.text.startswith("Step 7 is the slowest")
    assert value(answer, "step_excess_ms", step=7) == pytest.approx(60.0)
    assert value(answer, "step_part_excess_ms", step=7, part="compute") == pytest.approx(60.0)
    assert value(answer, "fluctuating_steps") == 1


def test_an_even_run_has_no_step_that_stands_out(busy: Discussion) -> None:
    assert reply(busy, "which step is slowest?").text.startswith("No step stands out.")


def test_the_breakdown_of_one_step_is_measured_on_the_spot_and_keeps_its_ids() -> None:
    discussion = discussed.slow_loader()
    last = len(discussion.diagnosis.evidence)
    answer = reply(discussion, "break down step 3 of rank 0")
    assert value(answer, "part_ms", part="data_wait", rank=0, step=3) == pytest.approx(40.0)
    assert value(answer, "part_ms", part="wall", rank=0, step=3) == pytest.approx(100.0)
    new = [record.id for record in discussion.ledger.added()]
    assert new == [f"E{last + place + 1}" for place in range(len(new))]
    assert reply(discussion, "breakdown of rank 0 step 3").text == answer.text
    assert [record.id for record in discussion.ledger.added()] == new


def test_what_a_fix_brings_is_the_prediction_of_the_diagnosis(loader: Discussion) -> None:
    answer = reply(loader, "What if I fix the data loader?")
    assert value(answer, "predicted_step_ms") == pytest.approx(60.0, abs=0.5)
    assert value(answer, "predicted_speedup", bound="low") > 1.0
    prediction = loader.diagnosis.advice[0].text.removeprefix("Fixing this")
    assert f"Fixing too few data loader workers{prediction}" in answer.text


def test_fixing_what_was_not_found_is_predicted_to_bring_nothing_known(loader: Discussion) -> None:
    answer = reply(loader, "how much would fixing the garbage collector bring?")
    assert answer.intent == "what_if"
    assert "So no gain from fixing that is predicted." in answer.text


def test_the_first_change_is_described_in_full(loader: Discussion) -> None:
    item = loader.diagnosis.advice[0]
    answer = reply(loader, "what should I change first?")
    assert f"Change this first: {item.optimization} [A1]." in answer.text
    for part in (item.how.split(";")[0], item.text, item.risk.split(";")[0], item.verify):
        assert part in answer.text


def test_a_healthy_run_gets_no_advice(busy: Discussion) -> None:
    assert busy.diagnosis.verdict == "healthy"
    assert "Nothing was found that would be worth changing." in reply(busy, "how do I fix it?").text


def test_advice_for_a_cause_that_was_not_found_is_refused(loader: Discussion) -> None:
    answer = reply(loader, "how do I fix the pipeline bubbles?")
    assert "There is no advice on pipeline bubbles for this run: not among the causes found." in answer.text


def test_evidence_is_explained_by_its_measurement(loader: Discussion) -> None:
    answer = reply(loader, "show E1")
    assert answer.evidence[0].id == "E1"
    assert "`step_time_ms(" in answer.text


def test_an_id_that_does_not_exist_names_those_that_do(loader: Discussion) -> None:
    last = loader.diagnosis.evidence[-1].id
    assert f"There is evidence E1 to {last}" in reply(loader, "show C9").text


def test_a_device_name_is_not_taken_for_an_id(loader: Discussion) -> None:
    assert reply(loader, "would an A100 be faster for this network?").intent != "identifiers"


def test_without_a_baseline_the_comparison_says_how_to_get_one(loader: Discussion) -> None:
    assert "`hermes-dx compare BEFORE AFTER`" in reply(loader, "compare with the baseline").text


def test_gaps_name_unanswered_checks(busy: Discussion) -> None:
    text = reply(busy, "what could you not check?").text
    for check in busy.diagnosis.checks:
        assert (f"`{check.analyzer}`" in text) == (check.status == "cannot_answer")
    assert "There is no analyzer yet" not in text  # every cause is looked for


def test_a_question_that_is_not_understood_says_so_with_three_examples(busy: Discussion) -> None:
    answer = reply(busy, "what is the airspeed of a swallow")
    assert answer.intent == "not_understood"
    assert answer.text.count("“") == 3
    assert "[C" not in answer.text


def test_words_close_to_a_public_case_bring_that_case_with_an_id_that_stays(busy: Discussion) -> None:
    answer = reply(busy, "similar cases to synchronous checkpoint blocks training")
    assert "checkpoint stall" in answer.text
    first = busy.cases[0]
    assert first.id == "C1"
    assert f"[{first.id}]" in answer.text
    assert reply(busy, "show C1").text.startswith(first.title.split(":")[0][:10])


def test_a_taxonomy_cause_is_defined_and_placed_in_the_run(busy: Discussion) -> None:
    text = reply(busy, "what is operator dispatch?").text
    assert "launch queue length near zero" in text
    assert "In this run:" in text


def test_a_fix_for_a_mechanism_that_was_not_found_brings_nothing_known(busy: Discussion) -> None:
    answer = reply(busy, "set num_workers 8, would it help?")
    assert answer.intent == "what_if"
    assert answer.text.startswith("Not among the causes of this run: too few loader workers.")
    assert "Yes" not in answer.text


def test_another_mechanism_of_a_cause_that_was_found_is_not_confirmed(loader: Discussion) -> None:
    text = reply(loader, "could it be heavy transforms?").text
    assert text.startswith(("Not found: heavy data transforms;", "Not heavy data transforms on this evidence"))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("does it use tensor cores?", "No: "),
        ("are tensor cores used?", "No: "),
        ("is bf16 enabled?", "No: "),
        ("tensor cores?", "Found: "),
        ("could it be unused tensor cores?", "Yes: "),
        ("is it no_tensor_core?", "Yes: "),
    ],
)
def test_a_question_for_what_is_missing_gets_no_and_one_for_the_lack_of_it_yes(question: str, answer: str) -> None:
    ordinary_units = discussed.single_precision()
    assert reply(ordinary_units, question).text.startswith(
        f"{answer}the first of the causes found is matrix kernels without tensor cores."
    )


def test_is_x_the_bottleneck_is_about_x(loader: Discussion) -> None:
    answer = reply(loader, "is NCCL the bottleneck?")
    assert answer.intent == "suspicion"
    assert answer.text.startswith("Not communication, as far as training communicates.")
    assert reply(loader, "What is the bottleneck?").intent == "overview"


@pytest.mark.parametrize("question", ["how long does aten::mm take?", "how long does kernel sgemm take?"])
def test_one_kernel_or_operator_is_answered_by_its_name(busy: Discussion, question: str) -> None:
    answer = reply(busy, question)
    assert answer.intent == "named_work"
    assert {record.arguments["name"] for record in answer.evidence} == {question.split()[-2]}


@pytest.mark.parametrize(
    "question",
    [
        "how long does `sgenm` take?",
        "time of aten::mn",
        "how often does call sgenn run",
        "How long does the kernel `sgemm_made_up` run?",
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_ones_and_never_0(busy: Discussion, question: str) -> None:
    answer = reply(busy, question)
    assert answer.evidence == ()
    assert "no kernel or host call in its steps is called" in answer.text
    assert "`sgemm`" in answer.text
    assert "`aten::mm`" in answer.text


def test_a_question_for_more_ranks_than_are_read_says_so(late: Discussion) -> None:
    assert reply(late, "are ranks 0 to 100 slow?").notes == (
        "Only the first 64 ranks or steps of a question are read.",
    )


def test_the_first_change_is_for_a_well_supported_cause(loader: Discussion) -> None:
    unsure = loader.diagnosis.causes[0].model_copy(update={"cause": "straggler", "mechanism": None, "confidence": 0.4})
    change = loader.diagnosis.advice[0].model_copy(update={"id": "A9", "for_": "straggler", "mechanism": None})
    causes, advice = [unsure, *loader.diagnosis.causes], [change, *loader.diagnosis.advice]
    both = loader.diagnosis.model_copy(update={"causes": causes, "advice": advice})
    assert reply(Discussion(both, loader.material), "what should I change first?").text.count("[A1].") > 2
    alone = both.model_copy(update={"causes": [unsure], "advice": [change]})
    assert reply(Discussion(alone, loader.material), "what should I change first?").text.startswith("Low confidence; ")


def test_a_setting_that_the_question_names_is_predicted_as_whatif_does(loader: Discussion) -> None:
    answer = reply(loader, "What would num_workers=4 bring?")
    assert answer.intent == "what_if"
    low, high = (value(answer, "changed_speedup", changes="num_workers=4", bound=bound) for bound in ("low", "high"))
    assert low < 100.0 / value(answer, "changed_step_ms") < high
    refused = reply(loader, "What would bucket_cap_mb=50 bring?")
    assert "cannot be predicted from this recording" in refused.text
