"""The network by sampled counters: retransmission, pause frames, drops and congestion, by their rise."""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.run.recorded.counters import COUNTERS
from tools.views.counters import CounterView, counter_view
from tools.views.profile import Profile

NO_COST = "what it costs cannot be read from counters of the network"
TWICE = (
    "the same counters twice into one file, a minute apart, while the training runs "
    "(`rdma statistic >> counters.txt`, `ethtool -S INTERFACE >> counters.txt`, `nstat -az >> counters.txt`), or once "
    "each into two files named `before` and `after`"
)
ONCE = "the counters were read once: they count since the machine was started, not while the training ran"
ADAPTER = ("rdma_retransmissions", "rdma_timeouts", "rdma_out_of_sequence")
NOTED = {
    "pause_frames_received": "The other side asked to pause: {0}, so its buffers or the network behind it are full.",
    "pause_frames_sent": "This machine asked the other side to pause: {0}, it receives faster than it can store.",
    "interface_dropped": "Interfaces dropped packets: {0}.",
    "interface_errors": "Interfaces report errors: {0}, which points to a cable or an adapter.",
    "rdma_completion_errors": "RDMA requests completed with an error: {0}, as at the end of a connection as well.",
    "rdma_congestion_notices": "Switches mark congestion: {0}.",
    "link_downed": "Links went down: {0}.",
    "link_symbol_errors": "Links report symbol errors: {0}, which points to a cable.",
}


@check(
    *("communication.network_samples", "Network by samples", "Does the network lose or hold back packets?"),
    causes=("rdma_retransmission",),
    from_records="samples",
)
def network(profile: Profile) -> Check | Finding | None:
    """Rises of the counters of adapters and interfaces, and the share of TCP segments that were sent again."""
    view = counter_view(profile)
    if view is None:
        return None
    counted = [counter for counter in (*ADAPTER, *NOTED) if not view.rises(counter).empty]
    again = _again(profile)
    if not counted and again is None:
        return None
    read_twice = {counter: fact for counter in counted if (fact := _rise(profile, counter)) is not None}
    fewest = profile.thresholds["counted_network_events"]
    risen = [counter for counter in ADAPTER if counter in read_twice and read_twice[counter].value >= fewest]
    notes = [say(NOTED[each], fact) for each, fact in read_twice.items() if each in NOTED and fact.value >= fewest]
    notes += _tcp(profile, again)
    notes += _rates(profile, [each for each in read_twice if read_twice[each].value >= fewest])
    if risen:
        return found(_retransmission(profile, read_twice[risen[0]], notes))
    if notes:
        return symptom(*notes)
    if not read_twice and again is None:
        return cannot_answer(ONCE, TWICE, *_totals(profile, view, counted))
    flat = [say(f"{_named(name)} between the readings: {{0}}.", fact) for name, fact in list(read_twice.items())[:3]]
    kept = [say("{0} of the TCP segments were sent again.", again)] if again is not None else []
    return clean(*flat, *kept)


def _rise(profile: Profile, counter: str) -> Fact | None:
    return measured(profile, "counted_rise", counter=counter)


def _again(profile: Profile) -> Fact | None:
    """The share of TCP segments that were sent again while the counters were read."""
    facts = (measured(profile, "tcp_sent_again_pct", of=of) for of in ("rise", "rate"))
    return next((fact for fact in facts if fact is not None), None)


MOST_RATES, SHOWN_TOTALS = 2, 3


def _rates(profile: Profile, risen: list[str]) -> list[Sentence]:
    """How fast the first counters rose, where the times of their readings are known."""
    rates = ((counter, measured(profile, "counted_per_s", counter=counter)) for counter in risen)
    known = [(counter, rate) for counter, rate in rates if rate is not None]
    return [say(f"{_named(counter)} came at {{0}}.", rate) for counter, rate in known[:MOST_RATES]]


def _tcp(profile: Profile, again: Fact | None) -> list[Sentence]:
    if again is None or again.value < profile.thresholds["sent_again_pct"]:
        return []
    return [say("{0} of the TCP segments were sent again: the network loses packets.", again)]


def _retransmission(profile: Profile, risen: Fact, notes: list[Sentence]) -> Finding:
    limits = profile.thresholds
    return Finding(
        cause="rdma_retransmission",
        claim=say("RDMA transfers went wrong and were repeated between the readings: {0}.", risen),
        confidence=confidence(
            (risen.value, limits["counted_network_events"]), at_most=limits["network_counters_confidence"]
        ),
        impact_ms=0.0,
        impact_method=NO_COST,
        details=tuple(notes),
    )


def _totals(profile: Profile, view: CounterView, counted: list[str]) -> list[Sentence]:
    """What was counted since the start, where that is anything; else that nothing was."""
    facts = {counter: measured(profile, "counted_total", counter=counter) for counter in counted}
    known = {counter: fact for counter, fact in facts.items() if fact is not None}
    risen = {counter: fact for counter, fact in known.items() if fact.value > 0.0}
    shown = list((risen or known).items())[:SHOWN_TOTALS]
    return [say(f"{_named(counter)} since the counters started: {{0}}.", fact) for counter, fact in shown]


def _named(counter: str) -> str:
    label = COUNTERS[counter].label
    return label[:1].upper() + label[1:]
