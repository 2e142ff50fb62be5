"""The table over profiles, and for each profile its tags, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from evals.agent.questions import Question
from evals.agent.suite import SCORES, Scored

HEAD = """# Questions to the agent

Made by `python -m evals.agent --write`. *Own* is a model's own text before the checker, *shown* what a user reads: the
answer from templates first, then the statements that passed, each read alone. A row counts answers in percent.

- *Right*: a statement among the first gives each figure (measured when it is scored) for its place and quantity, the
  cause or what is missing; most of what stands before it is about what was asked; and nothing is false. What was not
  understood is never right.
- *Grounded*: that statement cites what measures it; a causal one names the right ranks and part of the step and rests
  on the evidence of that cause; and nothing is false. *Both* as in OpenRCA 2.0.
- *False*: answers with a causal or measured statement that the label of the run, the graph of the diagnosis or the
  evidence does not support: another cause, rank, part, quantity or kind, a figure without evidence.

The other columns count the questions that ask for it. *competent* decides by the prompt, the schemas of the tools and
their results; *listing* names all that it was given, *parrot* repeats the question. Their *shown* is the answer from
templates: what counts there is that nothing false is added. *recorded* is a small real model (SmolLM2, 135 million
parameters, on a CPU, 150 s for each question) on a subset; `make agent-real` asks it again.
"""
COLUMNS = ("right", "grounded", "both", "tool_choice", "answer_fact", "abstained", "grounded_path")


def report(results: Sequence[Scored], skipped: Sequence[Question]) -> str:
    """The report as Markdown."""
    profiles = list(dict.fromkeys(each.profile for each in results))
    count = len({each.question.id for each in results})
    lost = len({each.question.id for each in results if not each.understood})
    lines = [
        HEAD,
        f"{count} questions, {lost} of them not understood without a model."
        + (f" Skipped, as their run is absent: {_ids(skipped)}." if skipped else ""),
        "",
    ]
    lines += _row(("profile", "n", "text", *COLUMNS, "false", "with model's words"))
    lines += _row(["---"] * (len(COLUMNS) + 5))
    for profile in profiles:
        own = [each for each in results if each.profile == profile]
        by_model = _percent([each.by == "model" for each in own])
        asked = str(len(own))
        if profile != "template":
            lines += _row((profile, asked, "own", *_scores(each.own for each in own), _lying(own, shown=False), ""))
        lines += _row(
            (profile, asked, "shown", *_scores(each.shown for each in own), _lying(own, shown=True), by_model)
        )
    for profile in profiles:
        lines += ["", f"## {profile}", "", *_row(("tag", "questions", "right", "both", "false, own", "false, shown"))]
        lines += _row(["---"] * 6)
        lines += _tags([each for each in results if each.profile == profile])
    return "\n".join(lines)


def _tags(results: Sequence[Scored]) -> list[str]:
    """A row for each tag, the fewest right and grounded answers first."""
    tags = dict.fromkeys(each.question.asked.tag for each in results)
    rows = []
    for tag in tags:
        own = [each for each in results if each.question.asked.tag == tag]
        scores = [each.shown if each.profile == "template" else each.own for each in own]
        both = fmean(score["both"] or 0.0 for score in scores)
        right = _percent([score["right"] for score in scores])
        row = (tag, str(len(own)), right, f"{100 * both:.0f}", _lying(own, shown=False), _lying(own, shown=True))
        rows.append((both, row))
    return [line for _, row in sorted(rows, key=lambda each: each[0]) for line in _row(row)]


def _scores(scores: Iterable[dict[str, float | None]]) -> list[str]:
    known = list(scores)
    return [_percent([score[name] for score in known]) for name in COLUMNS if name in SCORES]


def _percent(values: Sequence[float | bool | None]) -> str:
    asked = [float(value) for value in values if value is not None]
    return f"{100 * fmean(asked):.0f}" if asked else "-"


def _lying(results: Sequence[Scored], *, shown: bool) -> str:
    return _percent([bool(each.shown_false if shown else each.own_false) for each in results])


def _ids(skipped: Sequence[Question]) -> str:
    return ", ".join(each.id for each in skipped)


def _row(cells: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(cells)} |"]
