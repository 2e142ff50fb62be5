"""From what the tools found to the Diagnosis: facts get their ids here, and every sentence its citations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from case_library.retrieval.recall import CaseHit, Recall
from hermes_agent.evidence.cases import recalled
from hermes_agent.evidence.ledger import Ledger, evidence_record, quoted, render, render_all
from hermes_agent.evidence.printable import printable
from hermes_agent.model import diagnosis as record
from hermes_agent.model.display import cause_heading, numbered, on_ranks, rank_list, span_list
from hermes_agent.report.answer_basis import stands_for
from hermes_agent.report.opening import opening
from hermes_agent.report.records import (
    attribution_rows,
    breakdown_rows,
    case_numbers,
    clean_notes,
    hypothesis_record,
    kernel_class_rows,
    next_measurements,
    recordings_next,
    route_record,
    run_record,
    source_record,
)
from hermes_agent.report.top_bottleneck import about
from tools.comparison.compare import Comparison
from tools.findings import Check, Fact, Finding, Sentence, on_its_rank
from tools.judgement.catalog import measure
from tools.judgement.hypotheses import Hypothesis
from tools.judgement.lead import Lead
from tools.judgement.planned_settings import planned_setting
from tools.judgement.ranked_cause import RankedCause, steps_marked
from tools.judgement.ranking import Ranking
from tools.judgement.routes import Route, is_about
from tools.judgement.unseen import device_work_missing
from tools.knowledge.taxonomy import Optimization, optimizations
from tools.knowledge.untrained import fitting, without_training
from tools.run.model import Run
from tools.views.communication.gradient_sync import exchanged_by
from tools.views.device.kind import device_kind
from tools.views.profile import Profile
from tools.views.steps.modes import step_modes, steps_text
from tools.views.training_seen import trains

PLACES = ("call", "kernel", "collective", "variable", "interface", "where")  # hints that say where, inner to outer


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything a diagnosis is composed of."""

    profile: Profile
    checks: Sequence[Check]
    ranking: Ranking
    recalls: Mapping[int, Recall]  # by place in the ranking
    comparison: Comparison | None = None
    baseline: Run | None = None
    notes: Sequence[str] = ()
    hypotheses: Sequence[Hypothesis] = ()  # in the order of the report
    routes: Sequence[tuple[Route, Sentence | None]] = ()  # deep looks, with what they showed
    wanted: record.WantedSourceRecord | None = None  # the missing source that would decide between hypotheses


def compose(findings: Findings) -> record.Diagnosis:
    """The whole diagnosis, written from templates; every figure in it has an id."""
    return _Composer(findings).diagnosis()


