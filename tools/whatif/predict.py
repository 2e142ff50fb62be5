"""What the step time becomes when something about the run changes, by replay of its dependency graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tools.views.profile import Profile, memoized
from tools.whatif.build import graph_of
from tools.whatif.change import Change, fingerprint
from tools.whatif.graph import Graph, NodeKind
from tools.whatif.graph_json import node_labels
from tools.whatif.replay import Program, Replay, changed, compile_program, recorded, rerun, run_program
from tools.whatif.timeline import Bar

# No prediction goes below this share of the recorded step: with nearly everything gone, what the trace does not show
# would bind, and the replay knows nothing of it.
FLOOR_SHARE = 0.05
# Where the lines of a job state what is left of a step, only what is too short for their digits may be missing.
STATED_FLOOR_SHARE = 0.001
# A saving nearer to zero than this many of its standard errors is within noise (about 95 % confidence).
ERRORS_FROM_ZERO = 2.0
# What a fix brings differs from what a replay says by this share of the saving even where the change itself is
# exact: freed cores and buses make the rest of the step faster or slower. It widens both views, see ``Reach``.
MODEL_ERROR_SHARE = 0.15
NOT_SETTLED = "the recorded steps differ so much in length that a saving of this size is within noise"


@dataclass(frozen=True)
class Reach:
    """How far the interval goes from the expected time towards the hopeful and the cautious view (1: all the way).

    Measured by ``python -m evals.prediction_reach``: the shortest intervals that hold what fixes brought in 80 % of the
    recorded pairs of every origin. ``profiled`` are replays where only profiled steps are known, ``replay`` those
    where unprofiled ones are known too, ``figure`` savings computed without a replay.
    """

    hopeful: float
    cautious: float


ReachKind = Literal["replay", "profiled", "figure"]


def reach(profile: Profile, kind: ReachKind) -> Reach:
    """The reach in force, from the table of thresholds."""
    limits = profile.thresholds
    return Reach(limits[f"reach_{kind}_hopeful"], limits[f"reach_{kind}_cautious"])


@dataclass(frozen=True)
class Prediction:
    """Step time before and after a change, as means over ``steps``, in ms.

    ``low_ms`` lies towards the hopeful view and ``high_ms`` towards the cautious one, both views widened by
    ``MODEL_ERROR_SHARE`` of the saving, as far as ``Reach`` says, and further by ``error_ms``: what the unchanged
    replay misses, and the standard error of the saving.
    """

    step_ms_before: float
    step_ms_after: float
    low_ms: float
    high_ms: float
    steps: tuple[int, ...]
    recorded_ms: float
    error_ms: float
    at_most: bool = False  # the gain is the most that it can be: there is no interval around it

    @property
    def saving_ms(self) -> float:
        """Step time saved; negative when the change makes the step longer."""
        return self.step_ms_before - self.step_ms_after

    @property
    def withheld(self) -> str:
        """Why the prediction should not be given although there is one; "" when it may be."""
        return NOT_SETTLED if self.error_ms > 0 and abs(self.saving_ms) < ERRORS_FROM_ZERO * self.error_ms else ""

    @property
    def speedup(self) -> float:
        """Step time before over step time after."""
        return _ratio(self.step_ms_before, self.step_ms_after)

    @property
    def speedup_low(self) -> float:
        """The cautious end of the speedup."""
        return _ratio(self.step_ms_before, self.high_ms)

    @property
    def speedup_high(self) -> float:
        """The optimistic end of the speedup."""
        return _ratio(self.step_ms_before, self.low_ms)


def _ratio(before_ms: float, after_ms: float) -> float:
    """Nothing is left only of a step that took no time in the first place (see ``FLOOR_SHARE``): that gains nothing."""
    return before_ms / after_ms if after_ms > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Unchanged:
    """The graph of the run, compiled, with the replay of the run as it was, and as it were without a profiler."""

    graph: Graph
    program: Program
    identity: Replay
    unrecorded: Replay  # without what the profiler itself took

    @property
    def missed_ms(self) -> float:
        """Per step, how far the replay of the unchanged run ends from the record."""
        return abs(self.identity.finish_ns - self.graph.recorded_end_ns) / 1e6 / len(self.graph.window.steps)

    def step_ms(self, replay: Replay) -> float:
        """Mean step time of a replay: the share that is left of a step without a profiler, of the recorded step."""
        recorded_ms, steps = self.graph.window.recorded_step_ms, len(self.graph.window.steps)
        usual_ms, left_ms = (
            recorded_ms - (self.identity.finish_ns - each.finish_ns) / 1e6 / steps for each in (self.unrecorded, replay)
        )
        return recorded_ms * max(left_ms, 0.0) / usual_ms if usual_ms > 0 else 0.0


@memoized
def unchanged(profile: Profile) -> Unchanged:
    """The compiled graph and its identity replay; computed once per profile."""
    graph = graph_of(profile)
    program = compile_program(graph.edges, graph.order)
    identity = run_program(program, recorded(graph), graph.window.origin_ns)
    return Unchanged(graph, program, identity, rerun(program, identity, changed(profile, graph, ())))


def replay(profile: Profile, change: Change) -> Replay:
    """The run replayed with the change applied."""
    base = unchanged(profile)
    return rerun(base.program, base.unrecorded, changed(profile, base.graph, change))


def replay_bars(profile: Profile, change: Change) -> list[Bar]:
    """The operations of the replayed steps now (without what the profiler took) and with the change, from 0 ms."""
    base = unchanged(profile)
    names, lanes = node_labels(profile, base.graph)
    words = [each.name.lower() for each in NodeKind]
    if not profile.run.has_device:
        words[NodeKind.DEVICE] = "communication"  # there it is a collective or a message
    kinds = [words[kind] for kind in base.graph.nodes.kind.tolist()]
    bars = list[Bar]()
    for group, played in (("now", base.unrecorded), ("predicted", replay(profile, change))):
        end_ms = (played.end_ns - base.graph.window.origin_ns) / 1e6
        start_ms = end_ms - played.times.own_ns / 1e6
        timed = zip(lanes, names, kinds, start_ms.tolist(), end_ms.tolist(), strict=True)
        bars += [
            Bar(lane, name or kind, kind, begin, end, group)
            for lane, name, kind, begin, end in timed
            if lane and end > begin
        ]
    return bars


def step_ms(profile: Profile, change: Change) -> float:
    """Mean step time with the change applied; each change is replayed once per profile."""
    name = f"{__name__}.step_ms:{fingerprint(change)}"
    return profile.memo(name, lambda: unchanged(profile).step_ms(replay(profile, change)))


def savings_ms(profile: Profile, changes: Sequence[Change]) -> list[float]:
    """For each change what it saves once all the earlier ones are made, so that shared time is counted once."""
    steps_ms = [unchanged(profile).graph.window.recorded_step_ms]
    made: Change = ()
    for change in changes:
        made = (*made, *change)
        steps_ms.append(_step_ms(profile, made))
    return [before - after for before, after in pairwise(steps_ms)]


def saved_ms(profile: Profile, change: Change) -> float:
    """Step time that the change alone saves, without an interval."""
    return unchanged(profile).graph.window.recorded_step_ms - step_ms(profile, change)


def _step_ms(profile: Profile, change: Change) -> float:
    return max(step_ms(profile, change), FLOOR_SHARE * unchanged(profile).graph.window.recorded_step_ms)


def predict(profile: Profile, change: Change) -> Prediction:
    """The step time with the change."""
    base = unchanged(profile)
    window = base.graph.window
    before_ms = window.recorded_step_ms
    after_ms = step_ms(profile, change)
    cautious_ms = step_ms(profile, tuple(part.cautious() for part in change))
    hopeful_ms = step_ms(profile, tuple(part.hopeful() for part in change))
    error_ms = base.missed_ms + abs(before_ms - after_ms) * window.noise_ms / max(before_ms, 1e-9)
    floor_ms = FLOOR_SHARE * before_ms
    model_ms = MODEL_ERROR_SHARE * abs(before_ms - after_ms)
    shortest_ms = min(after_ms, cautious_ms, hopeful_ms) - model_ms
    longest_ms = min(max(after_ms, cautious_ms) + model_ms, max(before_ms, after_ms, cautious_ms))
    far = reach(profile, "profiled" if profile.series is None else "replay")
    return Prediction(
        step_ms_before=before_ms,
        step_ms_after=max(after_ms, floor_ms),
        low_ms=max(after_ms - far.hopeful * (after_ms - shortest_ms) - error_ms, floor_ms),
        high_ms=max(after_ms + far.cautious * (longest_ms - after_ms), floor_ms) + error_ms,
        steps=window.steps,
        recorded_ms=before_ms,
        error_ms=error_ms,
    )
