"""Does the step wait for data, or for data to reach the device?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.io.loader_records import UNREAD, loader_reading, recorded_data_wait
from tools.analyzers.io.logged_data_wait import logged_data_wait
from tools.analyzers.overlap.idle import removal
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, values, worst_of
from tools.analyzers.support.changes import shortened, shortened_on
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding, Sentence
from tools.intervals import intersect, length, subtract
from tools.metrics.io import exposed_uploads, loader_place, upload_rows
from tools.metrics.offload import MOSTLY_OFFLOADED
from tools.metrics.recorded.host_stacks import loading_frames
from tools.metrics.registry import measure
from tools.run.program_frames import short_frame
from tools.views.device.unrecorded import without_kernels, without_launches
from tools.views.host.blocking import upload_calls
from tools.views.host.loader_restarts import restarts
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale
from tools.whatif.threads import main_track

RESTART_CAP = 0.9  # how long an epoch is outside of the recorded steps is open
CAUTIOUS_SHARE = 0.5
HANDED_OVER = "for the {kind}, no longer than handing over a batch that is ready may take"
EVIDENT_PCT = 50.0  # a kind of work that fills half of the loader's time is what the loader does
IN_PLACE = " {2} of the loader's time is in {n0}."
READ_OR_MADE = (
    " Whether reading or making it takes that long (`__getitem__`, the collate function) is not recorded:"
    " `py-spy record --pid PID --format speedscope` on this process for a minute names the function."
)
KIND_NAMES = {
    "single": "data loader, which works in the training process itself,",
    "workers": "data loader with worker processes",
    "other": "data loader",
}
INSIDE = (
    "Frames that read files fill {0} of the loader's time.",
    "Frames that transform samples fill {0} of the loader's time.",
    "Framework operators fill {0} of the loader's time: batches are computed there.",
)


@check(
    *("io.data_loader", "Data loader", "Does the step wait for the data loader?"),
    causes=("slow_data_reading", "slow_data_processing"),
    mechanisms=("too_few_workers", "heavy_transform", "process_binding", "workers_restarted", "unexplained_wait"),
    from_records="steps",
    of_step_lines=("slow_data_processing",),
)
def data_loader(profile: Profile) -> Check | Finding:
    """The time that a step waits for its data loader, and what the loader does meanwhile."""
    if not profile.traced:
        return logged_data_wait(profile) or recorded_data_wait(profile)
    if (unknown := without_kernels(profile)) is not None:
        return cannot_answer(*unknown)
    ranks = [view.rank.rank for view in profile.ranks if len(view.in_steps(view.loader_rows))]
    if not ranks:
        devices = [view.rank.rank for view in profile.ranks if view.rank.has_device]
        host = measure_ranks(profile, devices, "part_pct", part="host")
        largest = max(host.values(), key=lambda fact: fact.value, default=None)
        if largest is not None and len(host) == len(profile.ranks) and largest.value < profile.thresholds["noted_pct"]:
            text = "The device waits for the host, and so for any data, during {0} of the step at most."
            return clean(say(text, largest))
        return cannot_answer(
            "no data-loader span is recorded on a training thread",
            "the loop over the DataLoader inside the profiled steps, or a record_function span around fetching a batch",
        )
    if restarting := _restarting(profile, ranks):
        return restarting
    shares = measure_ranks(profile, ranks, "part_pct", part="data_wait")
    worst, chosen = worst_of(values(shares)), affected(values(shares), profile.thresholds["noted_pct"])
    most = shares[worst].value / profile.thresholds["straggler_lead"]
    chosen = tuple(rank for rank in chosen if shares[rank].value > most)  # one that waits far less waits for others
    if chosen:
        return _finding(profile, chosen, worst)
    text = "The step waits {0} for its data loader ({1}); the loader's spans last {2}, hidden or not."
    return clean(say(text, _wait_ms(profile, worst), shares[worst], measure(profile, "loader_span_ms", rank=worst)))


def _restarting(profile: Profile, ranks: list[int]) -> Finding | None:
    """Workers that are started again for each epoch, where that is most of what the run waits for its loader."""
    costs = measure_ranks(profile, ranks, "worker_restart_ms")
    worst = worst_of(values(costs))
    share_pct = 100.0 * costs[worst].value / float(profile.rank(worst).wall_ms.mean())
    limits = profile.thresholds
    if share_pct < limits["noted_pct"] or costs[worst].value < EVIDENT_PCT / 100.0 * _wait_ms(profile, worst).value:
        return None
    chosen = tuple(rank for rank in ranks if len(restarts(profile, rank)))
    count, each = measure_all(profile, "worker_restarts", "worker_restart_each_ms", rank=worst)
    text = "At {0} in the recorded steps the data loader stops its workers and starts new ones: {1} each, {2} per step."
    return Finding(
        cause="slow_data_processing",
        mechanism="workers_restarted",
        claim=say(text, count, each, costs[worst]),
        confidence=confidence((share_pct, limits["data_wait_pct"]), at_most=RESTART_CAP),
        ranks=chosen,
        steps=tuple(sorted(int(step) for rank in chosen for step in restarts(profile, rank)["step"].unique())),
        change=tuple(scale for rank in chosen for scale in _kept_workers(profile, rank)),
        details=(say("The loader's spans last {0} per step.", measure(profile, "loader_span_ms", rank=worst)),),
        against=(say("How long an epoch is outside of the recorded steps is not known."),),
        disproved_by="`persistent_workers=True` leaves the mean step time as it is",
        signals=("loader calls without a batch that last milliseconds", "long first batch of each epoch"),
        hints={"loader": "workers"},
    )


def _kept_workers(profile: Profile, rank: int) -> tuple[Scale, ...]:
    """Of each restart the time of a usual call stays."""
    table, track = restarts(profile, rank), main_track(profile.rank(rank))
    spans = table[["start_ns", "end_ns"]].to_numpy()
    left = min(1.0, float(table["usual_ns"].sum()) / max(float((spans[:, 1] - spans[:, 0]).sum()), 1.0))
    return (Scale(rank, track, spans, left, 0.5 * (1.0 + left)),) if len(spans) else ()


def _place(profile: Profile, rank: int) -> tuple[str, tuple[Fact, ...]]:
    """The function or span in which the loader spends most of its time, and the share: by the trace, else by sampled
    stacks; nothing where neither names one."""
    if name := loader_place(profile, rank):
        return name, (measure(profile, "loader_named_pct", rank=rank, name=name),)
    inside = loading_frames(profile, rank)
    if inside["samples"].sum() < profile.thresholds["fewest_stack_samples"]:
        return "", ()
    name = str(inside.groupby("name")["samples"].sum().idxmax())
    share = measure(profile, "loading_frame_pct", rank=rank, name=name)
    return (short_frame(name), (share,)) if name and share.value >= EVIDENT_PCT else ("", ())


def _wait_ms(profile: Profile, rank: int) -> Fact:
    return measure(profile, "part_ms", part="data_wait", rank=rank)


def _finding(profile: Profile, ranks: tuple[int, ...], worst: int) -> Finding:
    share, amount = measure(profile, "part_pct", part="data_wait", rank=worst), _wait_ms(profile, worst)
    view, work = profile.rank(worst), _work(profile, worst)
    kind = loader_kind(view)
    others = [rank for rank in profile.run.rank_numbers if rank not in ranks]
    spared = max((_wait_ms(profile, rank) for rank in others), key=lambda fact: fact.value, default=None)
    common = ("device idle while the loader span is open", "data wait")
    waited = view.breakdown["data_wait_ns"] * 100.0 > view.breakdown["wall_ns"] * profile.thresholds["noted_pct"]
    cause, mechanism, ceiling = _diagnosis(profile, ranks, work, kind)
    by_records = loader_reading(profile, worst, kind)
    if by_records is not None:
        # Records decide between reading and processing; that other ranks' like loaders keep up speaks against workers.
        heavy = mechanism == "heavy_transform" or _same_kind_spared(profile, ranks, kind)
        cause, mechanism, ceiling = by_records.cause, by_records.mechanism, by_records.at_most
        mechanism = "heavy_transform" if heavy and mechanism == "too_few_workers" else mechanism
    place, named = _place(profile, worst)
    unread = by_records is None and not named and kind == "single" and ceiling == UNREAD
    waiting = measure(profile, "loader_wait_steps", rank=worst)
    no_batch = "because the {kind} has no batch ready" if waiting.value else HANDED_OVER
    limit = profile.thresholds["data_wait_pct"]
    if mechanism == "too_few_workers" and by_records is None and not view.rank.has_device:
        limit /= CAUTIOUS_SHARE  # workers compute where operators do: cautiously they give back half of what they take
    return Finding(
        cause=cause,
        mechanism=mechanism,
        claim=say(
            ("The device is idle" if view.rank.has_device else "The training thread waits")
            + " {0} per step ({1}) "
            + no_batch.format(kind=KIND_NAMES[kind])
            + (" on some ranks only." if len(ranks) < len(profile.ranks) else ".")
            + (IN_PLACE if named else READ_OR_MADE if unread else ""),
            amount,
            share,
            *named,
            names=(place,) if named else (),
        ),
        confidence=confidence((share.value, limit), at_most=ceiling) * (0.5 + 0.5 * waiting.value / len(view.steps)),
        ranks=ranks,
        steps=tuple(int(step) for step in view.breakdown["number"][waited]),
        # Cautiously half of each span stays, for workers share the cores and hand batches over.
        change=shortened_on(profile, ranks, lambda view: view.in_steps(view.loader_rows), 0.0),
        details=(
            say("The loader's spans last {0} per step.", measure(profile, "loader_span_ms", rank=worst)),
            say("The wait is seen in {0}.", waiting),
            *(
                say(text if fact.value >= EVIDENT_PCT else text.partition(":")[0] + ".", fact)
                for text, fact in zip(INSIDE, work, strict=True)
                if fact.value >= 1.0
            ),
            *(() if by_records is None else by_records.sentences),
            *(() if spared is None else (say("No other rank waits longer for data than {0} per step.", spared),)),
        ),
        against=_against(work, cause, kind) if by_records is None else (),
        signals=(*common, "single-process loader") if kind == "single" else common,
        hints={"loader": kind},
    )


def loader_kind(view: RankProfile) -> str:
    """``single`` (in the training process), ``workers`` or ``other`` when the spans' names do not show it."""
    rows = view.in_steps(view.loader_rows)
    if view.named("single_process_loader")[rows].any():
        return "single"
    return "workers" if view.named("multi_process_loader")[rows].any() else "other"


