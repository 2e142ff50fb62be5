"""Options of a command stand anywhere among its other arguments."""

from __future__ import annotations

from itertools import permutations

import pytest

from hermes_agent.cli.main import build_parser


@pytest.mark.parametrize("where", range(3))
def test_an_option_of_ask_stands_before_between_or_behind_run_and_question(where: int) -> None:
    words = ["RUN", "Why is it slow?"]
    words.insert(where, "--no-llm")
    args = build_parser().parse_args(["ask", *words])
    assert (args.words, args.no_llm, args.json) == (["RUN", "Why is it slow?"], True, False)


def test_every_order_of_two_runs_and_an_option_is_the_same_comparison() -> None:
    orders = [order for order in permutations(("A", "B", "--json")) if order.index("A") < order.index("B")]
    read = [build_parser().parse_args(["compare", *order]) for order in orders]
    assert {(str(args.before), str(args.after), args.json) for args in read} == {("A", "B", True)}


def test_a_command_below_a_command_takes_its_options_anywhere() -> None:
    args = build_parser().parse_args(["cases", "search", "slow", "--limit", "3", "loader"])
    assert (args.query, args.limit) == (["slow", "loader"], 3)


def test_an_unknown_option_and_a_missing_argument_are_still_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in ((["ask", "RUN", "--nonsense"], "--nonsense"), (["compare", "A", "--json"], "required")):
        with pytest.raises(SystemExit) as stopped:
            build_parser().parse_args(words)
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("diagnoze RUN", "did you mean diagnose?"),
        ("diagnose RUN --jsno", "diagnose: error: unrecognized arguments: --jsno; did you mean --json?"),
        ("cases serach loader", "did you mean search?"),
        (
            "diagnose RUN --htm page.html",
            "diagnose: error: unrecognized arguments: --htm page.html; did you mean --html?",
        ),
        ("ask RUN --b=1", "ask: error: unrecognized arguments: --b=1; did you mean --baseline?"),
        ("--debgu steps RUN", "did you mean --debug?"),
    ],
)
def test_a_misspelt_command_or_option_has_the_nearest_one(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        build_parser().parse_args(words.split())
    assert stopped.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(said)


def test_a_word_near_to_nothing_has_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["xyzzy"])
    assert "did you mean" not in capsys.readouterr().err
