"""Does the step wait for data, or for data to reach the device?"""

from __future__ import annotations

from tools.analyzers.io.loader_records import LoaderReading, loader_reading, recorded_data_wait
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, found, say, worst_of
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

EVIDENT_PCT = 50.0  # a kind of work that fills half of the loader's time is what the loader does


@check(
    *("io.data_loader", "Data loader", "Does the step wait for the data loader?"),
    causes=("slow_data_reading", "slow_data_processing"),
    mechanisms=("too_few_workers", "heavy_transform", "process_binding"),
    from_records="steps",
)
def data_loader(profile: Profile) -> Check:
    """The time that a step waits for its data loader, and what the loader does meanwhile."""
    if not profile.traced:
        return recorded_data_wait(profile)
    ranks = [view.rank.rank for view in profile.ranks if len(view.in_steps(view.loader_rows))]
    if not ranks:
        return _without_spans(profile)
    shares = {rank: _wait(profile, rank).value for rank in ranks}
    worst = worst_of(shares)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        text = "The step waits {0} for its data loader ({1}); the loader's spans last {2}, hidden or not."
        spans = measure(profile, "loader_span_ms", rank=worst)
        return clean(say(text, _wait_ms(profile, worst), _wait(profile, worst), spans))
    return found(_finding(profile, chosen, worst))


def _without_spans(profile: Profile) -> Check:
    host = {
        view.rank.rank: measure(profile, "part_pct", part="host", rank=view.rank.rank)
        for view in profile.ranks
        if view.rank.has_device
    }
    largest = max(host.values(), key=lambda fact: fact.value, default=None)
    if largest is not None and len(host) == len(profile.ranks) and largest.value < profile.thresholds["noted_pct"]:
        text = "The device waits for the host, and so for any data, during {0} of the step at most."
        return clean(say(text, largest))
    return cannot_answer(
        "no data-loader span is recorded on a training thread",
        "the loop over the DataLoader inside the profiled steps, or a record_function span around fetching a batch",
    )


def _wait(profile: Profile, rank: int) -> Fact:
    return measure(profile, "part_pct", part="data_wait", rank=rank)


def _wait_ms(profile: Profile, rank: int) -> Fact:
    return measure(profile, "part_ms", part="data_wait", rank=rank)


def _finding(profile: Profile, ranks: tuple[int, ...], worst: int) -> Finding:
    share, amount = _wait(profile, worst), _wait_ms(profile, worst)
    view = profile.rank(worst)
    kind = loader_kind(view)
    cause, mechanism, ceiling = _diagnosis(profile, ranks, worst, kind)
    by_records = loader_reading(profile, worst, kind)
    if by_records is not None:
        cause, mechanism, ceiling = _with_records(profile, ranks, kind, by_records, mechanism)
    waiting = measure(profile, "loader_wait_steps", rank=worst)
    return Finding(
        cause=cause,
        mechanism=mechanism,
        claim=say(
            ("The device is idle" if view.rank.has_device else "The training thread waits")
            + " {0} per step ({1}) because the "
            + KIND_NAMES[kind]
            + " has no batch ready"
            + (" on some ranks only." if len(ranks) < len(profile.ranks) else "."),
            amount,
            share,
        ),
        confidence=confidence((share.value, profile.thresholds["data_wait_pct"]), at_most=ceiling)
        * (0.5 + 0.5 * waiting.value / len(view.steps)),
        ranks=ranks,
        steps=_waiting_steps(profile, view),
        # Cautiously half of each span stays, for workers share the cores and hand batches over.
        change=shortened_on(profile, ranks, lambda view: view.in_steps(view.loader_rows), 0.0),
        details=(
            say("The loader's spans last {0} per step.", measure(profile, "loader_span_ms", rank=worst)),
            say("The wait is seen in {0}.", waiting),
            *_inside(profile, worst),
            *(() if by_records is None else by_records.sentences),
            *_spared(profile, ranks),
        ),
        against=_against(profile, worst, cause, kind) if by_records is None else (),
        disproved_by="the same batch, held in memory and used again for every step, gives the same step time",
        signals=_signals(kind),
        hints={"loader": kind},
    )


