"""The agent of one machine: reads the rings of its ranks, notices anomalies, requests captures, keeps a journal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname

from hermes_agent.monitor.format import Answer, StepRecord, anomalies_file
from hermes_agent.watch.anomaly import Anomaly, AnomalyKind, Deviation, Foreign, Suspect, foreign_processes
from hermes_agent.watch.core_wait import CoreWait
from hermes_agent.watch.group import GroupWatch
from hermes_agent.watch.journal import Journal, Neighbours, line_of
from hermes_agent.watch.left_out import LeftOut
from hermes_agent.watch.ring_reader import RankState
from hermes_agent.watch.rings import CaptureRequests, RequestedCapture, RequestLimits, RunRings, WantedCapture
from hermes_agent.watch.series import DEFAULT, WatchThresholds
from hermes_agent.watch.suspicions import Present, Suspicions

MOST_NAMED = 8
# No other process is to be looked for: spikes are over when they are reported.
EXPLAINED = frozenset({AnomalyKind.RECOVERY, AnomalyKind.SILENT, AnomalyKind.SPIKE})
NOT_MADE = (Answer.REFUSED, Answer.FAILED)
MOST_UNCLEAR = 2  # ranks profiled when none is suspect
MOST_NOTICED = 100
SLOWEST_POLL_S = 0.5
FASTEST_POLL_S = 0.02
LOOK_FOR_RINGS_S = 1.0


class HangWatch:
    """Detects that no step ends while the processes live: once, and again only after a step has ended."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._steps: dict[int, int] = {}
        self._moved_s: float | None = None
        self._reported = False

    def look(self, steps: Mapping[int, int], usual_ms: float | None, now_s: float) -> list[Anomaly]:
        """Return a hang; ``steps`` holds the last step that each living rank has ended, ``now_s`` is monotonic."""
        if self._moved_s is None or dict(steps) != self._steps:
            self._steps, self._moved_s, self._reported = dict(steps), now_s, False
            return []
        waited_s = now_s - self._moved_s
        if self._reported or usual_ms is None or not steps:
            return []
        if waited_s < max(self._at.hang_times * usual_ms / 1e3, self._at.hang_least_s):
            return []
        self._reported = True
        first, furthest = min(steps.values()) + 1, max(steps.values())
        seen = Deviation(AnomalyKind.HANG, first, first, usual_ms, waited_s * 1e3)
        behind = sorted(rank for rank, step in steps.items() if step < furthest)
        if len(behind) == 1 and len(steps) > 1:  # all others have ended the step that this rank has not
            return [Anomaly(seen, Suspect(behind[0], "the process", 0.0))]
        named = ", ".join(map(str, behind[:MOST_NAMED])) + (" and others" if len(behind) > MOST_NAMED else "")
        unclear = f"ranks {named} are behind, the others have ended step {furthest}"
        if not behind:
            unclear = f"all ranks have ended step {furthest}, so which one holds them up is not known"
        return [Anomaly(seen, None, unclear)]


@dataclass(frozen=True)
class Noticed:
    """An anomaly, the other processes that ran then, and the capture that it called for."""

    anomaly: Anomaly
    foreign: tuple[Foreign, ...]
    capture: RequestedCapture | None
    noticed_before: bool = False  # only the capture is new: it had to wait


@dataclass(frozen=True)
class RankNow:
    """The last record of a rank."""

    record: StepRecord
    alive: bool


@dataclass(frozen=True)
class Snapshot:
    """The agent's present view; frozen, for views and exporters."""

    ranks: dict[int, RankNow]
    usual_ms: float | None
    noticed: tuple[Noticed, ...]
    counts: dict[str, int]
    lost_steps: int
    spikes: Deviation | None  # those that no line has reported yet


@dataclass(frozen=True)
class AgentOptions:
    """Options of the agent."""

    capture: bool = True
    limits: RequestLimits = field(default_factory=RequestLimits)
    thresholds: WatchThresholds = DEFAULT
    foreign: Callable[[set[int]], tuple[Foreign, ...]] = foreign_processes
    clock: Callable[[], float] = time.monotonic


