"""A diagnosis, a comparison and evidence as messages; pure functions of the records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from hermes_agent.bot.feedback import About, about
from hermes_agent.bot.message import Button, Controls, Link, Links, Menu, Message, Paragraph, Part, Title
from hermes_agent.evidence.citations import cited_ids, without_citations, written
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis, EvidenceRecord
from hermes_agent.model.display import PLACE_TITLES, cause_heading, counted, rank_list, similar_cases_title
from hermes_agent.questions.answers.evidence_lookup import Shown
from hermes_agent.questions.prose import table
from hermes_agent.report.headline import headline_cause
from hermes_agent.report.html.answer import about_run, confidence
from hermes_agent.report.html.coverage import unanswered, unanswered_count
from hermes_agent.report.html.evidence import evidence_rows
from hermes_agent.report.sections import cause_facts, interval_meaning, lead_outlook, masked, on_devices, shared
from hermes_agent.run_comparison import RunComparison
from tools.knowledge.taxonomy import EFFORTS, causes

CAUSES, LEADS, FACTS, NEEDS, CHANGES, CASES, EVIDENCE = 3, 2, 6, 3, 12, 3, 15  # how many of each are shown
RUNS = 100  # names in a menu
ROWS = 10  # behind a figure
EVIDENCE_ACTION, WHY_NOT, COMPARE, RIGHT, WRONG, ACTUAL = "evidence", "why_not", "compare", "right", "wrong", "actual"


def answer_of(diagnosis: Diagnosis, run: str, others: Sequence[str] = ()) -> Message:
    """The answer: verdict, causes with predicted gains, facts, what to do next, what is open.

    ``others``: registered runs that it may be compared with.
    """
    parts: list[Part] = [Title(f"{run}: {diagnosis.verdict}"), Paragraph(diagnosis.headline), _run_line(diagnosis)]
    if diagnosis.comparison is not None:
        parts.append(_listed("Against the baseline", diagnosis.comparison.changes[:CHANGES]))
    parts += [_cause(place, cause, diagnosis) for place, cause in enumerate(diagnosis.causes[:CAUSES], start=1)]
    if (rest := len(diagnosis.causes) - CAUSES) > 0:
        parts.append(Paragraph(f"{counted(rest, 'smaller cause')} in the report.", small=True))
    if not diagnosis.causes or diagnosis.verdict == "inconclusive":
        parts += _leads(diagnosis)
    parts += [part for part in (_facts(diagnosis), _next(diagnosis), _open(diagnosis), _cases(diagnosis)) if part]
    parts += [*controls(diagnosis, run, others), _footer(diagnosis)]
    return Message(f"{run}: {diagnosis.verdict}. {without_citations(diagnosis.headline)}", tuple(parts))


def controls(diagnosis: Diagnosis, run: str, others: Sequence[str]) -> list[Part]:
    """Evidence, why not, compare, and whether the answer was right."""
    found = {cause.cause for cause in diagnosis.causes}
    absent = tuple((cause_heading(name, None), name) for name in sorted(causes()) if name not in found)
    items: list[Button | Menu] = [Button(EVIDENCE_ACTION, "Evidence", run), Menu(WHY_NOT, "Why not …", absent)]
    if comparable := tuple((name, name) for name in others if name != run)[:RUNS]:
        items.append(Menu(COMPARE, "Compare with …", comparable))
    said = about(run, diagnosis).model_dump_json(exclude_defaults=True)
    judged = (Button(RIGHT, "This was right", said), Button(WRONG, "This was wrong", said))
    return [Controls(f"ask {run}", tuple(items)), Controls(f"judge {run}", judged)]


def evidence_of(diagnosis: Diagnosis, run: str) -> Message:
    """The figures that the headline and the first causes cite, each with where it was measured."""
    texts = [
        diagnosis.headline,
        *(text for cause in diagnosis.causes[:CAUSES] for text in (cause.claim, *cause.details)),
    ]
    texts += [item.text for item in diagnosis.advice[:CAUSES]]
    cited = list(dict.fromkeys(name for text in texts for name in cited_ids(text)))
    rows = {row.id: row for row in evidence_rows(diagnosis)}
    records = {record.id: record for record in diagnosis.evidence}
    shown = [name for name in cited if name in rows][:EVIDENCE]
    lines = [f"- **{name}** {rows[name].figure}: {_measured(records[name])}" for name in shown]
    more = len([name for name in cited if name in rows]) - len(shown)
    after = f" {more} more in the report." if more > 0 else ""
    small = Paragraph(
        f"Ask here for example “show {shown[0] if shown else 'E1'}” to measure a figure again.{after}", True
    )
    text = "\n".join(lines) or "The answer cites no figure."
    return Message(f"Evidence of {run}", (Title(f"{run}: evidence"), Paragraph(text), small))


def comparison_of(found: RunComparison, before: str, after: str) -> Message:
    """What changed from one run to another."""
    text = found.headline
    if found.interval is not None:
        text += (
            f" (95 % interval of the step's change: {found.interval.low_pct:+.1f} to {found.interval.high_pct:+.1f} %)"
        )
    parts: list[Part] = [Title(f"{before} → {after}"), Paragraph(text)]
    if found.changes:
        parts.append(_listed("Changes", found.changes[:CHANGES]))
    if (more := len(found.changes) - CHANGES) > 0:
        parts.append(Paragraph(f"{more} more: `hermes-dx compare A B`", small=True))
    parts += [Paragraph(note, small=True) for note in found.notes]
    return Message(f"{before} against {after}: {without_citations(found.headline)}", tuple(parts))


def record_of(shown: Shown) -> Message:
    """The record of an id, for evidence measured again and with its first rows."""
    lines = [f"**{shown.title}**"]
    for of_table, some in groupby(shown.lines, lambda line: " | " in line):
        fence = ["```"] * of_table
        lines += [*fence, *some, *fence]
    parts: list[Part] = [Paragraph("\n".join(lines))]
    found = shown.table
    if found is not None and found.rows:
        rows = found.rows[:ROWS]
        part = f"first {len(rows)} of {found.total}" if len(rows) < found.total else f"all {found.total}"
        parts.append(Paragraph(f"Rows behind it, {part}:\n{table(found.columns, rows)}"))
    return Message(shown.title, tuple(parts))


def asked_for_cause(said: About) -> Message:
    """After "wrong": which cause it was."""
    options = tuple((cause_heading(name, None), name) for name in sorted(causes()))
    menu = Controls(f"{said.run} {said.diagnosis}", (Menu(ACTUAL, "It was …", options),))
    return Message("Which cause was it?", (Paragraph("Noted, thank you. Which cause was it, if you know?"), menu))


def _run_line(diagnosis: Diagnosis) -> Paragraph:
    times = diagnosis.step_time_ms
    step = f"average step {written(times.mean, 'ms')} [{times.evidence[0]}]" if times and times.evidence else ""
    return Paragraph(" · ".join(filter(None, (about_run(diagnosis), step, confidence(diagnosis)))), small=True)


def _cause(place: int, cause: CauseRecord, diagnosis: Diagnosis) -> Paragraph:
    lines = [
        f"**{place}. {cause_heading(cause.cause, cause.mechanism)}**: saves {cause_facts(cause, diagnosis)}",
        cause.claim,
    ]
    lines += [*masked(cause), *shared(cause)]
    own = [each for each in diagnosis.advice if (each.for_, each.mechanism) == (cause.cause, cause.mechanism)]
    for item in own[:1]:
        gain = f" {item.text}" if item.text else " Its gain cannot be predicted from this recording."
        lines.append(f"Fix: {item.optimization} [{item.id}], {EFFORTS[item.effort]} of work.{gain}")
    return Paragraph("\n".join(lines))


def _leads(diagnosis: Diagnosis) -> list[Part]:
    parts: list[Part] = []
    for lead in diagnosis.leads[:LEADS]:
        place = f"{PLACE_TITLES[lead.place.part]}, {lead.place.steps}"
        outlook = f"\n{lead_outlook(lead, on_devices(diagnosis.run))}" if lead.candidates else ""
        parts.append(Paragraph(f"**Lead {lead.id}: {place}** (seen, not explained)\n{lead.claim}{outlook}"))
    return parts


def _facts(diagnosis: Diagnosis) -> Paragraph | None:
    """Cited facts of the cause in the headline; of a run without causes the other sentences of the answer."""
    cause = headline_cause(diagnosis)
    told = [*cause.details, *cause.symptoms] if cause is not None else diagnosis.answer[1:]
    cited = [text for text in told if cited_ids(text)]
    return _listed("Facts", cited[:FACTS]) if cited else None


def _next(diagnosis: Diagnosis) -> Paragraph | None:
    cause = headline_cause(diagnosis)
    fitting = [each for each in diagnosis.advice if cause is not None and each.for_ == cause.cause]
    for item in (fitting or diagnosis.advice)[:1]:
        return Paragraph(f"**Next:** {item.optimization} [{item.id}]. How: {item.how}. Verify: {item.verify}.")
    if diagnosis.next_measurements:
        return Paragraph(f"**Next:** record {diagnosis.next_measurements[0].rstrip('.')}.")
    return Paragraph("**Next:** nothing to change for what was observed.") if diagnosis.verdict == "healthy" else None


def _open(diagnosis: Diagnosis) -> Paragraph | None:
    needs = unanswered(diagnosis)
    if not needs:
        return None
    lines = [f"- {need.rstrip('.')}" for need, _ in needs[:NEEDS]]
    more = [f"- and {len(needs) - NEEDS} more in the report"] if len(needs) > NEEDS else []
    return Paragraph(
        "\n".join([f"**Not assessable:** {unanswered_count(diagnosis)}. To answer more, record", *lines, *more])
    )


def _cases(diagnosis: Diagnosis) -> Links | None:
    links = tuple(Link(f"[{case.id}] {case.title}", case.url) for case in diagnosis.cases[:CASES])
    return (
        Links(f"{similar_cases_title(diagnosis.cases)} (suggestions, no evidence for this run)", links)
        if links
        else None
    )


def _footer(diagnosis: Diagnosis) -> Paragraph:
    meaning = " ".join(interval_meaning(diagnosis))
    return Paragraph(f"{meaning} Ask more in this thread, for example “Which rank is slow?”".strip(), small=True)


def _listed(title: str, items: Iterable[str]) -> Paragraph:
    return Paragraph("\n".join([f"**{title}**", *(f"- {item}" for item in items)]))


def _measured(record: EvidenceRecord) -> str:
    from tools.judgement.catalog import label

    named = label(record.metric, record.arguments)
    where = f", {rank_list(record.ranks)}" if record.ranks and " rank" not in named else ""
    of_baseline = ", baseline" if record.run == "baseline" else ""
    return f"{named}{where}{of_baseline}"