def _spared(profile: Profile, ranks: tuple[int, ...]) -> tuple[Sentence, ...]:
    others = [number for number in profile.run.rank_numbers if number not in ranks]
    if not others:
        return ()
    largest = max((_wait_ms(profile, rank) for rank in others), key=lambda fact: fact.value)
    return (say("No other rank waits longer for data than {0} per step.", largest),)


KIND_NAMES = {
    "single": "data loader, which works in the training process itself,",
    "workers": "data loader with worker processes",
    "other": "data loader",
}


def loader_kind(view: RankProfile) -> str:
    """``single`` (in the training process), ``workers`` or ``other`` when the spans' names do not show it."""
    rows = view.in_steps(view.loader_rows)
    if view.named("single_process_loader")[rows].any():
        return "single"
    return "workers" if view.named("multi_process_loader")[rows].any() else "other"


def _diagnosis(profile: Profile, ranks: tuple[int, ...], rank: int, kind: str) -> tuple[str, str | None, float]:
    """Cause, mechanism and the most confidence the evidence allows.

    Where other ranks use the same kind of loader and do not wait, the number of workers is not what differs: it is
    the work for a batch.
    """
    reading, processing, operators = _work(profile, rank)
    if reading.value >= EVIDENT_PCT and reading.value > max(processing.value, operators.value):
        return "slow_data_reading", None, 0.9
    evident = max(processing.value, operators.value) >= EVIDENT_PCT
    if kind == "single" and not (evident and _same_kind_spared(profile, ranks, kind)):
        return "slow_data_processing", "too_few_workers", 0.95 if evident else 0.85
    if evident:
        return "slow_data_processing", "heavy_transform", 0.95 if kind == "single" else 0.85
    return "slow_data_processing", None, 0.7


def _with_records(
    profile: Profile, ranks: tuple[int, ...], kind: str, by_records: LoaderReading, traced: str | None
) -> tuple[str, str | None, float]:
    """Records decide between reading and processing; that other ranks' like loaders keep up speaks against workers."""
    mechanism = by_records.mechanism
    if mechanism == "too_few_workers" and (traced == "heavy_transform" or _same_kind_spared(profile, ranks, kind)):
        mechanism = "heavy_transform"
    return by_records.cause, mechanism, by_records.at_most


def _same_kind_spared(profile: Profile, ranks: tuple[int, ...], kind: str) -> bool:
    others = [view for view in profile.ranks if view.rank.rank not in ranks]
    return any(loader_kind(view) == kind for view in others)


def _work(profile: Profile, rank: int) -> tuple[Fact, Fact, Fact]:
    return (
        measure(profile, "loader_frames_pct", rank=rank, what="reading"),
        measure(profile, "loader_frames_pct", rank=rank, what="processing"),
        measure(profile, "loader_operators_pct", rank=rank),
    )


def _inside(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    reading, processing, operators = _work(profile, rank)
    texts = (
        ("Frames that read files fill {0} of the loader's time.", reading),
        ("Frames that transform samples fill {0} of the loader's time.", processing),
        ("Framework operators fill {0} of the loader's time: batches are computed there.", operators),
    )
    return tuple(say(text, fact) for text, fact in texts if fact.value >= 1.0)


def _against(profile: Profile, rank: int, cause: str, kind: str) -> tuple[Sentence, ...]:
    reading, processing, operators = _work(profile, rank)
    sentences = []
    if max(reading.value, processing.value, operators.value) < EVIDENT_PCT:
        text = (
            "What the workers do is not in this trace, so slow reading would look the same as slow processing."
            if kind == "workers"
            else "What the loader does inside its span is not recorded, so slow reading would look the same."
        )
        sentences.append(say(text))
    elif cause == "slow_data_processing" and reading.value >= 10.0:
        sentences.append(say("Frames that read files fill {0} of the loader's time.", reading))
    return tuple(sentences)


def _signals(kind: str) -> tuple[str, ...]:
    common = ("device idle while the loader span is open", "data wait")
    return (*common, "single-process loader") if kind == "single" else common


def _waiting_steps(profile: Profile, view: RankProfile) -> tuple[int, ...]:
    table = view.breakdown
    waiting = table["data_wait_ns"] * 100.0 > table["wall_ns"] * profile.thresholds["noted_pct"]
    return tuple(int(step) for step in table["number"][waiting])
