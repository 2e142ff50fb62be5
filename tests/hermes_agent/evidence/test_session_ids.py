"""An id of a session keeps its meaning when the run is diagnosed again."""

from __future__ import annotations

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.evidence.session_ids import GivenIds, cited_records, figure_key, recited, renumbered
from hermes_agent.model.diagnosis import Diagnosis, HypothesisRecord
from tests.hermes_agent.tui.fake_session import diagnosis, evidence


def again() -> Diagnosis:
    """The same run diagnosed again: E1 is another figure, E2 and E3 have changed places, a cause has a hypothesis."""
    first = diagnosis()
    _, two, three, four = first.evidence
    return first.model_copy(
        update={
            "evidence": [
                evidence("E1", "step_time_ms", 120.0, "ms"),
                three.model_copy(update={"id": "E2"}),
                two.model_copy(update={"id": "E3"}),
                four,
            ],
            "answer": ["A step takes 120 ms [E1]; 60 ms [E3] are lost, 64 % [E2, E4] is computation."],
            "hypotheses": [HypothesisRecord(id="H1", cause="slow_link", status="open")],
        }
    )


def test_a_figure_that_is_the_same_keeps_its_id_and_another_gets_one_that_was_never_given_out() -> None:
    given = GivenIds().with_records(cited_records(diagnosis())).with_ids(["E9"])
    own = renumbered(again(), given)
    assert [each.id for each in own.evidence] == ["E10", "E3", "E2", "E4"]
    assert own.answer == ["A step takes 120 ms [E10]; 60 ms [E2] are lost, 64 % [E3, E4] is computation."]
    known = {each.id: figure_key(each) for each in diagnosis().evidence}
    assert all(figure_key(each) == known[each.id] for each in own.evidence if each.id in known)
    assert own.cases == diagnosis().cases
    assert [each.id for each in own.hypotheses] == ["H1"]


def test_advice_that_rests_on_another_figure_is_other_advice() -> None:
    given = GivenIds().with_records(cited_records(diagnosis()))
    own = renumbered(again(), given)
    assert (own.advice[0].id, own.advice[0].evidence) == ("A2", ["E5", "E3"])
    assert cited_ids(own.advice[0].text) == ["E5", "E3"]
    assert renumbered(own, given) == own
    assert renumbered(diagnosis(), given) == diagnosis()
    assert renumbered(diagnosis(), GivenIds()) == diagnosis()


def test_a_hypothesis_keeps_its_id_whatever_testing_it_gave() -> None:
    given = GivenIds().with_records(cited_records(again()))
    tested = HypothesisRecord(id="H3", cause="slow_link", status="refuted")
    own = renumbered(again().model_copy(update={"hypotheses": [tested]}), given)
    assert [(each.id, each.status) for each in own.hypotheses] == [("H1", "refuted")]


def test_only_citations_are_rewritten() -> None:
    names = {"E1": "E2", "E2": "E30", "H1": "H4"}
    text = "`gemm(E1)` on an H1 takes 1 ms [E1; E2], refuted by a measurement (H1); rows e1.1 [E10]"
    expected = "`gemm(E1)` on an H1 takes 1 ms [E2; E30], refuted by a measurement (H4); rows e1.1 [E10]"
    assert recited(text, names) == expected


def test_the_first_meaning_of_an_id_stays() -> None:
    given = GivenIds().with_records(cited_records(diagnosis())).with_records(again().evidence)
    assert given.records["E1"] == diagnosis().evidence[0]