class NodeAgent:
    """Call ``poll`` again and again; all ranks on this machine count as one synchronous group."""

    def __init__(self, run_folder: Path, options: AgentOptions | None = None) -> None:
        self._options = options or AgentOptions()
        self.left_out = LeftOut()
        self._rings = RunRings(run_folder, self.left_out)
        self._group = GroupWatch(self._options.thresholds)
        self._hang = HangWatch(self._options.thresholds)
        self._requests = CaptureRequests(run_folder, self._rings, self._options.limits)
        self._journal = Journal(anomalies_file(run_folder, gethostname()), self.left_out)
        self._suspicions = Suspicions(self._options.thresholds)
        self._core_wait = CoreWait()
        self._waited_ms: dict[int, float] = {}  # by rank, since its last new record
        self._asked: tuple[Anomaly, RequestedCapture] | None = None  # the last capture that was requested
        self._neighbours = Neighbours(run_folder, gethostname(), self.left_out)
        self._last: dict[int, RankNow] = {}
        self._noticed: list[Noticed] = []
        self._counts: Counter[str] = Counter()
        self._next_look_s = 0.0
        self._lost_steps = 0
        self.seen_any = False

    def poll(self) -> list[Noticed]:
        """Read what is new and act on it."""
        now_s = self._options.clock()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_FOR_RINGS_S
            self._group.ranks.update(self._rings.refresh())
        states = {rank: self._rings.state(rank) for rank in self._rings.ranks()}
        new = self._rings.new()  # after the states: a rank that has ended writes no more
        self.seen_any = self.seen_any or bool(new)
        anomalies = self._judged(new) + self._ended(states)
        if self.seen_any and not self.alive:
            anomalies += self._group.rest()
        alive = {rank: now.record.step for rank, now in self._last.items() if now.alive}
        anomalies += self._hang.look(self._neighbours.exchange(alive, now_s), self._group.usual_ms, now_s)
        wanted, capture = self._capture(anomalies, now_s)
        # Looked up after the request: it takes a moment, in which ranks would go on unprofiled.
        puzzling = any(each.deviation.kind not in EXPLAINED for each in anomalies)
        foreign = self._options.foreign(set(self._rings.pids().values())) if puzzling else ()
        noticed = [Noticed(each, foreign, capture if each is wanted else None) for each in anomalies]
        if wanted is not None and capture is not None and wanted not in anomalies and not capture.refused:
            noticed.append(Noticed(wanted, (), capture, noticed_before=True))
        for anomaly in anomalies:
            self._counts[str(anomaly.deviation.kind)] += 1
            self._journal.add(line_of(anomaly, time.time_ns(), foreign))
        self._noticed = [*self._noticed, *noticed][-MOST_NOTICED:]
        return noticed

    def snapshot(self) -> Snapshot:
        """The present view."""
        usual_ms, counts = self._group.usual_ms, dict(self._counts)
        spikes = self._group.spikes.present
        return Snapshot(dict(self._last), usual_ms, tuple(self._noticed), counts, self._lost_steps, spikes)

    @property
    def alive(self) -> bool:
        """Return whether any rank runs."""
        return any(each.alive for each in self._last.values()) or bool(self._rings.ranks())

    @property
    def pause_s(self) -> float:
        """The pause before the next poll: about a step."""
        usual_ms = self._group.usual_ms
        return SLOWEST_POLL_S / 2 if usual_ms is None else min(max(usual_ms / 1e3, FASTEST_POLL_S), SLOWEST_POLL_S)

    def _ended(self, states: Mapping[int, RankState]) -> list[Anomaly]:
        """Drop the ranks that have ended; one that fell silent is reported once."""
        silent: list[Anomaly] = []
        for rank, state in states.items():
            if state.alive:
                continue
            step = -1
            if (last := self._last.get(rank)) is not None:
                step = last.record.step
                self._last[rank] = RankNow(last.record, False)
            if not state.closed:
                seen = Deviation(AnomalyKind.SILENT, step, step, 0.0, 0.0)
                silent.append(Anomaly(seen, Suspect(rank, "the process", 0.0)))
            self._rings.drop(rank)
            self._group.leave(rank)
        return silent

    def _judged(self, new: Mapping[int, list[StepRecord]]) -> list[Anomaly]:
        """What the new records show; what a rank waited for a core is spread evenly over its new steps."""
        for rank, waited_ms in self._core_wait.since_last_ms(self._rings.pids()).items():
            self._waited_ms[rank] = self._waited_ms.get(rank, 0.0) + waited_ms
        found: list[Anomaly] = []
        for rank, records in new.items():
            each_ms = self._waited_ms.pop(rank, 0.0) / len(records) if records else 0.0
            if records and rank in self._last:
                self._lost_steps += max(records[0].sequence - self._last[rank].record.sequence - 1, 0)
            for record in records:
                found += self._group.feed(rank, record, each_ms)
                self._last[rank] = RankNow(record, True)
        return found

    def _capture(self, anomalies: list[Anomaly], now_s: float) -> tuple[Anomaly | None, RequestedCapture | None]:
        """Request the capture of the strongest suspicion, or retry one that had to wait."""
        for each in anomalies:
            self._suspicions.add(each)
        self._reopen_refused()
        step_ms = self._group.present_ms()
        if not self._options.capture or step_ms is None:
            return None, None
        present = Present(self._group.last_step, step_ms, self._group.lead_ms())
        if (suspicion := self._suspicions.strongest(present)) is None:
            return None, None
        here = self._rings.ranks()
        compared = present.ahead or here[:MOST_UNCLEAR]
        # The suspect is compared with the rank that has the least own time: the one that waits for it longest.
        wanted = (suspicion.rank, *compared[-1:]) if suspicion.suspect else compared
        ranks = tuple(dict.fromkeys(rank for rank in wanted if rank in here and rank in self._last))
        if not ranks:
            return None, None
        last_step = max(self._last[rank].record.step for rank in ranks)
        request = WantedCapture(ranks, suspicion.cost_ms, suspicion.suspect is not None)
        capture = self._requests.by_itself(request, last_step, now_s)
        if not capture.refused:
            self._suspicions.settle(suspicion)
            self._asked = suspicion, capture
        return suspicion, capture

    def _reopen_refused(self) -> None:
        """Take up the last suspicion again where its first rank made no capture."""
        if self._asked is None:
            return
        suspicion, capture = self._asked
        here = self._rings.ranks()
        answers = [self._rings.answer(rank) for rank in capture.ranks[:1] if rank in here]
        if any(about == capture.request and answer in NOT_MADE for about, answer, *_ in answers):
            self._suspicions.reopen(suspicion)
            self._asked = None