def _diagnosis(
    profile: Profile, ranks: tuple[int, ...], work: tuple[Fact, ...], kind: str
) -> tuple[str, str | None, float]:
    """Cause, mechanism and the most confidence the evidence allows. Equal loaders that keep up acquit workers."""
    reading, processing, operators = work
    if reading.value >= EVIDENT_PCT and reading.value > max(processing.value, operators.value):
        return "slow_data_reading", None, 0.9
    evident = max(processing.value, operators.value) >= EVIDENT_PCT
    if kind == "single" and not (evident and _same_kind_spared(profile, ranks, kind)):
        return "slow_data_processing", "too_few_workers", 0.95 if evident else UNREAD
    if evident:
        return "slow_data_processing", "heavy_transform", 0.95 if kind == "single" else 0.85
    return "slow_data_processing", "unexplained_wait", 0.7


def _same_kind_spared(profile: Profile, ranks: tuple[int, ...], kind: str) -> bool:
    others = [view for view in profile.ranks if view.rank.rank not in ranks]
    return any(loader_kind(view) == kind for view in others)


def _work(profile: Profile, rank: int) -> tuple[Fact, ...]:
    frames = (measure(profile, "loader_frames_pct", rank=rank, what=what) for what in ("reading", "processing"))
    return *frames, measure(profile, "loader_operators_pct", rank=rank)


