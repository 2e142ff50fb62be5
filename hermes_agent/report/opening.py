"""The first sentences of the answer: the headline, where the time goes, and what is open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hermes_agent.model.display import PART_TITLES, cause_title, costs, on_ranks, spans
from tools.analyzers.registry import check_of
from tools.analyzers.steps.lines_apart import lines_apart
from tools.analyzers.steps.output_warnings import lost_from, not_finite
from tools.analyzers.steps.step_time import unprofiled, untouched
from tools.analyzers.support.figures import measured
from tools.findings import Check, Fact, Sentence
from tools.judgement.catalog import measure
from tools.judgement.lead import EVERY_STEP, in_terms_of_run
from tools.judgement.level_lead import AT_LEVELS
from tools.judgement.ranked_cause import RankedCause, steps_marked
from tools.judgement.ranking import Ranking
from tools.judgement.savings import cause_key
from tools.judgement.unseen import device_work_missing
from tools.judgement.verdict import NEEDED, outside_steps_rank
from tools.knowledge.untrained import without_training
from tools.metrics.step_time import slowest_on_average
from tools.run.device_use import ran_on_cpu
from tools.run.model import Source, SourceStatus
from tools.run.program_frames import short_frame
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.training_seen import inference_name, trains

NO_TRACE = "No trace was read: this answer rests on records of whole steps"
UNSEEN_CAUSES = "slow operators, small launches and transfers are not visible in them"
PLAIN_REASON = re.compile(r"[\w ,.:;()'/-]{1,200}")  # no place of a sentence, citation, code or line end
STATED_WITHOUT_STEPS = (
    "communication.hccl_errors",
    "computation.device_errors",
    "memory.output_flushes",
    "cpu.logged_recompilations",
    "io.output_table",
)
OF_COLLECTIVES = ("flight_recorder", "ras", "inspector_arrival", "inspector_bandwidth")
MENTIONED_PART_PCT = 1.0  # parts below this share are left out of the sentence about the breakdown
UNMARKED = (
    "No steps are marked in this recording: all of it counts as one step, start-up included, and figures per step are "
    "figures of the whole recording; nothing shows that training steps look like it."
)
ALSO_LOST = "Also seen: {}, which add {{0}} to the mean step (lead {})."
NO_TRAINING = "No training step found: the traces hold neither a backward pass nor an optimizer"


def opening(profile: Profile, ranking: Ranking) -> list[Sentence]:
    """Return the first sentences, the headline first; every figure is a fact.

    A loss that is no finite number from some step on comes before how fast the steps are.
    """
    said = _of_speed(profile, ranking)
    lost = not_finite(profile) if lost_from(profile) is not None else []
    known = {each.template for each in lost}
    return [*lost, *(each for each in said if each.template not in known)]


def _of_speed(profile: Profile, ranking: Ranking) -> list[Sentence]:
    if not profile.measured:
        return [
            *_of_output(profile),
            *_stated_mfu(profile),
            *_of_samples(profile),
            *_without_steps(profile),
            *_of_tables(profile),
            *_cut(profile),
            *_open_verdict(ranking),
            *_partial(profile),
        ]
    marked, verdict = steps_marked(profile.run), ranking.steps_verdict or ranking.verdict
    if not profile.traced:
        inside = [
            *_even(profile),
            *_drifting(profile, ranking),
            *_of_tables(profile),
            Sentence(f"{NO_TRACE}; {UNSEEN_CAUSES}."),
        ]
    else:
        inside = [
            *(_in_turns(profile) if verdict == "problem" else ()),
            *_overview(profile, marked),
            *_on_cpu(profile),
            *_with_outlier(profile),
            *([] if marked else [Sentence(UNMARKED)]),
            *_outside_steps(profile),
        ]
    of_output = _of_output(profile)
    headline = _headline(profile, replace(ranking, verdict=verdict), marked)
    headline += _other_losses(ranking)
    said = [
        *([*of_output, *headline] if ranking.steps_verdict and of_output else [*headline, *of_output]),
        *_one_of_files(profile),
        *lines_apart(profile),
        *_of_samples(profile),
        *_unpriced(profile, ranking, (*of_output, *_of_samples(profile))),
        *_open_verdict(ranking),
        *screened(profile),
        *_cut(profile),
        *_partial(profile),
        *unprofiled(profile),
        *_stated_mfu(profile),
        *inside,
    ]
    if trains(profile):
        return said
    said = [replace(each, template=without_training(each.template)) for each in said]
    return [said[0], _untrained(profile), *said[1:]]


OUTLIER_PCT = 10.0  # of the median step: by so much a single step lifts the mean one, and the others do not


def _with_outlier(profile: Profile) -> list[Sentence]:
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


def _on_cpu(profile: Profile) -> list[Sentence]:
    """That a trace which names a device is of a program that ran on the CPU, and how its operators fill the time."""
    backend = profile.run.layout.backend
    ranks = [rank for rank in profile.run.ranks if rank.devices and ran_on_cpu(rank, backend)]
    if len(ranks) < len(profile.run.ranks) or not ranks:
        return []
    named = ranks[0].devices[0].name
    text = (
        f"The trace names {'{n0}' if named else 'a device'}, but nothing is launched on it and all recorded allocations"
        " are of the host's memory: the operators ran on the CPU, for {0}."
    )
    return [
        Sentence(text, (measure(profile, "part_ms", part="compute", rank=ranks[0].rank),), (named,) if named else ())
    ]


FILES_NAMED = 3


def _one_of_files(profile: Profile) -> list[Sentence]:
    """Which files' steps are used where others hold steps of the same ranks: they may be of two runs."""
    log = profile.run.job_log
    series = profile.series
    if log is None or not log.unused or series is None or series.origin != "job_log":
        return []
    used, unused = log.used[:FILES_NAMED], log.unused[:FILES_NAMED]
    names = (*used, *unused)
    places = [f"{{n{at}}}" for at in range(len(names))]
    also = " and others" if len(log.used) > FILES_NAMED else ""
    more = f" and {len(log.unused) - FILES_NAMED} more" if len(log.unused) > FILES_NAMED else ""
    left_out = (
        "holds steps of the same ranks and is" if len(log.unused) == 1 else "hold steps of the same ranks and are"
    )
    of, others = ", ".join(places[: len(used)]) + also, ", ".join(places[len(used) :]) + more
    text = f"The steps are those of {of}; {others} {left_out} left out: of two runs `hermes-dx compare FIRST SECOND`"
    text += " shows the difference."
    return [Sentence(text, (), names)]


