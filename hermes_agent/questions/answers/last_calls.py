"""What a rank called last, by the dumps of PyTorch's flight recorder: the answer to when it last made progress."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import counted, rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import bullets, paragraph
from hermes_agent.questions.reading.question import Question
from tools.run.recorded.collective_records import CallState, FlightRecords

RANKS_LISTED = 8
NS_PER_S = 1e9


def recorded_ranks(discussion: Discussion) -> list[int]:
    """The ranks that wrote a dump of the flight recorder."""
    flight = _flight(discussion)
    return [] if flight is None else sorted({each.rank for each in flight.dumps})


def last_call(discussion: Discussion, question: Question) -> str | None:
    """The last collective that each named rank called, and when; without a rank those that called last longest ago.

    None where no dump of a flight recorder was read.
    """
    flight = _flight(discussion)
    if flight is None or flight.calls.empty:
        return None
    known = recorded_ranks(discussion)
    missing = [rank for rank in question.ranks if rank not in known]
    none = f"There is no dump of {rank_list(missing)}; dumps are there of {rank_list(known)}." if missing else ""
    last = flight.calls.loc[flight.calls.groupby("rank")["record"].idxmax()].sort_values(["created_ns", "rank"])
    shown = last[last["rank"].isin(question.ranks)] if question.ranks else last.iloc[:RANKS_LISTED]
    rows = [_of_rank(flight, call) for _, call in shown.iterrows()]
    lead = "" if question.ranks else "The ranks whose last call is longest ago, by the clocks of their hosts:"
    newest = last.iloc[-1]
    others = f"The newest call of all ranks is of rank {newest['rank']}, at {_time(newest)}." if question.ranks else ""
    body = rows[0] if len(rows) == 1 else bullets(rows)
    return "\n\n".join(each for each in (none, lead, body, others if rows else "") if each)


def _flight(discussion: Discussion) -> FlightRecords | None:
    records = discussion.profile().run.collectives
    return None if records is None else records.flight


def _of_rank(flight: FlightRecords, call: pd.Series[Any]) -> str:
    """The last call of a rank, and how many of its calls had not ended when it wrote the dump."""
    own = flight.calls[flight.calls["rank"] == call["rank"]]
    unended = int((own["state"] < CallState.COMPLETED).sum())
    group = flight.groups[int(call["group"])]
    named = f"{group.description} {group.name}".strip()
    size = f" with {int(call['elements'])} elements of {quoted(str(call['types']))}" if call["elements"] > 0 else ""
    called = f"Rank {call['rank']} last called {quoted(str(call['operation']))}{size}"
    where = f"It is number {quoted(str(call['sequence']))} of group {quoted(named)}, called at {_time(call)}."
    ended = f"Of its {counted(len(own), 'recorded call')} {unended} had not ended when it wrote the dump."
    return paragraph([f"{called}.", where, ended if unended else "All its recorded calls had ended."])


def _time(call: pd.Series[Any]) -> str:
    """The time of a call as its host's clock showed it, UTC."""
    moment = datetime.fromtimestamp(int(call["created_ns"]) / NS_PER_S, UTC)
    return quoted(f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC")