class _Composer:
    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.profile = findings.profile
        self.ranking = findings.ranking
        self.ledger = Ledger()
        self.case_ids = case_numbers(findings.recalls)

    def diagnosis(self) -> record.Diagnosis:
        step_time = self._step_time()
        answer = render_all(opening(self.profile, self.ranking), self.ledger)
        looks = self._looks()
        causes = [self._cause(each, looks.get(place, [])) for place, each in enumerate(self.ranking.causes)]
        advice = self._advice()
        leads = [self._lead(f"L{number}", lead) for number, lead in enumerate(self.ranking.leads, start=1)]
        checks = [self._check(check) for check in self.findings.checks]
        comparison = self._comparison()
        hypotheses = [hypothesis_record(each, self.ledger) for each in self.findings.hypotheses]
        routes = [route_record(*each, self.ledger) for each in self.findings.routes]
        traced, series = self.profile.traced, self.profile.series
        of_series = series.notes if series else ()
        return record.Diagnosis(
            run=run_record(self.profile.run),
            verdict=self.ranking.verdict,
            headline=answer[0],
            step_time_ms=step_time,
            breakdown=breakdown_rows(self.profile) if traced and not device_work_missing(self.profile) else [],
            plugin_attribution=attribution_rows(self.profile) if traced else [],
            kernel_classes=kernel_class_rows(self.profile) if traced else [],
            causes=causes,
            advice=advice,
            leads=leads,
            hypotheses=hypotheses,
            routes=routes,
            source_wanted=self.findings.wanted,
            checks=checks,
            cases=self._cases(),
            recall_note=self._recall_note(),
            comparison=comparison,
            next_measurements=next_measurements(self.findings.checks, self.ranking.needs),
            record_next=recordings_next(self.profile, self.findings.checks, self.ranking.needs),
            answer=answer,
            notes=clean_notes([*self.profile.run.notes, *of_series, *self.findings.notes]),
            evidence=[evidence_record(entry.id, entry.fact) for entry in self.ledger.entries()],
        )

    def _measure(self, metric: str, **arguments: str | int | None) -> Fact:
        return measure(self.profile, metric, **arguments)

    def _step_time(self) -> record.StepTime | None:
        series = self.profile.series
        if not self.profile.measured:
            return None
        figures, evidence = self._statistics("step_time_ms" if self.profile.traced else "series_step_ms")
        unprofiled = None
        if series is not None:
            steps = len(series.slowest_ms)
            of_series, cited = self._statistics("series_step_ms")
            unprofiled = record.UnprofiledStepTime(**of_series, steps=steps, source=series.source, evidence=cited)
        steps, groups = len(self.profile.step_ms), self._step_groups() if self.profile.traced else []
        return record.StepTime(**figures, steps=steps, evidence=evidence, unprofiled=unprofiled, groups=groups)

    def _step_groups(self) -> list[record.StepGroupRecord]:
        numbers = [int(number) for number in self.profile.step_ms.index]
        found = []
        for mode, group in enumerate(step_modes(self.profile), start=1):
            median, cost = (self._measure(name, mode=mode) for name in ("step_mode_ms", "step_mode_cost_ms"))
            found.append(
                record.StepGroupRecord(
                    steps=list(group.steps),
                    which=steps_text(group.steps, numbers),
                    median=median.value,
                    cost_ms_per_step=cost.value,
                    evidence=[self.ledger.cite(median), self.ledger.cite(cost)],
                )
            )
        return found

    def _statistics(self, metric: str) -> tuple[dict[str, float], list[str]]:
        """Mean, median and 95th percentile of a step time, and their ids."""
        facts = {name: self._measure(metric, statistic=name) for name in ("mean", "median", "p95")}
        return {name: fact.value for name, fact in facts.items()}, [self.ledger.cite(fact) for fact in facts.values()]

    def _of(self, metric: str, ranked: RankedCause, **more: str) -> Fact:
        return self._measure(metric, **about(ranked), **more)

    def _render(self, sentence: Sentence) -> str:
        if not self.trains:
            sentence = replace(sentence, template=without_training(sentence.template))
        return render(sentence, self.ledger)

    @cached_property
    def trains(self) -> bool:
        """Whether advice on training fits the run."""
        return trains(self.profile)

    def _looks(self) -> dict[int, list[Sentence]]:
        """What deep looks showed, by the place of the first cause that they are about."""
        found: dict[int, list[Sentence]] = {}
        for route, shown in self.findings.routes:
            if shown is None:
                continue
            places = (n for n, each in enumerate(self.ranking.causes) if is_about(route, shown, each.finding))
            if (place := next(places, None)) is not None:
                found.setdefault(place, []).append(shown)
        return found

    def _cause(self, ranked: RankedCause, looks: Sequence[Sentence]) -> record.CauseRecord:
        finding = ranked.finding
        ranks = finding.ranks or self.profile.rank_numbers
        said, told = on_its_rank(finding.claim, ranks)
        claim = self._render(said)
        found = [on_its_rank(sentence, ranks, told)[0] for sentence in finding.details]
        details = [*render_all([*found, *looks], self.ledger), *self._alike(finding.ranks)]
        against = render_all(finding.against, self.ledger)
        said_of = (finding.claim, *finding.details, *looks)
        own = [self.ledger.cite(fact) for sentence in said_of for fact in sentence.facts]
        impact = [self.ledger.cite(self._of("cause_impact_ms", ranked))]
        contrary = [self.ledger.cite(fact) for sentence in finding.against for fact in sentence.facts]
        return record.CauseRecord(
            cause=finding.cause,
            title=cause_heading(finding.cause, finding.mechanism),
            family=finding.family,
            mechanism=finding.mechanism,
            confidence=round(finding.confidence, 3),
            impact_ms_per_step=ranked.impact_ms,
            impact_pct=ranked.impact_pct,
            at_most=ranked.at_most,
            then_ms_per_step=ranked.then_ms,
            masked_by=list(ranked.masked_by),
            shared_with=list(ranked.shared_with),
            method=ranked.method,
            where=self._where(finding),
            ranks=list(ranks),
            stands_for=stands_for(self.profile, finding.ranks),
            steps=list(finding.steps),
            claim=claim,
            details=details,
            evidence=list(dict.fromkeys([*own, *impact])),
            evidence_against=list(dict.fromkeys(contrary)),
            against=against,
            disproved_by=finding.disproved_by,
            signals=list(finding.signals),
            symptoms=[self._render(symptom.claim) for symptom in ranked.symptoms],
            check=ranked.check,
        )

    def _lead(self, identifier: str, lead: Lead) -> record.LeadRecord:
        place = lead.place
        return record.LeadRecord(
            id=identifier,
            place=record.PlaceRecord(
                part=place.part,
                ranks=list(place.ranks or self.profile.rank_numbers),
                steps=place.steps,
                between=None if place.between is None else (printable(place.between[0]), printable(place.between[1])),
                frame=printable(place.frame),
                group=printable(place.group) or None,
            ),
            impact_ms_per_step=lead.impact_ms,
            impact_pct=lead.impact_pct,
            claim=self._render(lead.claim),
            candidates=[
                record.CandidateRecord(
                    cause=each.cause, likelihood=each.likelihood, why=each.why, mechanism=each.mechanism
                )
                for each in lead.candidates
            ],
            decide_by=lead.decide_by,
            evidence=[self.ledger.cite(fact) for fact in lead.claim.facts],
        )

    def _where(self, finding: Finding) -> str:
        """Ranks and steps where not all of them, then the call, frame or kernel that the analyzer named."""
        all_steps = {step.number for rank in self.profile.run.ranks for step in rank.steps}
        ranks = on_ranks(finding.ranks, self.profile.rank_numbers, stands_for(self.profile, finding.ranks))
        ranks = ranks.removeprefix(" on ")
        steps = numbered("step", finding.steps) if set(finding.steps) < all_steps and finding.steps else ""
        names = [quoted(finding.hints[name]) for name in PLACES if finding.hints.get(name)]
        return ", ".join(filter(None, (ranks, steps, " in ".join(dict.fromkeys(names)))))

    def _alike(self, ranks: Sequence[int]) -> list[str]:
        """That ranks stand for others that were compared by summary only."""
        spans = stands_for(self.profile, ranks)
        if not spans:
            return []
        read = "was" if len(ranks) == 1 else "were"
        text = f"{span_list(spans)} look alike by summary; {rank_list(ranks)} {read} read in full."
        return [text[:1].upper() + text[1:]]

    def _advice(self) -> list[record.AdviceRecord]:
        """Changes in the order of what they save, the easier one first where they fix the same cause."""
        of_run = _capability(self.profile), device_kind(self.profile), exchanged_by(self.profile)
        rows = [
            (place, ranked, optimization)
            for place, ranked in enumerate(self.ranking.causes)
            for known in optimizations(ranked.finding.cause, ranked.finding.mechanism, *of_run)
            if (optimization := known if self.trains else fitting(known)) is not None
        ]
        rows.sort(key=lambda row: (-_speedup(row[1]), row[0], row[2].effort))
        first = {place: number for number, (place, _, _) in reversed(list(enumerate(rows, start=1)))}
        return [
            self._advice_record(f"A{number}", *row, planned=first[row[0]] == number)
            for number, row in enumerate(rows, start=1)
        ]

    def _advice_record(
        self, identifier: str, place: int, ranked: RankedCause, optimization: Optimization, *, planned: bool
    ) -> record.AdviceRecord:
        """One change; the first for a cause also has the setting that a planner gives for it."""
        predicted, own = self._prediction(ranked), ranked.finding.ranks
        setting = planned_setting(self.profile, ranked.finding) if planned else None
        sentences = (self._prospect(ranked, predicted), *(() if setting is None else (setting.sentence,)))
        recall = self.findings.recalls.get(place)
        return record.AdviceRecord(
            id=identifier,
            for_=ranked.finding.cause,
            mechanism=ranked.finding.mechanism,
            optimization=optimization.title(
                on_ranks(own, (), stands_for(self.profile, own)).removeprefix(" on ") if own else "the late rank"
            ),
            how=optimization.how,
            effort=optimization.effort,
            risk=optimization.risk,
            verify=optimization.verify,
            predicted_step_ms=predicted[0].value if predicted else None,
            predicted_speedup=predicted[1].value if predicted else None,
            interval=(predicted[2].value, predicted[3].value) if len(predicted) > 2 else None,
            at_most=bool(predicted) and ranked.at_most,
            same_samples=ranked.finding.saving is not None and ranked.finding.saving.same_samples,
            text=" ".join(map(self._render, sentences)),
            setting=setting.setting if setting is not None and setting.setting else None,
            evidence=[self.ledger.cite(fact) for sentence in sentences for fact in sentence.facts],
            cases=[self.case_ids[hit.id] for hit in recall.hits] if recall else [],
        )

    def _prospect(self, ranked: RankedCause, predicted: tuple[Fact, ...]) -> Sentence:
        """The predicted step without the cause, or why there is none."""
        if ranked.alone is None:
            return Sentence("The gain is not predicted: the cause was measured, and no replay can remove it.")
        if ranked.alone.withheld:
            return Sentence(f"The gain is not predicted: {ranked.alone.withheld}.")
        whole = "step" if steps_marked(self.profile.run) else "whole recording"
        if ranked.finding.saving is not None and ranked.finding.saving.same_samples:
            whole = "time for as many samples as a step has now"
        if ranked.at_most:
            return Sentence(
                f"Fixing this would at best cut the {whole} to {{0}}, {{1}} faster; how much less, is not known.",
                predicted,
            )
        alone = (
            ""
            if not self.profile.traced or len(ranked.alone.steps) != 1
            else "; one step was recorded, so its variation is not known"
        )
        return Sentence(
            f"Fixing this would cut the {whole} to {{0}}, {{1}} faster (range {{2}} to {{3}}){alone}.", predicted
        )

    def _prediction(self, ranked: RankedCause) -> tuple[Fact, ...]:
        if ranked.alone is None or ranked.alone.withheld:
            return ()
        sides = () if ranked.at_most else ("low", "high")
        bounds = (self._of("predicted_speedup", ranked, bound=bound) for bound in sides)
        return (self._of("predicted_step_ms", ranked), self._of("predicted_speedup", ranked), *bounds)

    def _check(self, check: Check) -> record.CheckRecord:
        sentences = (*(finding.claim for finding in check.findings), *check.support)
        return record.CheckRecord(
            analyzer=check.name,
            status=check.status,
            reason=check.reason,
            needs=check.needs,
            text=render_all(sentences, self.ledger),
        )

    def _comparison(self) -> record.ComparisonRecord | None:
        comparison, baseline = self.findings.comparison, self.findings.baseline
        if comparison is None or baseline is None:
            return None
        return record.ComparisonRecord(
            baseline=[source_record(source) for source in baseline.sources],
            headline=self._render(comparison.headline),
            changes=render_all(comparison.changes, self.ledger),
        )

    def _cases(self) -> list[record.CaseRecord]:
        hits: dict[str, CaseHit] = {}
        for _, recall in sorted(self.findings.recalls.items()):
            for hit in recall.hits:
                hits.setdefault(hit.id, hit)
        return [recalled(self.case_ids[hit.id], hit) for hit in hits.values()]

    def _recall_note(self) -> str:
        silent = [recall.abstained for _, recall in sorted(self.findings.recalls.items()) if recall.abstained]
        return silent[0] if silent else ""


def _speedup(ranked: RankedCause) -> float:
    """The predicted speedup, or what the measured cost amounts to where no replay can remove the cause."""
    if ranked.alone is not None:
        return ranked.alone.speedup
    return ranked.step_ms / max(ranked.step_ms - ranked.impact_ms, 1e-9)


def _capability(profile: Profile) -> float | None:
    """The compute capability of the run's devices, when all have the same."""
    known = {device.compute_capability for rank in profile.run.ranks for device in rank.devices}
    try:
        return float(known.pop() or "") if len(known) == 1 else None
    except ValueError:
        return None