def _against(work: tuple[Fact, ...], cause: str, kind: str) -> tuple[Sentence, ...]:
    if max(fact.value for fact in work) < EVIDENT_PCT:
        text = (
            "What the workers do is not in this trace, so slow reading would look the same as slow processing."
            if kind == "workers"
            else "What the loader does inside its span is not recorded, so slow reading would look the same."
        )
        return (say(text),)
    return (say(INSIDE[0], work[0]),) if cause == "slow_data_processing" and work[0].value >= 10.0 else ()


def _prefetched(view: RankProfile) -> Change:
    """The rank's copies to the device as short as running under all of its kernels makes them."""
    rows, window = upload_rows(view), np.array([view.rank.window()], dtype=np.int64)
    free_ns = length(subtract(intersect(view.activity.device_compute, window), view.covered(rows)))
    return shortened(view, rows, 1.0 - min(free_ns / max(length(exposed_uploads(view)), 1), 1.0))


@check(
    *("io.upload", "Host-to-device copies", "Does the step wait for copies to the device?"),
    causes=("slow_data_fetching",),
    mechanisms=("pageable_copy", "no_prefetch"),
    needs=(Need.COPIES,),
)
def uploads(profile: Profile) -> Check | Finding:
    """Host-to-device copies that run while nothing computes, and host time spent preparing them."""
    ranks = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    shares = measure_ranks(profile, ranks, "upload_exposed_pct")
    worst = worst_of(values(shares))
    share = shares[worst]
    amount = measure(profile, "upload_exposed_ms", rank=worst, statistic="median")
    prepared = measure(profile, "device_idle_ms", rank=worst, reason="upload", statistic="median")
    longest = measure(profile, "device_idle_ms", rank=worst, reason="upload", statistic="max")
    chosen = affected(values(shares), profile.thresholds["upload_pct"])
    if not chosen:
        text = "Exposed copies to the device take {0} of the step"
        if worst in without_launches(profile):
            return clean(say(f"{text}; what the host does for them is not recorded.", share))
        return clean(say(f"{text}; preparing pageable ones {{1}} (median), {{2}} at most.", share, prepared, longest))
    if measure(profile, "offload_exposed_ms", rank=worst).value >= MOSTLY_OFFLOADED * amount.value:
        return clean(say("Most copies to the device bring back offloaded data: {0} without compute.", amount))
    # Prefetched copies overlap with kernels: what these do not cover stays on the path, cautiously half of the rest.
    copies = tuple(scale for rank in chosen for scale in _prefetched(profile.rank(rank)))
    pageable = bool(len(upload_calls(profile, worst)))
    text = "Copies to the device run for {0} of the median step ({1}) while nothing computes" + (
        ", and the host blocks in them because their memory is pageable." if pageable else "."
    )
    return Finding(
        cause="slow_data_fetching",
        mechanism="pageable_copy" if pageable else "no_prefetch",
        claim=say(text, amount, share),
        confidence=confidence((share.value, profile.thresholds["upload_pct"]), at_most=0.85),
        ranks=chosen,
        change=(*copies, *removal(profile, chosen, "upload", 0.0, 0.5)),
        details=(say("Preparing pageable copies keeps the device idle for {0} in the median step.", prepared),),
        signals=("host-to-device copies on the critical path",)
        + (("pageable host-to-device copies on the critical path",) if pageable else ()),
    )
