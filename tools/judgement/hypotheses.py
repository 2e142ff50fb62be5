"""Hypotheses: causes that may be behind what is seen but not explained, proposed, tested and judged by rules.

A hypothesis changes its status only by a rule over a measured figure (``tools/knowledge/tests.yaml``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Literal

from tools.analyzers.registry import spec_of
from tools.errors import UsageError
from tools.findings import Check, Fact, Sentence
from tools.judgement.catalog import label, measure, metrics
from tools.judgement.lead import Candidate, Lead
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import Ranking
from tools.judgement.verdict import EXPLAINING, NO_CAUSE, UNCHECKED
from tools.knowledge.hypothesis_tests import HypothesisTest, tests_of
from tools.knowledge.taxonomy import causes
from tools.metrics.offload import MOSTLY_OFFLOADED
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.steps.coarse import by_torch

Status = Literal["supported", "open", "untestable", "refuted"]
STATUSES: tuple[Status, ...] = ("supported", "open", "untestable", "refuted")  # in the order of a report
MOST = 12  # hypotheses of one diagnosis
MOST_OF_PART = 3  # that are proposed for a part only because their check could not be answered
EVERY_STEP = ("every step", "")
SUPPORTED = (
    "much of the step is not computation; a measurement supports {} (lead {}), and what is behind it is not known"
)


@dataclass(frozen=True)
class Hypothesis:
    """A cause that may be behind a part of the step, and what testing it gave.

    ``lead`` is the number of the lead that it would explain, from 1; 0 for a cause found with low confidence and for a
    part as a whole. ``ranks``: where the cause is, of a straggler the rank that ``seen_on`` wait for.
    ``size_ms`` and ``size_pct``: what it would have to explain, per step and of the step.
    """

    number: int  # H1, H2, ...
    cause: str
    mechanism: str | None
    ranks: tuple[int, ...]
    lead: int
    part: str  # "" for a cause that was found
    steps: str
    size_ms: float
    size_pct: float
    likelihood: float
    needs: str  # what would decide beyond the tests
    status: Status = "open"
    tried: int = 0  # tests
    measured: int = 0  # tests that gave a figure
    evidence: tuple[Fact, ...] = ()
    against: tuple[Fact, ...] = ()
    judged_by: Sentence | None = None
    proposed_by: Literal["analyzers", "model"] = "analyzers"
    seen_on: tuple[int, ...] = ()  # the ranks that wait for a straggler; () is all others
    first: str = ""  # metric of the test to begin with; "": the most decisive one

    @property
    def test(self) -> HypothesisTest | None:
        """The next test; None where the status is decided or none is left."""
        own = sorted(tests_of(self.cause).of(self.part), key=lambda each: each.metric != self.first)
        return own[self.tried] if self.status == "open" and self.tried < len(own) else None


def worth_investigating(profile: Profile, ranking: Ranking) -> bool:
    """Return whether something noticeable is unexplained, or a large cause was found with low confidence."""
    return bool(ranking.leads or ranking.unexplained or _doubtful(profile, ranking))


def propose(
    profile: Profile, ranking: Ranking, checks: Sequence[Check], known: Sequence[Hypothesis]
) -> tuple[Hypothesis, ...]:
    """New hypotheses: candidates of leads and doubtful causes; then, for a part where all are refuted or that no lead
    is about, causes whose check could not be answered."""
    found: list[Hypothesis] = []
    if not known:
        found += [each for number, lead in _of_steps(ranking) for each in _of_lead(profile, number, lead)]
        of_leads = {(each.cause, each.ranks) for each in found}
        doubtful = [_of_cause(each) for each in _doubtful(profile, ranking)]
        found += [each for each in doubtful if (each.cause, each.ranks) not in of_leads]
    found += _of_open_parts(profile, ranking, checks, [*known, *found])
    taken = {(each.cause, each.lead, each.part) for each in known}
    new = [each for each in found if (each.cause, each.lead, each.part) not in taken][: MOST - len(known)]
    return tuple(_untestable(replace(each, number=len(known) + at)) for at, each in enumerate(new, start=1))


def _of_steps(ranking: Ranking) -> list[tuple[int, Lead]]:
    """The leads with their numbers, less those of collectives that do not end: steps do not show why."""
    hung = ranking.steps_verdict is not None
    return [(at, each) for at, each in enumerate(ranking.leads, start=1) if each.impact_ms > 0.0 or not hung]


def proposed(
    profile: Profile, ranking: Ranking, cause: str, known: Sequence[Hypothesis], test: str = ""
) -> Hypothesis | None:
    """The hypothesis of a model that this cause is behind the largest lead; None where it is known or not possible.

    ``test``: the metric to begin with, if it is one of the cause's tests for that part.
    """
    if cause not in causes() or not _of_steps(ranking) or len(known) >= MOST:
        return None
    number, largest = _of_steps(ranking)[0]
    if any(each.cause == cause and each.lead == number for each in known):
        return None
    lead = replace(largest, candidates=(Candidate(cause, 0.0, "proposed by the model"),))
    (own,) = _of_lead(profile, number, lead)
    first = test if test in {each.metric for each in tests_of(cause).of(own.part)} else ""
    return _untestable(replace(own, number=len(known) + 1, proposed_by="model", first=first))


def chosen(hypotheses: Sequence[Hypothesis], most: int) -> tuple[Hypothesis, ...]:
    """The hypotheses to test next, those that would explain most first."""
    testable = [each for each in hypotheses if each.test is not None]
    return tuple(sorted(testable, key=lambda each: (-each.size_pct * each.likelihood, each.number))[:most])


def outcome_of(profile: Profile, hypothesis: Hypothesis) -> tuple[Fact, ...] | str:
    """The figures of the next test of a hypothesis, one of each rank that it is about where the metric takes a rank;
    a clause that says why there are none."""
    test = hypothesis.test
    assert test is not None
    missing = [what for what in test.when if not _holds(profile, hypothesis, what)]
    if missing:
        return f"{test.metric} needs {MISSING[missing[0]]}"
    arguments: dict[str, str | int] = dict(test.arguments)
    try:
        takes = signature(metrics()[test.metric].function).parameters
        if "last_rank" in takes and set(hypothesis.ranks) & set(profile.rank_numbers):
            return _waiting(profile, hypothesis, test.metric)
        if "rank" not in takes:
            return (measure(profile, test.metric, **arguments),)
        return tuple(measure(profile, test.metric, **arguments, rank=rank) for rank in _ranks(profile, hypothesis))
    except UsageError as error:
        return str(error)


def _waiting(profile: Profile, hypothesis: Hypothesis, metric: str) -> tuple[Fact, ...] | str:
    """The waiting for each rank of the hypothesis, where it is seen; what it was found by is no test of it."""
    places: list[dict[str, str | int]] = [{"rank": rank} for rank in hypothesis.seen_on] or [{}]
    late = [rank for rank in _ranks(profile, hypothesis) if rank not in hypothesis.seen_on]
    facts = [measure(profile, metric, **place, last_rank=rank) for rank in late for place in places]
    return tuple(each for each in facts if each not in hypothesis.evidence) or f"{metric} is what it was found by"


def judged(profile: Profile, hypothesis: Hypothesis, outcome: Sequence[Fact] | str) -> Hypothesis:
    """The hypothesis after its next test: supported by the figure of any rank, refuted by those of all."""
    test = hypothesis.test
    assert test is not None
    after = replace(hypothesis, tried=hypothesis.tried + 1)
    if isinstance(outcome, str):
        return _untestable(after)
    ruled = [(*_rule(profile, hypothesis, test, each), each) for each in outcome]
    status, said, decisive = min(ruled, key=lambda each: ("supported", "open", "refuted").index(each[0]))
    if not said:
        return _untestable(after)
    after = replace(after, measured=after.measured + 1)
    words = label(test.metric, dict(decisive.arguments))
    sentence = Sentence(f"{words[:1].upper()}{words[1:]}: {{0}}, {said}", (decisive,))
    match status:
        case "supported":
            return replace(after, status=status, evidence=(*after.evidence, decisive), judged_by=sentence)
        case "refuted":
            return replace(after, status=status, against=(*after.against, *outcome), judged_by=sentence)
    return replace(after, evidence=(*after.evidence, decisive), judged_by=sentence)


def by_status(hypotheses: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
    """Supported, open, untestable and refuted ones, each by what they would explain."""
    return tuple(
        sorted(
            hypotheses, key=lambda each: (STATUSES.index(each.status), -each.size_pct * each.likelihood, each.number)
        )
    )


def with_hypotheses(ranking: Ranking, hypotheses: Sequence[Hypothesis]) -> Ranking:
    """The ranking, whose leads name supported candidates first and refuted ones last, with likelihood 0.

    What a measurement supports stands in the lead, and in why a verdict is open, where that was that nothing explains.
    """
    leads = []
    for number, lead in enumerate(ranking.leads, start=1):
        own = [each for each in hypotheses if each.lead == number]
        leads.append(replace(_with_supported(lead, own), candidates=_reordered(lead, own)))
    supported = [each for each in by_status(hypotheses) if each.status == "supported" and each.lead]
    why = ranking.why
    if why == UNCHECKED and supported:
        why = SUPPORTED.format(causes()[supported[0].cause].name.phrase, supported[0].lead)
    return replace(ranking, leads=tuple(leads), why=why)


def _with_supported(lead: Lead, hypotheses: Sequence[Hypothesis]) -> Lead:
    """The lead with the figure that supports the first of its hypotheses, in place of that no cause accounts for it."""
    for each in by_status(hypotheses):
        claim = lead.claim
        if each.status == "supported" and each.judged_by is not None and claim.template.endswith(f", and {NO_CAUSE}."):
            (fact,) = each.judged_by.facts
            what = _whom(each) if each.cause == "straggler" else causes()[each.cause].name.phrase
            end = f"; by a measurement {{{len(claim.facts)}}} of it is {what}."
            text = claim.template.removesuffix(f", and {NO_CAUSE}.") + end
            return replace(lead, claim=replace(claim, template=text, facts=(*claim.facts, fact)))
    return lead


def _whom(hypothesis: Hypothesis) -> str:
    """Whom the ranks wait for."""
    return f"waiting for rank {hypothesis.ranks[0]}" if hypothesis.ranks else "waiting for the last rank"


def _reordered(lead: Lead, hypotheses: Sequence[Hypothesis]) -> tuple[Candidate, ...]:
    """The candidates by what tests gave; the likelihood of refuted ones goes to those that are left."""
    status = {each.cause: each.status for each in hypotheses}
    numbers = {each.cause: each.number for each in hypotheses}
    left = sum(each.likelihood for each in lead.candidates if status.get(each.cause) != "refuted")
    whole = sum(each.likelihood for each in lead.candidates)

    def changed(each: Candidate) -> Candidate:
        if status.get(each.cause) == "refuted":
            return replace(each, likelihood=0.0, why=f"refuted by a measurement (H{numbers[each.cause]})")
        supported = status.get(each.cause) == "supported"
        why = f"{each.why}; supported by a measurement (H{numbers[each.cause]})" if supported else each.why
        return replace(each, likelihood=round(each.likelihood * whole / left, 2), why=why)

    order = {"supported": 0, "refuted": 2}
    return tuple(sorted(map(changed, lead.candidates), key=lambda each: order.get(status.get(each.cause, ""), 1)))


def _of_lead(profile: Profile, number: int, lead: Lead) -> Iterator[Hypothesis]:
    place = lead.place
    size_ms, size_pct = lead.impact_ms, lead.impact_pct
    if not size_ms and place.part != "step" and profile.traced:  # of unknown size: the whole part
        size_ms, size_pct = (measure(profile, f"part_{unit}", part=place.part).value for unit in ("ms", "pct"))
    measured_on = next((each.ranks for each in lead.claim.facts if len(each.ranks) == 1), place.ranks)
    own = (*measured_on, *(rank for rank in place.ranks if rank not in measured_on))
    for each in lead.candidates:
        waits = each.cause == "straggler" and place.part == "exposed_communication"
        yield Hypothesis(
            number=0,
            cause=each.cause,
            mechanism=None,
            ranks=_waited_for(profile, measured_on) if waits else own,
            seen_on=measured_on if waits else (),
            lead=number,
            part=place.part,
            steps=place.steps,
            size_ms=size_ms,
            size_pct=size_pct,
            likelihood=each.likelihood,
            needs=by_torch(profile, tests_of(each.cause).record) or lead.decide_by,
        )


def _waited_for(profile: Profile, waiting: Sequence[int]) -> tuple[int, ...]:
    """The rank that these ranks wait for longest; () where they wait for none that was traced."""
    waited = {
        last: sum(measure(profile, "exposed_wait_ms", rank=rank, last_rank=last).value for rank in waiting)
        for last in profile.run.rank_numbers
        if last not in waiting
    }
    last = max(waited, key=lambda each: waited[each], default=None)
    return () if last is None or waited[last] <= 0.0 else (last,)


def _of_cause(cause: RankedCause) -> Hypothesis:
    """A cause that was found with low confidence; what it was found by speaks for it already."""
    finding = cause.finding
    return Hypothesis(
        number=0,
        cause=finding.cause,
        mechanism=finding.mechanism,
        ranks=finding.ranks,
        lead=0,
        part="",
        steps="",
        size_ms=cause.impact_ms,
        size_pct=cause.impact_pct,
        likelihood=finding.confidence,
        needs=tests_of(finding.cause).record or finding.disproved_by,
        evidence=finding.claim.facts,
        against=tuple(fact for sentence in finding.against for fact in sentence.facts),
    )


def _of_open_parts(
    profile: Profile, ranking: Ranking, checks: Sequence[Check], known: Sequence[Hypothesis]
) -> list[Hypothesis]:
    """Causes of the part's families whose check could not be answered, for each part where none is left; none without
    a trace, which alone shows how long a part takes."""
    found: list[Hypothesis] = []
    if not profile.traced:
        return found
    parts = dict.fromkeys((*(lead.place.part for lead in ranking.leads), *ranking.unexplained))
    for part in parts:
        if part not in EXPLAINING or any(each.part == part and each.status != "refuted" for each in known):
            continue
        shares = [measure(profile, f"part_{unit}", part=part).value for unit in ("ms", "pct")]
        found += [
            Hypothesis(
                number=0,
                cause=cause,
                mechanism=None,
                ranks=(),
                lead=0,
                part=part,
                steps="every step",
                size_ms=shares[0],
                size_pct=shares[1],
                likelihood=0.0,
                needs=needs,
            )
            for cause, needs in _unanswered(part, checks, {each.cause for each in known if each.part == part})
        ]
    return found


def _unanswered(part: str, checks: Sequence[Check], known: set[str]) -> list[tuple[str, str]]:
    """Causes of the part's families that an open check looks for, with what the check needs."""
    found: dict[str, str] = {}
    for check in checks:
        if check.status != "cannot_answer":
            continue
        for cause in spec_of(check.name).causes:
            if causes()[cause].family in EXPLAINING[part] and cause not in known:
                found.setdefault(cause, check.needs)
    return list(found.items())[:MOST_OF_PART]


