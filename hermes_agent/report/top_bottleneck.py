"""What makes the run slow, in the first sentence: its causes, a lead, a part nothing explains, or that nothing does."""

from __future__ import annotations

from hermes_agent.model.display import PART_TITLES, cause_title, costs, on_ranks
from hermes_agent.report.answer_basis import stands_for
from hermes_agent.report.step_course import even_steps, part_share, rounded
from tools.analyzers.steps.step_time import untouched
from tools.findings import Fact, Sentence
from tools.judgement.catalog import measure
from tools.judgement.lead import EVERY_STEP, in_terms_of_run
from tools.judgement.level_lead import AT_LEVELS
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import Ranking
from tools.judgement.savings import cause_key
from tools.judgement.verdict import NEEDED
from tools.run.program_frames import short_frame
from tools.views.profile import Profile

ALSO_LOST = "Also seen: {}, which add {{0}} to the mean step (lead {})."


def about(ranked: RankedCause) -> dict[str, str]:
    """Return the arguments that name a cause in the metrics on savings."""
    return dict(zip(("cause", "mechanism", "ranks"), cause_key(ranked), strict=True))


OTHERS_UNSEEN = "Not all ranks were traced: whether the others wait for those that were is not known."


def first_sentences(profile: Profile, ranking: Ranking, marked: bool) -> list[Sentence]:
    """The verdict in a sentence, then what else may matter. Without a well-supported cause the largest comes first:
    a part nothing explains, a lead, or a cause."""
    step = measure(profile, "step_time_ms" if profile.traced else "series_step_ms", statistic="mean")
    takes = "a step takes {0} on average" if marked else "the recording, start-up included, takes {0}"
    unexplained = _unexplained(profile, ranking)
    if ranking.verdict == "healthy":
        busy = measure(profile, "part_pct", part="compute")
        seen = [Sentence(OTHERS_UNSEEN)] if profile.run.traced_count < (profile.run.layout.world_size or 1) else []
        return [Sentence(f"{takes}, {{1}} of it in computation.", (step, busy)), *seen, *unexplained]
    if not ranking.causes:
        return [_only_leads(profile, ranking, takes, step), *unexplained]
    enough = profile.thresholds["confidence"]
    sure, top = ranking.sure(enough), ranking.leading(enough) or ranking.causes[0]
    likely = f"{'Found' if _small_wait(top) else 'Most likely cause'}{_doubt(top, enough)}: "
    said = [_cost(profile, top, "Top bottleneck: " if top in sure else likely, marked)]
    if top is not ranking.causes[0]:
        said.append(_cost(profile, ranking.causes[0], "Possibly larger (low confidence): ", marked))
    elif sure and top not in sure:
        said.append(_cost(profile, sure[0], "With more confidence: ", marked))
    if unexplained and not sure and part_share(profile, ranking.unexplained[0]).value > top.impact_pct:
        return [*unexplained, *said]
    if not sure and _lead_is_larger(profile, ranking, top, marked):
        also = _cost(profile, top, f"Also found{_doubt(top, enough)}: ", marked)
        return [_only_leads(profile, ranking, takes, step), also, *unexplained]
    return [*said, *unexplained]


SMALL_WAIT_PCT = 10.0  # of a step: half of it may be hidden behind the device, and the rest explains no slow training


def _small_wait(top: RankedCause) -> bool:
    """Whether the cause is a wait for data in a job's lines that makes no step long."""
    return top.finding.mechanism == "unexplained_wait" and top.impact_pct < SMALL_WAIT_PCT


def other_losses(ranking: Ranking) -> list[Sentence]:
    """Of a problem what the steps lose next to its causes, with the lead that describes it."""
    verdict = ranking.steps_verdict or ranking.verdict
    found = [(at, lead) for at, lead in enumerate(ranking.leads, 1) if lead.loss and verdict == "problem"]
    costs = (
        (at, lead, next((each for each in lead.claim.facts if each.value == lead.impact_ms), None))
        for at, lead in found
    )
    return [Sentence(ALSO_LOST.format(lead.loss, at), (cost,)) for at, lead, cost in costs if cost is not None]


def _doubt(ranked: RankedCause, enough: float) -> str:
    return "" if ranked.finding.confidence >= enough else " (low confidence)"


def _lead_is_larger(profile: Profile, ranking: Ranking, top: RankedCause, marked: bool) -> bool:
    """Return whether the first lead outweighs the cause; one of unknown size does where the cause is only noted.

    Without steps no cause is well supported, so one that accounts for most of the lead is named first.
    """
    limits = profile.thresholds
    for lead in ranking.leads[:1]:
        least_pct = lead.impact_pct or limits["cause_share_pct"]
        return top.impact_pct < least_pct * (1.0 if marked else limits["explained_part_pct"] / 100.0)
    return False


