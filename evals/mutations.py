"""Statements of a model, true and corrupted, against the checks: ``python -m evals.mutations [DIAGNOSIS.json ...]``.

Without arguments the bundled demo run is diagnosed. The table counts, for each kind of corruption, how many were made
and how many were refused, then the true statements and how many of them passed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, product
from pathlib import Path

import yaml
from pydantic import BaseModel

from hermes_agent.demo.data import demo_run
from hermes_agent.evidence.index import evidence_index
from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord
from hermes_agent.model.request import Request
from hermes_agent.statements.checks import faults_of, is_guess
from hermes_agent.statements.context import CheckContext, Truth, claim_of, names_of
from hermes_agent.statements.graph import edge_of, untested
from hermes_agent.statements.record import Statement
from hermes_agent.statements.wording import is_predicted
from hermes_agent.workflow.diagnose import diagnose
from tools.knowledge.taxonomy import causes
from tools.views.parts import PARTS

OTHER: tuple[Truth, ...] = ("absent", "open")
TRUTHS: tuple[Truth, ...] = ("present", *OTHER)
FIGURES = ("measured", "predicted")
TRICKS = ("value", "figure in words", "fraction", "other script", "markup")


class Tables(BaseModel):
    """The contents of ``mutations.yaml``."""

    tricks: dict[str, list[str]]
    phrases: dict[str, list[str]]
    parts: dict[str, str]
    families: dict[str, str]


@lru_cache(maxsize=1)
def _tables() -> Tables:
    return Tables.model_validate(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Corruption:
    """A statement that must not pass."""

    kind: str
    statement: Statement


def true_statements(diagnosis: Diagnosis) -> list[Statement]:
    """Statements that a careful model could make of the diagnosis."""
    found = [":".join(filter(None, (each.cause, each.mechanism))) for each in diagnosis.causes]
    pairs = zip(found, diagnosis.causes, strict=True)
    said = [_said("", "causal", name, "present", each.evidence[:3]) for name, each in pairs]
    said += [_claimed(name, claim) for name, claim in _claims(diagnosis).items() if claim in OTHER]
    said += [
        _said(text, "predicted" if is_predicted(record) else "measured")
        for record in diagnosis.evidence
        for text in _phrased(record)
    ]
    said += [_said(f"First, {{{item.id}}}.", "advice") for item in diagnosis.advice]
    said += [_said(f"To verify: {{{item.id}:verify}}.", "advice") for item in diagnosis.advice]
    said += [_said(f"A run like this is described in {{{case.id}}}.", "advice") for case in diagnosis.cases]
    unanswered = [check.analyzer for check in diagnosis.checks if check.status == "cannot_answer"]
    said += [_said(f"The check is {{open:{name}}}.", "unknown") for name in unanswered]
    for name in found:
        said.append(_said("With {cause} fixed, the step would change.", "causal", name, "about"))
        said.append(_said("Should {cause} be looked at in a new recording?", "unknown", name))
    return said + list(_comparisons(diagnosis))


def corruptions(diagnosis: Diagnosis) -> Iterator[Corruption]:
    """True statements made false, and tricks that put a figure or a claim into words."""
    true = true_statements(diagnosis)
    with_figure = [each for each in true if each.kind in FIGURES][:40]
    base = with_figure[0]
    slot = base.text[base.text.index("{E") : base.text.index("}", base.text.index("{E")) + 1]
    yield from _tricks(base, slot)
    yield from chain.from_iterable(_other_places(each, diagnosis) for each in with_figure)
    yield from chain.from_iterable(_other_subjects(each, diagnosis) for each in with_figure)
    for name, claim in _claims(diagnosis).items():
        open_too = claim is None and untested(diagnosis, name) is not None  # by a hypothesis that no test decided
        for other in (each for each in TRUTHS if each != claim and not (open_too and each == "open")):
            yield Corruption("cause claimed by fields", _claimed(name, other))
    parts = [record for record in diagnosis.evidence if record.metric == "part_pct" and "rank" not in record.arguments]
    for record, text in product(parts, _tables().tricks["insinuation"]):
        words = _tables().parts.get(str(record.arguments["part"]), "that")
        text = text.replace("{p}", words).replace("{x}", f"{{{record.id}}}")
        yield Corruption("cause claimed in words", _said(text, "measured"))
    ids = [name for record in diagnosis.causes for name in record.evidence]
    for name, claim in _claims(diagnosis).items():
        if claim != "present":
            text = f"{{cause}} shows {{{ids[0]}}}." if ids else "{cause}."
            yield Corruption("cause claimed by fields", _said(text, "measured", name))
            yield Corruption("cause claimed by fields", _said("{cause} is at work.", "advice", name, evidence=["A1"]))
    for each in with_figure:
        yield Corruption("invented id", each.model_copy(update={"text": each.text.replace("{E", "{E9")}))
        yield Corruption("invented id", each.model_copy(update={"evidence": ["E99999"]}))
    for text in _tables().tricks["invented"]:
        yield Corruption("invented id", _said(text, "advice", evidence=["A1"]))
    for record in diagnosis.evidence:
        if record.metric == "predicted_speedup":
            yield Corruption("unit", _said(f"A step would take {{{record.id}}}.", "predicted"))
    yield from _off_the_edges(diagnosis)
    yield from _other_kinds(diagnosis, with_figure)


def _off_the_edges(diagnosis: Diagnosis) -> Iterator[Corruption]:
    """A cause on a rank or in a part where it is not, with figures of something else, and guesses that say too much."""
    for found in diagnosis.causes:
        base = _said("", "causal", found.cause, "present")
        edge = edge_of(diagnosis, found.cause)
        assert edge is not None
        elsewhere = [number for number in diagnosis.run.ranks if number not in edge.ranks][:2]
        for rank in (*elsewhere, max(diagnosis.run.ranks, default=0) + 7):
            yield Corruption("edge", base.model_copy(update={"ranks": [rank]}))
        for part in sorted({*PARTS} - edge.parts):
            yield Corruption("edge", base.model_copy(update={"part": part}))
        others = (record for record in diagnosis.evidence if record.arguments.get("part") in {*PARTS} - edge.parts)
        for record in [each for each in others if each.id not in edge.symptoms][:3]:
            yield Corruption("edge", base.model_copy(update={"evidence": [record.id]}))
    ids = [record.id for record in diagnosis.evidence][:1]
    for name, claim in _claims(diagnosis).items():
        if claim == "present":
            continue
        yield Corruption("guess", _said("", "causal", name, "guess", ids))
        yield Corruption("guess", _said(f"It takes {{{ids[0]}}} per step.", "causal", name, "guess"))
        if claim == "absent":
            yield Corruption("guess", _said("", "causal", name, "guess"))


def _other_kinds(diagnosis: Diagnosis, with_figure: Sequence[Statement]) -> Iterator[Corruption]:
    """Figures called unknown, predictions called measured and the other way round, advice without the table."""
    for each in with_figure:
        other = "measured" if each.kind == "predicted" else "predicted"
        yield Corruption("kind", each.model_copy(update={"kind": other}))
        yield Corruption("kind", each.model_copy(update={"kind": "unknown"}))
        yield Corruption("kind", each.model_copy(update={"kind": "advice"}))
    for found in diagnosis.causes:
        yield Corruption("kind", _said("", "unknown", found.cause))


def _tricks(base: Statement, slot: str) -> Iterator[Corruption]:
    """Free text that tries to state a figure or a claim without a slot."""
    tables = _tables().tricks
    for kind in TRICKS:
        for trick in tables[kind]:
            yield Corruption(kind, base.model_copy(update={"text": base.text.replace(slot, f"{trick} {slot}")}))
            yield Corruption(kind, base.model_copy(update={"text": f"{base.text} That is {trick} the step."}))
    for unit in tables["unit"]:
        yield Corruption("unit", base.model_copy(update={"text": base.text.replace(slot, unit.replace("{x}", slot))}))
    for words in tables["direction"]:
        yield Corruption("direction", base.model_copy(update={"text": f"{base.text.rstrip('.')}, {words} before."}))
    for claim in tables["claim"]:
        yield Corruption("cause claimed in words", _said(claim, "measured"))
        yield Corruption("cause claimed in words", base.model_copy(update={"text": f"{base.text} {claim}"}))
        yield Corruption("cause claimed in words", _said(claim, "advice", evidence=["A1"]))


def _other_places(statement: Statement, diagnosis: Diagnosis) -> Iterator[Corruption]:
    for kind, numbers in (("rank", diagnosis.run.ranks), ("step", diagnosis.run.steps)):
        own = next((str(n) for n in numbers if f"{{{kind}:{n}}}" in statement.text), None)
        missing = max(numbers) + 7
        for number in [n for n in numbers if str(n) != own][:2] * (own is not None) + [missing]:
            text = statement.text.replace(f"{{{kind}:{own}}}", f"{{{kind}:{number}}}")
            text = text if own is not None else f"On {{{kind}:{number}}}: {text}"
            yield Corruption(kind, statement.model_copy(update={"text": text}))


def _other_subjects(statement: Statement, diagnosis: Diagnosis) -> Iterator[Corruption]:
    """The figure of another part or family in place of the right one, and two figures exchanged."""
    evidence = {record.id: record for record in diagnosis.evidence}
    own = next(record for record in diagnosis.evidence if f"{{{record.id}}}" in statement.text)
    named = own.arguments.get("part") or own.arguments.get("family")
    for other in evidence.values():
        of_other = other.arguments.get("part") or other.arguments.get("family")
        if named and of_other and of_other != named and other.metric == own.metric:
            yield Corruption(
                "subject", statement.model_copy(update={"text": statement.text.replace(own.id, other.id, 1)})
            )


def _claimed(cause: str, truth: Truth) -> Statement:
    """The statement that says so of a cause."""
    return _said("", "unknown", cause) if truth == "open" else _said("", "causal", cause, truth)


def _claims(diagnosis: Diagnosis) -> dict[str, Truth | None]:
    """Each cause with the claim that holds for it."""
    return {name: claim_of(diagnosis, name) for name in causes()}


def _phrased(record: EvidenceRecord) -> Iterator[str]:
    if record.run == "baseline" or record.arguments.get("bound"):
        return
    tables, named = _tables(), [str(record.arguments.get(name)) for name in ("part", "family")]
    part = next((words for name in named if (words := tables.parts.get(name) or tables.families.get(name))), "")
    statistic = str(record.arguments.get("statistic") or "typical").replace("mean", "average")
    for phrase in tables.phrases.get(record.metric, ()):
        if ("{p}" in phrase and not part) or ("{s}" in phrase and statistic not in ("average", "median", "typical")):
            continue
        text = phrase.replace("{x}", f"{{{record.id}}}").replace("{p}", part).replace("{s}", statistic)
        yield text[:1].upper() + text[1:]
        if isinstance(rank := record.arguments.get("rank"), int):
            yield f"On {{rank:{rank}}}, {text[:1].lower()}{text[1:]}"


def _comparisons(diagnosis: Diagnosis) -> Iterator[Statement]:
    parts = [record for record in diagnosis.evidence if record.metric == "part_pct" and "rank" not in record.arguments]
    for first, second in pairwise(parts):
        one, two = (_tables().parts.get(str(record.arguments["part"]), "") for record in (first, second))
        if one and two:
            yield _said(f"{one} fills {{{first.id}}} of the step, {{than}} {two} with {{{second.id}}}.", "measured")


def _said(
    text: str, kind: str, cause: str | None = None, claim: str | None = None, evidence: Sequence[str] = ()
) -> Statement:
    fields = {"text": text, "kind": kind, "cause": cause, "claim": claim, "evidence": list(evidence)}
    return Statement.model_validate(fields)


def context_of(diagnosis: Diagnosis) -> CheckContext:
    """The context in which a model's statements about a diagnosis are checked."""
    return CheckContext(diagnosis, evidence_index(diagnosis), names_of(diagnosis, diagnosis.evidence))