def _even(profile: Profile) -> tuple[Sentence, ...]:
    """How little the step time varies, where no step is far above the median."""
    check = check_of(profile, "step_time.fluctuation")
    return check.support if check is not None and check.status == "clean" else ()


def _drifting(profile: Profile, ranking: Ranking) -> tuple[Sentence, ...]:
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


def _in_turns(profile: Profile) -> list[Sentence]:
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


STATED_MFU = "The lines state an MFU of {0}, by the program's own figure of the device's peak."
IMPOSSIBLE_MFU = (
    "The lines state an MFU of {0}, more than a device can reach: the program takes the device's peak for too low, or "
    "counts too many operations."
)
WHOLE_PCT = 100.0


def _stated_mfu(profile: Profile) -> list[Sentence]:
    """The MFU that step lines state; of a trace it is computed."""
    log = profile.run.job_log
    if profile.traced or log is None or log.steps["mfu_pct"].isna().all():
        return []
    stated = measured(profile, "stated_mfu_pct")
    if stated is None:
        return []
    return [Sentence(STATED_MFU if stated.value <= WHOLE_PCT else IMPOSSIBLE_MFU, (stated,))]


def _untrained(profile: Profile) -> Sentence:
    """That the traces hold no training step, and whether names show that it is inference."""
    name = inference_name(profile)
    if name:
        return Sentence(f"{NO_TRAINING}. By names such as {{n0}} it is inference.", (), (name,))
    return Sentence(f"{NO_TRAINING}. It is inference, an evaluation, or a part of a step.")