WHOLE = ("step", "compute")  # parts that are no loss by themselves


def _longer(steps: str) -> str:
    """Which steps take longer, with the verb: "every 250th step takes", "77 of 19063 steps take"."""
    several = steps[:1].isdigit() and not steps.startswith("1 ")
    return f"{steps} take" if several else f"{steps} takes"


def _only_leads(profile: Profile, ranking: Ranking, takes: str, step: Fact) -> Sentence:
    """Without a cause: how much of the step the first lead localises, where its size is known, or since when."""
    for lead in ranking.leads[:1]:
        if lead.place.frame and not lead.impact_ms:
            text = f"{takes}; rank {lead.place.ranks[0]} is elsewhere than the other sampled ranks, in {{n0}} (lead 1)."
            return Sentence(text, (step,), (short_frame(lead.place.frame),))
        if not lead.impact_ms:  # at a cost that is not known
            break
        if lead.place.part == "step" and lead.claim.facts[0].unit == "steps":  # a distance, and what a step is longer
            text = f"{takes}; {_longer(lead.place.steps)} {{1}} longer than usual (lead 1), and why is not known."
            return Sentence(text, (step, lead.claim.facts[1]))
        if lead.loss == AT_LEVELS:
            low, *_, high = sorted(lead.claim.facts[:-2], key=lambda each: each.value)
            text = f"{takes}; steps lie {lead.place.steps}, from {{1}} to {{2}} (lead 1), and why is not known."
            return Sentence(text, (step, low, high))
        if lead.place.part == "step" and lead.place.steps != EVERY_STEP:
            text = f"{takes}; {lead.place.steps} it takes {{1}} instead of {{2}} (lead 1), and why is not known."
            return Sentence(text, (step, *lead.claim.facts[:2]))
        sizes = {"%": lead.impact_pct, "ms": 0.0 if lead.place.part in WHOLE else lead.impact_ms}
        for size in lead.claim.facts:
            if size.metric != "frame_share_pct" and size.value and size.value == sizes.get(size.unit):
                text = f"{takes}; {{1}} of it lies in one place (lead 1), but why is not known."
                return Sentence(text, (step, size))
    if (even := _even(profile, takes, step)) is not None:
        return even
    return Sentence(f"{takes}; what slows it down is not assessable from this data.", (step,))


def _even(profile: Profile, takes: str, step: Fact) -> Sentence | None:
    """That steps are even, as far as their clock shows it; None where they are not, or that is not known."""
    variation = even_steps(profile)
    if variation is None:
        return None
    if rounded(profile, variation.value):
        return Sentence(f"{takes}; the lines are even as far as {CLOCK} shows it, and {NOT_JUDGED}.", (step,))
    steps = "the lines" if profile.series is not None and profile.series.averaged else "steps"
    return Sentence(f"{takes}; {steps} are even ({{1}} variation), and {NOT_JUDGED}.", (step, variation))


CLOCK = "a progress bar's clock of whole seconds"
NOT_JUDGED = "whether that is fast for this model is not in the job's output"


def _cost(profile: Profile, ranked: RankedCause, lead: str, marked: bool) -> Sentence:
    """The cost of a cause, of the mean step that its figure is of."""
    finding = ranked.finding
    step = measure(profile, "step_time_ms" if profile.traced else "series_step_ms", statistic="mean")
    of = "each {1} step" if marked else "the recorded {1}"
    if profile.series is not None and ranked.step_ms == profile.series.mean_ms:
        of = f"each {{1}} step {untouched(profile)}".rstrip()
        step = measure(profile, "series_step_ms", statistic="mean")
    impact, share = (measure(profile, f"cause_impact_{unit}", **about(ranked)) for unit in ("ms", "pct"))
    own = finding.ranks, profile.rank_numbers, stands_for(profile, finding.ranks)
    title, verb = cause_title(finding.cause, finding.mechanism), costs(finding.cause, finding.mechanism)
    named, most = f"{title}{on_ranks(*own)}", "at most " if ranked.at_most else ""
    return Sentence(f"{lead}{named} {verb} {most}{{0}} of {of} ({{2}}).", (impact, step, share))


def _unexplained(profile: Profile, ranking: Ranking) -> list[Sentence]:
    """Large parts that no cause accounts for, the largest one with what to record."""
    if not ranking.unexplained:
        return []
    parts = ranking.unexplained
    pieces = " and ".join(f"{{{index}}} ({PART_TITLES[part]})" for index, part in enumerate(parts))
    needed = (
        f"; to find out, record {in_terms_of_run(profile, NEEDED[parts[0]])}"
        if ranking.verdict != "inconclusive"
        else ""
    )
    verb = "is" if len(parts) == 1 else "are"
    text = f"{pieces} of the step {verb} not explained by any cause{needed}."
    return [Sentence(text, tuple(part_share(profile, part) for part in parts))]