def _doubtful(profile: Profile, ranking: Ranking) -> list[RankedCause]:
    """Causes that are large enough to matter and below the confidence of a verdict."""
    limits = profile.thresholds
    return [
        each
        for each in ranking.causes
        if each.finding.confidence < limits["confidence"] and each.impact_pct >= limits["cause_share_pct"]
    ]


def _untestable(hypothesis: Hypothesis) -> Hypothesis:
    """The hypothesis as untestable where no test is left and none gave a figure."""
    if hypothesis.status == "open" and hypothesis.test is None and not hypothesis.measured:
        return replace(hypothesis, status="untestable")
    return hypothesis


def _rule(profile: Profile, hypothesis: Hypothesis, test: HypothesisTest, fact: Fact) -> tuple[Status, str]:
    """The status that the figure leads to, and the words for it; "" where a test only supports and does not."""
    if test.of == "figure":
        if test.supported_from is not None and fact.value >= test.supported_from:
            return "supported", "as this cause would show"
        if test.refuted_below is not None and fact.value < test.refuted_below:
            return "refuted", "too little for this cause"
        return "open", "which does not decide" if test.refuted_below is not None else ""
    size = _size(profile, hypothesis, fact)
    share_pct = 100.0 * fact.value / size if size > 0.0 else 0.0
    if test.can != "refute" and size > 0.0 and share_pct >= profile.thresholds["hypothesis_supported_pct"]:
        return "supported", "most of what is to be explained"
    if share_pct < profile.thresholds["hypothesis_refuted_pct"]:
        refutes = test.can != "support" and size > 0.0
        return ("refuted", "too little to explain it") if refutes else ("open", "")
    return "open", "which does not decide"