def passes(text: str, context: CheckContext) -> bool:
    """Return whether a statement, as JSON, would reach a reader as what it claims: not as a mere guess."""
    made = Statement.model_validate_json(text)
    return not faults_of(made, context) and not (made.claim == "present" and is_guess(made, context))


@dataclass(frozen=True)
class Tally:
    """Number of corruptions of a kind, and those that passed; for true statements, those that did not."""

    made: int
    wrong: tuple[str, ...]


def tally(diagnosis: Diagnosis) -> dict[str, Tally]:
    """The counts by kind of corruption, and those of true statements under ``true``."""
    context = context_of(diagnosis)
    by_kind: dict[str, list[Statement]] = {}
    for each in corruptions(diagnosis):
        by_kind.setdefault(each.kind, []).append(each.statement)
    counts = {kind: _tally(found, context, wanted=False) for kind, found in sorted(by_kind.items())}
    return counts | {"true": _tally(true_statements(diagnosis), context, wanted=True)}


def _tally(statements: Sequence[Statement], context: CheckContext, wanted: bool) -> Tally:
    texts = [each.model_dump_json() for each in statements]  # as a model would return them
    return Tally(len(texts), tuple(text for text in texts if passes(text, context) is not wanted))


def main(paths: Sequence[str]) -> None:
    """Print the table for stored diagnoses, or for the bundled run."""
    diagnoses = [Diagnosis.model_validate_json(Path(path).read_text(encoding="utf-8")) for path in paths]
    tallies = [tally(diagnosis) for diagnosis in diagnoses or [demo_diagnosis()]]
    print(f"{'kind':<26}{'made':>7}{'refused':>9}")
    for kind in dict.fromkeys(kind for each in tallies for kind in each if kind != "true"):
        made = sum(each[kind].made for each in tallies if kind in each)
        print(f"{kind:<26}{made:>7}{made - sum(len(each[kind].wrong) for each in tallies if kind in each):>9}")
    true = sum(each["true"].made for each in tallies)
    print(f"\n{'true statements':<26}{true:>7}{true - sum(len(each['true'].wrong) for each in tallies):>9} passed")
    for each in tallies:
        for kind, counts in each.items():
            for text in counts.wrong:
                print(f"{kind}: {text}", file=sys.stderr)


@lru_cache(maxsize=1)
def demo_diagnosis() -> Diagnosis:
    """The diagnosis of the bundled run, without any model."""
    with tempfile.TemporaryDirectory() as cache:
        return diagnose(Request(paths=(demo_run(),), cache_dir=Path(cache)), lambda _: None)


if __name__ == "__main__":
    main(sys.argv[1:])
