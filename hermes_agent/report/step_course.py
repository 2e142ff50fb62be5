"""How the steps are: the parts of the mean one, how even they are, a single long one, and ranks that take turns."""

from __future__ import annotations

from hermes_agent.model.display import PART_TITLES
from tools.analyzers.registry import check_of
from tools.findings import Fact, Sentence
from tools.judgement.catalog import measure
from tools.judgement.lead import EVERY_STEP
from tools.judgement.ranked_cause import steps_marked
from tools.judgement.ranking import Ranking
from tools.judgement.unseen import device_work_missing
from tools.metrics.step_time import slowest_on_average
from tools.views.parts import PARTS
from tools.views.profile import Profile

MENTIONED_PART_PCT = 1.0  # parts below this share are left out of the sentence about the breakdown
OUTLIER_PCT = 10.0  # of the median step: by so much a single step lifts the mean one, and the others do not


def with_outlier(profile: Profile) -> list[Sentence]:
    """The one step that lifts the mean step far above the median one."""
    steps = profile.step_ms
    if len(steps) < LEAST_EVEN or not steps_marked(profile.run):
        return []
    usual = (1.0 + OUTLIER_PCT / 100.0) * float(steps.median())
    longest = int(str(steps.idxmax()))
    if steps.mean() <= usual or steps.drop(steps.idxmax()).mean() > usual:
        return []
    figures = tuple(measure(profile, "step_time_ms", statistic=each) for each in ("max", "median"))
    return [Sentence(f"The mean step holds step {longest} with {{0}}; the median step takes {{1}}.", figures)]


def evenness(profile: Profile) -> tuple[Sentence, ...]:
    """How little the step time varies, where no step is far above the median."""
    check = check_of(profile, "step_time.fluctuation")
    return check.support if check is not None and check.status == "clean" else ()


def drift(profile: Profile, ranking: Ranking) -> tuple[Sentence, ...]:
    """That the recorded steps become longer or shorter, from which level to which, or since when; but for what a lead
    tells."""
    if any(lead.place.part == "step" and lead.place.steps != EVERY_STEP for lead in ranking.leads):
        return ()
    for name in ("trend", "change_point"):
        check = check_of(profile, f"step_time.{name}")
        if check is not None and check.status == "found":
            return check.support
    return ()


IN_TURNS = 1.02  # of the longest mean step of a rank: less is the jitter of step marks


def ranks_in_turns(profile: Profile) -> list[Sentence]:
    """Where the slowest rank changes from step to step: what a step takes on the rank with the longest mean."""
    if not profile.traced or len(profile.ranks) < 2:
        return []
    rank = slowest_on_average(profile)
    own = measure(profile, "step_time_ms", statistic="mean", rank=rank)
    if profile.mean_step_ms <= IN_TURNS * own.value:
        return []
    text = (
        "A step is as long as its slowest rank, and ranks take turns in that: the mean step of the slowest on average, "
        f"rank {rank}, takes {{0}}."
    )
    return [Sentence(text, (own,))]


LEAST_EVEN = 3  # lines: two are alike by chance
EVEN_PCT = 5.0  # steps of the same model and batch size take the same time within a few per cent
COURSE = ("step_time.fluctuation", "step_time.trend", "step_time.change_point")


def even_steps(profile: Profile) -> Fact | None:
    """How much the step times of a job's output vary, where that is little; None where it is not, or not known."""
    series = profile.series
    log = profile.run.job_log
    if profile.traced or series is None or series.origin != "job_log" or len(series.slowest_ms) < LEAST_EVEN:
        return None
    if log is None or log.step_time in ("running", "smoothed", "window"):  # these hide how much steps differ
        return None
    if series.slowest_ms.diff().dropna().gt(0).all():  # each line is slower than the one before it
        return None
    if any(check is not None and check.status == "found" for check in (check_of(profile, each) for each in COURSE)):
        return None
    variation = measure(profile, "series_variation_pct")
    return variation if variation.value <= EVEN_PCT else None


def rounded(profile: Profile, apart_pct: float) -> bool:
    """Whether so much of a difference may be but the whole seconds of a progress bar."""
    log = profile.run.job_log
    return not profile.traced and log is not None and apart_pct <= 100.0 * log.rounding


def overview(profile: Profile, marked: bool) -> list[Sentence]:
    """The breakdown in one sentence; none where what the device did is missing from it."""
    if device_work_missing(profile):
        return []
    shares = [(part, part_share(profile, part)) for part in PARTS]
    large = sorted((each for each in shares if each[1].value >= MENTIONED_PART_PCT), key=lambda each: -each[1].value)
    if not large:
        return []
    pieces = [f"{PART_TITLES[part]} {{{index}}}" for index, (part, _) in enumerate(large)]
    whole = "step" if marked else "recording"
    whole += "" if profile.run.screening is None else " of the ranks read in full"
    return [Sentence(f"Of the {whole}: {', '.join(pieces)}.", tuple(fact for _, fact in large))]


def part_share(profile: Profile, part: str) -> Fact:
    """The share of a part in the mean step."""
    return measure(profile, "part_pct", part=part)