def _size(profile: Profile, hypothesis: Hypothesis, fact: Fact) -> float:
    """What is to be explained, in the figure's unit: on the figure's rank, where the hypothesis names none and a trace
    shows the rank's part."""
    own = dict(fact.arguments).get("rank")
    named = hypothesis.ranks or not isinstance(own, int)
    if named or hypothesis.part not in EXPLAINING or not profile.traced:
        return hypothesis.size_pct if fact.unit == "%" else hypothesis.size_ms
    of_part = measure(profile, "part_pct" if fact.unit == "%" else "part_ms", part=hypothesis.part, rank=own)
    return of_part.value


def _ranks(profile: Profile, hypothesis: Hypothesis) -> tuple[int, ...]:
    """The ranks to measure on: those of the hypothesis that were recorded, else all."""
    known = profile.rank_numbers
    return tuple(rank for rank in hypothesis.ranks if rank in known) or tuple(known)


MISSING = {
    "all_ranks": "the traces of all ranks",
    "several_ranks": "the traces of several ranks",
    "stacks": "Python stacks",
    "device": "a device",
    "batches_copied": "copies to the device that are not of offloaded data",
    "every_step": "a part of every step",
}


def _mostly_offloaded(profile: Profile, rank: int) -> bool:
    """Return whether most of the exposed copies to the device bring back offloaded data, as ``io.upload`` asks."""
    copied, offloaded = (measure(profile, f"{each}_exposed_ms", rank=rank).value for each in ("upload", "offload"))
    return offloaded > 0.0 and offloaded >= MOSTLY_OFFLOADED * copied


def _holds(profile: Profile, hypothesis: Hypothesis, what: str) -> bool:
    """Return whether the run holds what a test needs to mean something."""
    traced = profile.run.rank_numbers
    match what:
        case "all_ranks":
            return profile.run.traced_count >= (profile.run.layout.world_size or len(traced)) > 1
        case "several_ranks":
            return len(traced) > 1
        case "stacks":
            ranks = [rank for rank in _ranks(profile, hypothesis) if rank in traced]
            return bool(ranks) and all(bool((profile.rank(rank).kind == EventKind.PYTHON).any()) for rank in ranks)
        case "device":
            return profile.run.has_device
        case "batches_copied":
            return not any(_mostly_offloaded(profile, rank) for rank in _ranks(profile, hypothesis) if rank in traced)
        case _:
            return hypothesis.steps in EVERY_STEP