def _of_output(profile: Profile) -> list[Sentence]:
    """What the job's own output and records of its collectives show of communication: time-outs, ranks that hold up
    others, a slow path, and where the output has no steps the rest.

    Nobody can say what a slow path costs, so it is no cause with a saving.
    """
    timed_out, network = (check_of(profile, f"communication.{name}") for name in ("timeouts", "library_log"))
    said = list[Sentence]()
    known = [check_of(profile, f"communication.{name}") for name in OF_COLLECTIVES]
    shown = [each for each in known if each is not None and each.status == "found"]
    if not (shown or profile.measured):
        shown = [each for each in known if each is not None]
    for each in shown:
        said += [*(finding.claim for finding in each.findings), *each.support]
    differing = check_of(profile, "communication.reported_ranks")
    said += [] if differing is None else differing.support
    said += [] if timed_out is None else timed_out.support
    if network is not None:
        said += [finding.claim for finding in network.findings]
        symptom = network.status == "found" and not network.findings
        said += network.support if symptom or not profile.measured else []
    repeated = check_of(profile, "communication.library_warnings")
    said += [] if repeated is None else repeated.support
    for name in ("step_time.throughput", "step_time.epochs", "step_time.restarts", "step_time.side_work"):
        if (answered := check_of(profile, name)) is not None:
            said += [each.claim for each in answered.findings if each.saving is None]
            said += answered.support
    said += _of_ranks(profile)
    skipped = check_of(profile, "computation.skipped_steps")
    said += [] if skipped is None else _seen(skipped)
    timed = None if profile.measured else check_of(profile, "step_time.timers")
    said = [*(() if timed is None else timed.support), *said]
    warned = check_of(profile, "step_time.output")
    said += list(() if warned is None else _seen(warned) if profile.measured else warned.support)
    return said if profile.measured else [*said, *_of_profilers(profile)]


def _of_ranks(profile: Profile) -> list[Sentence]:
    """The rank that a straggler report calls the slowest, and what the job's timers or lines show of ranks that is no
    cause."""
    reported, timers = (
        check_of(profile, name) for name in ("computation.straggler_report", "communication.rank_timers")
    )
    said: list[Sentence] = []
    if reported is not None and reported.status == "found":
        said += [*(finding.claim for finding in reported.findings), *reported.support]
    return [*said, *(() if timers is None else _seen(timers))]


def _of_profilers(profile: Profile) -> list[Sentence]:
    """What the output states that is no step: errors of HCCL, flushed caches, and profilers' tables."""
    checks = [check_of(profile, name) for name in STATED_WITHOUT_STEPS]
    said = [
        each
        for check in checks
        if check is not None and check.status != "cannot_answer"
        for each in (*(finding.claim for finding in check.findings), *check.support)
    ]
    totals = check_of(profile, "computation.output_operators")
    tables = check_of(profile, "step_time.profile_tables")
    if tables is not None:
        said += [*tables.support, *(() if totals is None else totals.support[:1])]
    return said


def _unpriced(profile: Profile, ranking: Ranking, said: Sequence[Sentence]) -> list[Sentence]:
    """What leads of a run without a trace show at a cost that is not known, but for what is ``said``."""
    known = {each.template for each in said}
    opened = [] if ranking.causes else [each for each in ranking.leads[:1] if each.place.frame]  # by the headline
    found = [] if profile.traced else [each for each in ranking.leads if not each.impact_ms and each not in opened]
    return [each.claim for each in found if each.claim.template not in known]


SAMPLED = (
    *("computation.clocks", "cpu.machine_samples", "io.machine_samples", "communication.network_samples"),
    *("computation.devices_alike", "computation.device_use", "computation.device_instances"),
    *("computation.device_links", "communication.link_reports", "io.storage_test", "memory.host_reports"),
    *("memory.output_peak", "memory.device_samples"),
)
COMPARED = ("computation.clocks", "computation.devices_alike")  # what steps and traces do not show by themselves
# Of which steps that a job prints show nothing.
OF_DEVICES = ("computation.device_use", "memory.output_peak", "memory.device_samples")
MOST_SAMPLED = 4  # sentences of what samples show, findings first


def _of_samples(profile: Profile) -> list[Sentence]:
    """What sampled counters show that has no known cost; without a trace the state of devices as well."""
    checks = [each for name in SAMPLED if (each := check_of(profile, name)) is not None]
    said = [each.claim for check in checks for each in check.findings if each.saving is None]
    if profile.measured:
        said += [each for check in checks if check.name in COMPARED and not check.findings for each in _seen(check)]
        if not profile.traced and profile.series is not None and profile.series.origin == "job_log":
            shown = [check for check in checks if check.name in OF_DEVICES and check.status in ("found", "clean")]
            said += [each for check in shown if not check.findings for each in check.support]
    else:
        said += [
            each
            for status in ("found", "clean", "cannot_answer")
            for check in checks
            if check.status == status
            for each in check.support
        ]
    return said[:MOST_SAMPLED]


MOST_OF_A_KIND = 3  # sentences of where host threads are, or of the allocator
WITHOUT_STEPS = ("cpu.sampled_stacks", "memory.snapshot")


