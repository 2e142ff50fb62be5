"""The first sentences of the answer: the headline, where the time goes, and what is left open."""

from __future__ import annotations

from hermes_agent.model.display import PART_TITLES, cause_title, on_ranks
from tools.analyzers.steps.series_steps import unprofiled, untouched
from tools.findings import Fact, Sentence
from tools.judgement.catalog import measure
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import Ranking
from tools.judgement.savings import cause_key
from tools.judgement.start_up import steps_marked
from tools.judgement.verdict import NEEDED
from tools.run.model import SourceStatus
from tools.views.parts import PARTS
from tools.views.profile import Profile

NO_TRACE = "No trace was read: this answer rests on what records tell of whole steps"
UNSEEN_CAUSES = "slow operators, small launches and transfers would not be seen by it"
MENTIONED_PART_PCT = 1.0  # parts below this share are left out of the sentence about the breakdown
UNMARKED = (
    "No steps are marked in this recording, so all of it is looked at as one step, start-up included; "
    "figures per step are figures of the whole recording."
)


def opening(profile: Profile, ranking: Ranking) -> list[Sentence]:
    """The headline first; every figure is a fact."""
    marked = steps_marked(profile.run)
    if not profile.traced:
        told = _records_only(profile)
        return [_headline(profile, ranking, marked), *told, *_partial(profile), *_open_verdict(ranking)]
    return [
        _headline(profile, ranking, marked),
        *unprofiled(profile),
        *_overview(profile, marked),
        *([] if marked else [Sentence(UNMARKED)]),
        *_partial(profile),
        *_unexplained(profile, ranking),
        *_open_verdict(ranking),
    ]


def _records_only(profile: Profile) -> list[Sentence]:
    """The step time, and that nobody looked inside of steps."""
    return [*unprofiled(profile), Sentence(f"{NO_TRACE}; {UNSEEN_CAUSES}.")]


def _partial(profile: Profile) -> list[Sentence]:
    """That files were read in part only or not at all: whatever follows in the answer rests on what was left."""
    return [
        *_about_files(profile, "partial", "Only a part of {n0}%s could be read, and the answer knows only that part."),
        *_about_files(profile, "excluded", "{n0}%s could not be used, and the answer knows nothing of what is in it."),
    ]


def _about_files(profile: Profile, status: SourceStatus, text: str) -> list[Sentence]:
    names = tuple(source.path.name for source in profile.run.sources if source.status == status)
    return [Sentence(text % (" and others" if len(names) > 1 else ""), (), names[:1])] if names else []


def about(ranked: RankedCause) -> dict[str, str]:
    """The arguments that name a cause in the metrics on savings."""
    return dict(zip(("cause", "mechanism", "ranks"), cause_key(ranked), strict=True))


def _headline(profile: Profile, ranking: Ranking, marked: bool) -> Sentence:
    step = measure(profile, "step_time_ms" if profile.traced else "series_step_ms", statistic="mean")
    takes = "a step takes {0} on average" if marked else "the recording, start-up included, takes {0}"
    match ranking.verdict:
        case "healthy":
            busy = measure(profile, "part_pct", part="compute")
            return Sentence(f"This run looks healthy: {takes}, and {{1}} of it is computation.", (step, busy))
        case "inconclusive" if not ranking.causes:
            return Sentence(
                f"{takes[0].upper()}{takes[1:]}, and what slows it down cannot be said from these sources.", (step,)
            )
    top = ranking.causes[0]
    sure = ranking.verdict == "problem" and top.finding.confidence >= profile.thresholds["confidence"]
    lead = "The first cause is" if sure else "On thin evidence, the likeliest cause is"
    where = on_ranks(top.finding.ranks, profile.rank_numbers)
    title = cause_title(top.finding.cause, top.finding.mechanism)
    of = "an average step of {1}" if marked else "the {1} that the recording takes with its start-up"
    if top.finding.saving is not None and not top.finding.change:
        of = f"an average step of {{1}} {untouched(profile)}"
        step = measure(profile, "series_step_ms", statistic="mean")
    facts = (
        measure(profile, "cause_impact_ms", **about(top)),
        step,
        measure(profile, "cause_impact_pct", **about(top)),
    )
    return Sentence(f"{lead} {title}{where}: it costs {{0}} of {of}, that is {{2}}.", facts)


def _overview(profile: Profile, marked: bool) -> list[Sentence]:
    """One sentence on where the time goes."""
    shares = [(part, _share(profile, part)) for part in PARTS]
    told = sorted((each for each in shares if each[1].value >= MENTIONED_PART_PCT), key=lambda each: -each[1].value)
    if not told:
        return []
    pieces = [f"{PART_TITLES[part]} {{{index}}}" for index, (part, _) in enumerate(told)]
    whole = "step" if marked else "recording"
    return [Sentence(f"Of the {whole}, {', '.join(pieces)}.", tuple(fact for _, fact in told))]


def _share(profile: Profile, part: str) -> Fact:
    return measure(profile, "part_pct", part=part)


def _unexplained(profile: Profile, ranking: Ranking) -> list[Sentence]:
    """Large parts that no cause accounts for: the largest one with what to record."""
    if not ranking.unexplained:
        return []
    parts = ranking.unexplained
    pieces = " and ".join(f"{PART_TITLES[part]} ({{{index}}})" for index, part in enumerate(parts))
    needed = f"; to find out, record {NEEDED[parts[0]]}" if ranking.needs != NEEDED[parts[0]] else ""
    template = f"No cause that was found accounts for more than a small part of: {pieces}{needed}."
    return [Sentence(template, tuple(_share(profile, part) for part in parts))]


def _open_verdict(ranking: Ranking) -> list[Sentence]:
    if ranking.verdict != "inconclusive":
        return []
    return [Sentence(f"This is inconclusive because {ranking.why}; to settle it, record {ranking.needs}.")]
