"""True sentences pass, and the same sentences made false do not: measured on the bundled run and on real traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.evidence.grounds import grounds
from hermes_agent.evidence.verifier import cited_ids, sentences
from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord
from hermes_agent.model.events import Event
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from hermes_agent.writing.claims import Bearings, faults

REAL = (
    "kineto/resnet50_workers0.pt.trace.json.gz",
    "hta/trace_diff_test.json.gz",
    "tracelens/mi300_resnet_act_checkpoint.json.gz",
    "hta/critical_path_cuda_event_sync_multi_stream.json.gz",
)
TRUE_PASS = 0.85
FALSE_REFUSED = 0.95
FIGURE = re.compile(r"(?P<value>\d[\d.,]*(?: (?:ms|us|%)(?![\w/])|x)) \[(?P<id>E\d+)\]")
SUBJECTS = (
    "waiting for data",
    "computation",
    "exposed communication",
    "host program",
    "exposed copies",
    "idle with work launched",
    "data input",
    "copies and memory",
)


def silent(_: Event) -> None:
    pass


def true_sentences(diagnosis: Diagnosis) -> list[str]:
    texts = [*diagnosis.answer, *(item.text for item in diagnosis.advice)]
    texts += [text for cause in diagnosis.causes for text in (cause.claim, *cause.details, *cause.against)]
    texts += [text for check in diagnosis.checks for text in check.text]
    return list(dict.fromkeys(each for text in texts for each in sentences(text) if cited_ids(each)))


def about(record: EvidenceRecord) -> tuple[str, object]:
    """What a figure measures, whatever its unit."""
    return re.sub("_(ms|pct|us)$", "", record.metric), sorted(record.arguments.items(), key=str)


def swapped(sentence: str, evidence: dict[str, EvidenceRecord]) -> Iterator[str]:
    """Two values exchanged, two ids exchanged, and two figures with their ids exchanged."""
    for first, second in combinations(FIGURE.finditer(sentence), 2):
        same = about(evidence[first["id"]]) == about(evidence[second["id"]])
        if same or first["value"] == second["value"] or first["id"] == second["id"]:
            continue
        for group in (
            ("value", "id", 0) if evidence[first["id"]].unit == evidence[second["id"]].unit else ("value", "id")
        ):
            (a, b), (c, d) = first.span(group), second.span(group)
            yield sentence[:a] + second[group] + sentence[b:c] + first[group] + sentence[d:]


def renamed(sentence: str) -> Iterator[str]:
    """One subject put in the place of another, and a gain turned into a loss."""
    for subject in SUBJECTS:
        if re.search(rf"\b{subject}\b", sentence, re.IGNORECASE):
            others = [other for other in SUBJECTS if other not in sentence.lower() and other not in subject]
            yield from (
                re.sub(rf"\b{subject}\b", other, sentence, count=1, flags=re.IGNORECASE) for other in others[:2]
            )
            break
    if "faster" in sentence:
        yield sentence.replace("faster", "slower")
    if "average step" in sentence:
        yield sentence.replace("average step", "median step")


def counts(path: Path, cache: Path) -> tuple[int, int, int, int]:
    """True sentences that pass, all of them; false ones that are refused, all of them."""
    diagnosis = diagnose(Request(paths=(path,), cache_dir=cache), silent)
    evidence = {record.id: record for record in diagnosis.evidence}
    bearings = Bearings(diagnosis, grounds(diagnosis), evidence, frozenset())
    true = true_sentences(diagnosis)
    false = [each for sentence in true for each in (*swapped(sentence, evidence), *renamed(sentence))]
    passed = sum(not faults(each, bearings, cite_all=True) for each in true)
    refused = sum(bool(faults(each, bearings, cite_all=True)) for each in false)
    return passed, len(true), refused, len(false)


def test_on_the_bundled_run_what_is_true_passes_and_what_is_false_does_not(tmp_path: Path) -> None:
    passed, true, refused, false = counts(demo_run(), tmp_path)
    assert true > 15
    assert false > 60
    assert passed >= TRUE_PASS * true
    assert refused >= FALSE_REFUSED * false


@pytest.mark.parametrize("name", REAL)
def test_on_a_real_trace_what_is_true_passes_and_what_is_false_does_not(
    traces: Path, tmp_path: Path, name: str
) -> None:
    passed, true, refused, false = counts(traces / name, tmp_path)
    assert true > 15
    assert false > 60
    assert passed >= TRUE_PASS * true - 1  # one sentence of so few may be told too freely for the check
    assert refused >= FALSE_REFUSED * false