def _without_steps(profile: Profile) -> list[Sentence]:
    """What sampled stacks and snapshots of the allocator show, findings first, where there are no steps."""
    said = list[Sentence]()
    for check in filter(None, (check_of(profile, name) for name in WITHOUT_STEPS)):
        found = [each for finding in check.findings for each in (finding.claim, *finding.details)]
        said += [*found, *check.support][:MOST_OF_A_KIND]
    return said


WORKERS = (
    "A rank of this table is one data-parallel rank of one pipeline stage: it stands for all devices that share its "
    "work by tensor parallelism, whose number the table does not hold."
)
OF_KERNELS = ("computation.ai_cpu", "computation.conversion")


def _of_tables(profile: Profile) -> list[Sentence]:
    """How a profiler's own tables split the step, without one what they show of kernels; and whom rows of a table of
    operations stand for."""
    names = ("step.account",) if profile.measured else OF_KERNELS
    checks = [each for name in names if (each := check_of(profile, name)) is not None]
    said = [sentence for each in checks for sentence in _seen(each)]
    return [*said, *([Sentence(WORKERS)] if profile.run.operations is not None else [])]


def _seen(check: Check) -> tuple[Sentence, ...]:
    """What a check found that is no cause by itself."""
    return check.support if check.status == "found" else ()


def _outside_steps(profile: Profile) -> list[Sentence]:
    """A large share of the recording that is in none of the inferred steps."""
    rank = outside_steps_rank(profile)
    if rank is None:
        return []
    text = (
        f"Steps are inferred: on rank {rank} {{0}} of the recording is in none of them; no figure per step covers it."
    )
    return [Sentence(text, (measure(profile, "outside_steps_pct", rank=rank),))]


MOST_UNREAD = 3  # traces that could not be read and are named


def screened(profile: Profile) -> list[Sentence]:
    """On how many of how many ranks the answer rests, where not all were read in full."""
    screening = profile.run.screening
    if screening is None:
        return []
    counts = tuple(measure(profile, name) for name in ("summarized_ranks", "traced_ranks", "ranks_read_in_full"))
    text = "This answer rests on {0} of {1} traced ranks, compared by summary; {2} were read in full."
    if screening.found < (profile.run.layout.world_size or 0):
        text += " Other ranks of the job have no trace."
    said = [Sentence(text, counts)]
    if screening.unread:
        names = tuple(each.name for each in screening.unread[:MOST_UNREAD])
        more = len(screening.unread) - len(names)
        listed = ", ".join(f"{{n{place}}}" for place in range(len(names)))
        said.append(Sentence(f"Not read: {listed}{f' and {more} more' if more else ''} (-v says why).", (), names))
    return said


