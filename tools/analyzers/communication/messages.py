"""Many small collectives on the host, where the library's threads take the cores that computation needs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.analyzers.communication.limit import holds_waiting
from tools.analyzers.communication.transfer import ONE_RANK, ONE_RANK_CAP
from tools.analyzers.cpu.environment import settings
from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.changes import scaled
from tools.analyzers.support.figures import measure_all, measure_ranks, measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Saving, Sentence
from tools.metrics.registry import measure
from tools.views.communication.collectives import asking_spans, collectives
from tools.views.communication.transfers import NEEDED_AT_ONCE, Fit, fits, small_messages, transfers
from tools.views.profile import Profile
from tools.whatif.change import Scale

FEW_BYTES = 0.5  # of the all-reduces: those of biases and norms, half of most networks' parameters
MANY = 20.0  # small collectives per step from which merging them is a question at all
SHARED_CORE = 0.5  # of the time that overlaps with compute: two threads on one core get half of it each
LEAST, MOST = 0.5, 1.3  # of the estimate: what the merged messages expose, and how many cores are free, is not known
UNSIZED = "The sizes of the messages were not recorded; large ones would take as long in one."
FREE_CORES = say("A part of it overlaps with compute, and costs less where cores are free.")


def small_on_host(profile: Profile) -> Check | Finding | None:
    """The cost of small collectives of known size; None where there are few, they cost little, or are debug checks."""
    if profile.run.has_device or len(profile.ranks) < 2 or small_messages(profile).empty:
        return None
    if _checked(profile):
        return None
    count, start = measure(profile, "small_message_count"), measure(profile, "small_message_start_ms")
    exposed, overlapped = measure(profile, "small_message_exposed_ms"), measure(profile, "small_message_beside_ms")
    step_ms, idle = profile.mean_step_ms, measured(profile, "idle_cores_pct")
    taken = SHARED_CORE * (1.0 - (0.0 if idle is None else idle.value) / 100.0)  # none where cores are idle
    saved_ms = max(exposed.value + taken * overlapped.value - start.value, 0.0)
    saved_pct = 100.0 * saved_ms / step_ms
    if count.value < MANY or saved_pct < profile.thresholds["cause_share_pct"]:
        return None
    text = (
        "A step has {0} small collectives. Starting one takes {1} where it waits for no other rank; all of them, with"
        " the waits, are exposed for {2} per step and overlap with compute for {3}."
    )
    return Finding(
        cause="small_packet",
        claim=say(text, count, start, exposed, overlapped),
        confidence=_merging_confidence(profile, saved_pct, count),
        ranks=profile.run.rank_numbers,
        steps=count.steps,
        saving=_merging(
            step_ms, saved_ms, "time that ranks lose to small collectives, less starting one that carries all"
        ),
        details=(say("A step has {0} collectives in all.", measure(profile, "collective_count")),),
        against=(FREE_CORES,) if round(overlapped.value, 2) > 0 else (),
    )


def _checked(profile: Profile) -> bool:
    """Whether debug checks, for which all ranks wait, come before each collective: what merging saves is not shown."""
    return any(own.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL" for own in settings(profile).values())


def _merging_confidence(profile: Profile, saved_pct: float, count: Fact) -> float:
    return confidence((saved_pct, profile.thresholds["cause_share_pct"]), (count.value, 0.5 * MANY), at_most=0.8)


def _merging(step_ms: float, saved_ms: float, method: str) -> Saving:
    return Saving(step_ms, saved_ms, LEAST * saved_ms, min(MOST * saved_ms, step_ms), method)


def one_for_each_parameter(profile: Profile) -> Finding | None:
    """An all-reduce for every gradient, where sizes are not recorded: one of all gradients carries as many bytes."""
    table, limits = collectives(profile), profile.thresholds
    table = table[(table["step"] >= 0) & (table["kind"] == "all_reduce")]
    if table.empty or not transfers(profile).empty or _checked(profile):
        return None
    for view in profile.ranks:
        given = view.step_of(np.flatnonzero(view.named("gradient_accumulated")))
        asked = table.loc[table["rank"] == view.rank.rank, "step"].to_numpy()
        if sorted(given[given >= 0].tolist()) != sorted(asked.tolist()):
            return None
    first = profile.run.rank_numbers[0]
    theirs = measure(profile, "collective_ms", kind="all_reduce").value / measure(profile, "collective_ms").value
    count, start = measure(profile, "accumulated_gradients", rank=first), theirs * _start_share(table)
    # The rank that has least of it waits for none that has more to compute; the others wait again in each collective.
    shown = measure_ranks(profile, profile.run.rank_numbers, "part_ms", part="exposed_communication")
    exposed = min(shown.values(), key=lambda fact: fact.value)
    step_ms, saved_ms = profile.mean_step_ms, exposed.value * start * (1.0 - 1.0 / max(count.value, 1.0))
    saved_pct = 100.0 * saved_ms / step_ms
    if count.value < MANY or saved_pct < limits["cause_share_pct"]:
        return None
    text = "A step runs an all-reduce for each of its {0}; they are exposed for {1}, where one can carry all of them."
    return Finding(
        cause="small_packet",
        claim=say(text, count, exposed),
        confidence=_merging_confidence(profile, saved_pct, count),
        ranks=profile.run.rank_numbers,
        steps=count.steps,
        saving=_merging(
            step_ms,
            saved_ms,
            "exposed time of one all-reduce per gradient as far as the shorter half last too, less a single one",
        ),
        signals=("many collectives per step",),
        against=(say(UNSIZED),),
    )


def _start_share(table: pd.DataFrame) -> float:
    """Of the time in collectives, what they would take were each as short as the shorter half, which carry few bytes.

    The rest goes with their sizes, which are not recorded, and stays when they are merged. The n-th collective of each
    step carries the same gradient: means over steps and ranks differ by size, single times by waiting for a core too.
    """
    ordered = table.sort_values("start_ns")
    place = ordered.groupby(["rank", "step"]).cumcount()
    mean_ns = (ordered["end_ns"] - ordered["start_ns"]).groupby(place).mean().to_numpy()
    return float(np.minimum(mean_ns, np.quantile(mean_ns, FEW_BYTES)).sum() / max(float(mean_ns.sum()), 1.0))


@check(
    *("communication.small_packet", "Many small messages", "Do many small collectives cost more than their data?"),
    causes=("small_packet",),
)
def small_packet(profile: Profile) -> Check | Finding | None:
    """Cost of many small messages: by what hosts do meanwhile, else by a line through duration over size."""
    if collectives(profile).empty:
        return None
    on_host = small_on_host(profile)
    if on_host is not None:
        return on_host
    if (each := one_for_each_parameter(profile)) is not None:
        return each
    usable = [fit for fit in fits(profile) if 100.0 * fit.error <= profile.thresholds["fit_error_pct"]]
    if not usable:
        return _many_short(profile)
    # Exchanges whose result is needed at once cannot be merged: what the next one carries is computed from it.
    free = [fit for fit in usable if fit.kind not in NEEDED_AT_ONCE]
    findings = [finding for fit in free if (finding := _mergeable(profile, fit)) is not None]
    if findings:
        return found(*findings)
    if len(profile.ranks) == 1 and any(holds_waiting(profile, fit) for fit in free):
        return cannot_answer(
            "the part of the collectives that does not depend on size is too long for a start: it holds waiting",
            "the traces of the other ranks for the same steps",
        )
    return clean(*[_fit_sentence(profile, fit) for fit in usable[:2]])


def _fit_sentence(profile: Profile, fit: Fit) -> Sentence:
    count = measure(profile, "collective_count", kind=fit.kind)
    fixed = measure_all(profile, "collective_fixed_ms", "collective_fixed_pct", kind=fit.kind, group=fit.group)
    text = "A step has {0} {n0} collectives; each costs {1} whatever its size, {2} of the transfer time."
    return say(text, count, *fixed, names=(fit.kind,))


def _exposed_share(profile: Profile) -> float:
    shown = measure(profile, "exposed_transfer_ms").value
    hidden = float(profile.breakdown["overlapped_communication_ns"].mean()) / 1e6
    return shown / (shown + hidden) if shown + hidden > 0 else 0.0


def _mergeable(profile: Profile, fit: Fit) -> Finding | None:
    limits = profile.thresholds
    saved_pct = 100.0 * (fit.mergeable_ns / 1e6 * _exposed_share(profile)) / profile.median_step_ms
    if (
        saved_pct < limits["noted_pct"]
        or 100.0 * fit.fixed_share < limits["collective_fixed_pct"]
        or fit.fixed_ns / 1e6 > limits["collective_start_ms"]
    ):
        return None
    saving = measure(profile, "mergeable_ms", kind=fit.kind, group=fit.group)
    one_rank = len(profile.ranks) == 1
    whole = fit.per_step * fit.fixed_ns + fit.bytes_per_step * fit.ns_per_byte
    text = "The {n0} collectives are too small for their link: fewer and larger ones would spend {0} less per step."
    return Finding(
        cause="small_packet",
        claim=say(text, saving, names=(fit.kind,)),
        confidence=confidence(
            (100.0 * fit.fixed_share, limits["collective_fixed_pct"]),
            (saved_pct, limits["noted_pct"]),
            at_most=ONE_RANK_CAP if one_rank else 0.9,
        ),
        ranks=profile.run.rank_numbers,
        change=scaled(profile, fit.kind, 1.0 - fit.mergeable_ns / max(whole, 1.0), group=fit.group),
        details=(_fit_sentence(profile, fit),),
        against=(ONE_RANK,) if one_rank else (),
        symptom_of=("straggler",) if one_rank else (),
        hints={"collective": fit.kind},
    )


def _many_short(profile: Profile) -> Check | Finding:
    """Sizes are unknown or explain nothing: judge by how many collectives are as short as a start alone."""
    table, limits = collectives(profile), profile.thresholds
    table = table[(table["step"] >= 0) & (table["kind"] != "send_recv")]
    duration_us = (table["end_ns"] - table["start_ns"]) / 1e3
    short = table[duration_us < limits["small_collective_us"]]
    steps, one_rank = max(len(profile.breakdown), 1), len(profile.ranks) == 1
    count = len(table) / steps
    if transfers(profile).empty and (len(table) == 0 or len(short) < 0.5 * len(table)):
        needs = "a trace with record_shapes=True or torch 2.3 or newer"
        return cannot_answer("the sizes of the collectives were not recorded", needs)
    facts = measure_all(profile, "collective_count", "collective_busy_ms")
    shape = say("A step has {0} collectives per rank; at least one of them runs for {1}.", *facts)
    held_up = measure(profile, "collective_host_ms")
    spent_ms = float(duration_us.loc[short.index].sum()) / 1e3 / steps * _exposed_share(profile) + held_up.value
    saved_pct = 100.0 * spent_ms / profile.median_step_ms
    if count < MANY or len(short) < 0.5 * len(table) or saved_pct < limits["noted_pct"]:
        return clean(shape)
    asking = tuple(
        Scale(rank.rank.rank, int(track), asking_spans(rank), 1.0 / count, 0.5 * (1.0 + 1.0 / count))
        for rank in profile.ranks
        for track in rank.training_tracks
    )
    text = "Most of the {0} collectives of a step are little but their start; launching them costs {1} per step."
    return Finding(
        cause="small_packet",
        claim=say(text, facts[0], held_up),
        confidence=confidence((saved_pct, limits["noted_pct"]), (count, MANY), at_most=ONE_RANK_CAP),
        ranks=profile.run.rank_numbers,
        change=(*scaled(profile, None, 1.0 / count, longest_us=limits["small_collective_us"]), *asking),
        details=(shape,),
        signals=("many collectives per step", "latency-bound time"),
        against=(say("The sizes of the messages were not recorded."), *((ONE_RANK,) if one_rank else ())),
    )