def stands_for(profile: Profile, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """The ranks, in unbroken rows, that these stand for with others like them; empty where it is only these."""
    screening = profile.run.screening
    if screening is None or not ranks:
        return []
    stood = screening.standing_for(ranks, profile.run.rank_numbers)
    return [] if set(stood) == set(ranks) else spans(stood)


MOST_CUT = 3  # cut traces that are named one by one


CUT = (
    "is cut: its events end after {0} of text ({1} events), and whole threads, streams or kinds of events may be "
    "missing."
)
DAMAGED = (
    "is damaged in the middle: {1} events were found in {0} of text, others are missing, and they may be whole "
    "threads, streams or kinds of events."
)


def _cut(profile: Profile) -> list[Sentence]:
    """The traces that are cut or damaged, where, and what that means."""
    ranks = sorted({each.rank for each in profile.run.cut})
    if not ranks:
        return []
    shown = {each.rank: each for each in profile.run.cut}
    said = [
        Sentence(
            f"The trace {{n0}} of rank {rank} {DAMAGED if shown[rank].within else CUT}",
            (measure(profile, "cut_trace_text_bytes", rank=rank), measure(profile, "cut_trace_events", rank=rank)),
            (shown[rank].path.name,),
        )
        for rank in ranks[:MOST_CUT]
    ]
    if len(ranks) > MOST_CUT:
        said.append(Sentence(f"The traces of {len(ranks) - MOST_CUT} more ranks are cut or damaged too."))
    rest = " They are left out: nothing is measured on them, and the other ranks are not compared with them."
    if len(ranks) == 1:
        rest = " It is left out: nothing is measured on it, and the other ranks are not compared with it."
    if profile.traced:
        said[-1] = replace(said[-1], template=said[-1].template + rest)
    return said


def _partial(profile: Profile) -> list[Sentence]:
    """Files that were read in part only or not at all."""
    if profile.run.screening is not None:
        return _about_files(profile, "partial", "Only a part of {n0}%s could be read; the answer rests on that part.")
    return [
        *_about_files(profile, "partial", "Only a part of {n0}%s could be read; the answer rests on that part."),
        *_about_files(profile, "excluded", "{n0}%s could not be used%s; the answer does not cover %s."),
    ]


def _about_files(profile: Profile, status: SourceStatus, text: str) -> list[Sentence]:
    cut = {each.path for each in profile.run.cut}
    found = [source for source in profile.run.sources if source.status == status and source.path not in cut]
    if not found:
        return []
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    reason = _reason(found[0])
    words = (others, f"; the first{reason}" if others and reason else reason, "them" if others else "it")
    return [Sentence(text % words[: text.count("%s")], (), (found[0].path.name,))]


def _reason(source: Source) -> str:
    """Why a file could not be used, where its note can stand within a sentence; the notes have it in any case."""
    words = source.note
    for known in ("left out: ", f"{source.path}: ", f"{source.path.name}: "):
        words = words.removeprefix(known)
    words = f"it {words}" if words.startswith("is ") else words
    return f": {words}" if PLAIN_REASON.fullmatch(words) else ""


def about(ranked: RankedCause) -> dict[str, str]:
    """Return the arguments that name a cause in the metrics on savings."""
    return dict(zip(("cause", "mechanism", "ranks"), cause_key(ranked), strict=True))


OTHERS_UNSEEN = "Not all ranks were traced: whether the others wait for those that were is not known."


def _headline(profile: Profile, ranking: Ranking, marked: bool) -> list[Sentence]:
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
    if unexplained and not sure and _share(profile, ranking.unexplained[0]).value > top.impact_pct:
        return [*unexplained, *said]
    if not sure and _lead_is_larger(profile, ranking, top, marked):
        also = _cost(profile, top, f"Also found{_doubt(top, enough)}: ", marked)
        return [_only_leads(profile, ranking, takes, step), also, *unexplained]
    return [*said, *unexplained]


SMALL_WAIT_PCT = 10.0  # of a step: half of it may be hidden behind the device, and the rest explains no slow training


def _small_wait(top: RankedCause) -> bool:
    """Whether the cause is a wait for data in a job's lines that makes no step long."""
    return top.finding.mechanism == "unexplained_wait" and top.impact_pct < SMALL_WAIT_PCT


def _other_losses(ranking: Ranking) -> list[Sentence]:
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
    if (variation := _even_steps(profile)) is not None:
        steps = "the lines" if profile.series is not None and profile.series.averaged else "steps"
        return Sentence(f"{takes}; {steps} are even ({{1}} variation), and {NOT_JUDGED}.", (step, variation))
    return Sentence(f"{takes}; what slows it down is not assessable from this data.", (step,))


NOT_JUDGED = "whether that is fast for this model is not in the job's output"
LEAST_EVEN = 3  # lines: two are alike by chance
EVEN_PCT = 5.0  # steps of the same model and batch size take the same time within a few per cent
COURSE = ("step_time.fluctuation", "step_time.trend", "step_time.change_point")


def _even_steps(profile: Profile) -> Fact | None:
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


def _overview(profile: Profile, marked: bool) -> list[Sentence]:
    """The breakdown in one sentence; none where what the device did is missing from it."""
    if device_work_missing(profile):
        return []
    shares = [(part, _share(profile, part)) for part in PARTS]
    large = sorted((each for each in shares if each[1].value >= MENTIONED_PART_PCT), key=lambda each: -each[1].value)
    if not large:
        return []
    pieces = [f"{PART_TITLES[part]} {{{index}}}" for index, (part, _) in enumerate(large)]
    whole = "step" if marked else "recording"
    whole += "" if profile.run.screening is None else " of the ranks read in full"
    return [Sentence(f"Of the {whole}: {', '.join(pieces)}.", tuple(fact for _, fact in large))]


def _share(profile: Profile, part: str) -> Fact:
    return measure(profile, "part_pct", part=part)


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
    return [Sentence(text, tuple(_share(profile, part) for part in parts))]


def _open_verdict(ranking: Ranking) -> list[Sentence]:
    if ranking.verdict != "inconclusive":
        return []
    return [Sentence(f"Inconclusive because {ranking.why}; what would settle it: {ranking.needs}.")]
