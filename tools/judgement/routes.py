"""Routes: which deep looks into a run are worth it, by where the time of a step and of its critical path is.

Cheap checks always run; a deep look lists the layers, shapes, lines, groups or gaps of one part of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tools.errors import UsageError
from tools.findings import Fact, Finding, Sentence
from tools.judgement.catalog import measure
from tools.judgement.lead import shapes_known
from tools.knowledge.name_patterns import patterns
from tools.run.events import EventKind
from tools.views.event_labels import MODULE_FRAME
from tools.views.profile import Profile

MOST_EVENTS = 500_000  # of a rank: grouping more takes seconds, and the tools do it when they are asked
LISTED = 8  # rows of a look, of which the first one of its own is shown
MOST_COLLECTIVES = 500  # of the rank: of more, the tool has no list in one piece to choose from
LONGEST_NAME = 1000
FAMILIES_OF_LOOK: Mapping[str, tuple[str, ...]] = {  # of causes that it is about
    "layers": ("computation",),
    "shapes": ("computation",),
    "Python lines": ("computation",),
    "process groups": ("communication",),
    "collectives": ("communication",),
    "gradient buckets": ("communication",),
}
FAMILIES_OF_GAP: Mapping[str, tuple[str, ...]] = {"data": ("io",), "dispatch": ("cpu",), "synchronization": ("cpu",)}
FAMILY_OF = {  # of the critical path
    "compute": "computation",
    "exposed_communication": "communication",
    "exposed_memcpy": "memory",
    "data_wait": "io",
    "host": "cpu",
    "idle": "idle",
}


@dataclass(frozen=True)
class Look:
    """A deep look: the tool that takes it, its arguments besides the rank, and the parts of the step it is about."""

    name: str
    tool: str
    arguments: dict[str, str | int]
    parts: tuple[str, ...]
    needs: str = ""
    on_path: bool = False  # worth it by the critical path alone: elsewhere others are waited for


PLANNED: dict[str, str | int] = {"planner": "gradient-buckets"}  # the planner that takes its input from a run
LOOKS = (
    Look("phases", "phases", {}, ("compute",)),
    Look("layers", "find_events", {"group_by": "module", "limit": LISTED}, ("compute",), "modules"),
    Look("shapes", "find_events", {"group_by": "shape", "limit": LISTED}, ("compute",), "shapes"),
    Look("Python lines", "find_events", {"group_by": "stack", "limit": LISTED}, ("compute", "host"), "stacks"),
    Look("process groups", "find_events", {"group_by": "group", "limit": LISTED}, ("exposed_communication",)),
    Look("collectives", "collective_instances", {"limit": MOST_COLLECTIVES}, ("exposed_communication",), on_path=True),
    Look("gradient buckets", "plan", PLANNED, ("exposed_communication",), "buckets", on_path=True),
    Look("gaps", "gaps", {"limit": LISTED}, ("host", "data_wait", "exposed_memcpy", "idle"), "device"),
)
NEEDS = {
    "modules": "no modules were recorded (with_stack=True or with_modules=True)",
    "shapes": "no shapes were recorded (record_shapes=True)",
    "stacks": "no Python stacks were recorded (with_stack=True)",
    "device": "no device work was recorded",
    "buckets": "no gradient buckets were recorded that a plan could be made for",
}


@dataclass(frozen=True)
class Route:
    """The decision on one look at one part of the step, on the rank where that part is largest."""

    look: str
    part: str
    rank: int
    share_pct: float  # of the step, or of its critical path where that is more
    taken: bool
    reason: Sentence


def routes(profile: Profile) -> tuple[Route, ...]:
    """The decision on every look, those that are taken first, largest part first; none without a trace."""
    if not profile.traced:
        return ()
    found = [_route(profile, look) for look in LOOKS]
    return tuple(sorted(found, key=lambda each: (not each.taken, -each.share_pct)))


def _route(profile: Profile, look: Look) -> Route:
    shares = {part: _share(profile, part, look.on_path) for part in look.parts}
    part = max(shares, key=lambda each: shares[each][0])
    share_pct, why = shares[part]
    own = {rank: measure(profile, "part_ms", part=part, rank=rank).value for rank in profile.run.rank_numbers}
    rank = max(own, key=lambda each: own[each])
    against = ""
    if share_pct < profile.thresholds["cause_share_pct"]:
        against = ": too little"
    elif look.needs and not _known(profile, rank, look.needs):
        against = f", but {NEEDS[look.needs]}"
    elif len(profile.rank(rank).events) > MOST_EVENTS:
        against = f", but rank {rank} has too many events to group"
    reason = replace(why, template=f"{part.replace('_', ' ').capitalize()} {why.template}{against}")
    return Route(look.name, part, rank, share_pct, not against, reason)


def _share(profile: Profile, part: str, on_path: bool) -> tuple[float, Sentence]:
    """The part's share of the step or of its critical path, the larger one, and the words for it behind the part."""
    share = measure(profile, "part_pct", part=part)
    of_step = share.value, Sentence("is {0} of the step", (share,))
    try:
        path = measure(profile, "critical_path_ms", family=FAMILY_OF[part])
        whole = measure(profile, "critical_path_step_ms")
    except UsageError:
        return of_step
    path_pct = 100.0 * path.value / whole.value if whole.value > 0.0 else 0.0
    if path_pct <= share.value and not on_path:
        return of_step
    return path_pct, Sentence("takes {0} of the {1} of the critical path", (path, whole))


def _known(profile: Profile, rank: int, what: str) -> bool:
    view = profile.rank(rank)
    match what:
        case "shapes":
            return shapes_known(profile, rank)
        case "device":
            return view.rank.has_device
        case "buckets":
            return _planned(profile) is not None
    python = view.codes[view.kind == EventKind.PYTHON]
    if what == "stacks":
        return len(python) > 0
    names = view.categories[np.unique(python)]
    return any(str(name).startswith(MODULE_FRAME) for name in names)


def is_about(route: Route, shown: Sentence, finding: Finding) -> bool:
    """Return whether what a look showed is about a cause: of its family, on its ranks."""
    families = FAMILIES_OF_GAP.get(shown.names[0], ()) if route.look == "gaps" else FAMILIES_OF_LOOK.get(route.look, ())
    return finding.family in families and (not finding.ranks or route.rank in finding.ranks)


def _planned(profile: Profile) -> tuple[Fact, Fact] | None:
    """The step with the present and with planned gradient buckets; None where the run does not show its buckets."""
    try:
        present, planned = (
            measure(profile, "predicted_bucket_step_ms", buckets=each) for each in ("present", "planned")
        )
    except UsageError:
        return None
    return present, planned


def figure_of(profile: Profile, look: Look, rank: int, row: Mapping[str, object]) -> Fact:
    """The figure of a row of the look: its time per step, or of a gap its length."""
    match look.tool:
        case "phases":
            place = "device" if profile.rank(rank).rank.has_device else "host"
            return measure(profile, "phase_ms", rank=rank, phase=str(row["name"]), place=place)
        case "gaps":
            return measure(profile, "gap_ms", gap=str(row["id"]))
        case _:
            by = str(look.arguments["group_by"])
            return measure(profile, "events_ms", rank=rank, by=by, name=str(row["name"]), kind=str(row["kind"]))


WORDS = {
    "phases": "Longest phase of the step on rank {rank}: {{n0}} with {{0}} per step.",
    "layers": "Layer with most {kind} time on rank {rank}: {{n0}} with {{0}} per step.",
    "shapes": "Shapes with most {kind} time on rank {rank}, communication aside: {{n0}} with {{0}} per step.",
    "Python lines": "Python line with most {kind} time on rank {rank}: {{n0}} with {{0}} per step.",
    "process groups": "Process group with most communication of rank {rank}: {{n0}} with {{0}} per step.",
    "gaps": "Longest gap of rank {rank}'s device within a step: {{0}}, {{n0}}.",
}


OF_PLAN = (
    "Planned gradient buckets would cut the simulated step from {0} to {1} (see `hermes-dx plan gradient-buckets`)."
)
OF_SMALL_PLAN = "Other gradient buckets would bring little: {1} instead of {0} for the simulated step."


def sentence_of(profile: Profile, look: Look, rank: int, rows: Sequence[Mapping[str, object]]) -> Sentence | None:
    """What the look shows: its first row with a recorded name; None where that name or its figure cannot be cited.

    A name has to print as it is, for the figure is measured again by it.
    """
    if look.tool == "plan":
        planned = _planned(profile)
        return None if planned is None else _of_plan(profile, *planned)
    if look.tool == "collective_instances":
        return _most_exposed(profile, rank, rows)
    named = [row for row in rows if _belongs(look, str(row.get("name", "")))]
    if look.tool == "phases":
        timed = "device_ms" if profile.rank(rank).rank.has_device else "host_ms"
        named = sorted(named, key=lambda row: -float(str(row[timed] or 0.0)))
    if not named or not _prints(str(named[0].get("name", ""))):
        return None
    fact = figure_of(profile, look, rank, named[0])
    if fact.value <= 0.0:
        return None
    words = WORDS[look.name].format(rank=rank, kind=named[0].get("kind"))
    return Sentence(words, (fact,), (str(named[0].get("name") or named[0].get("reason")),))


def _of_plan(profile: Profile, present: Fact, planned: Fact) -> Sentence:
    gain_pct = 100.0 * (present.value - planned.value) / present.value if present.value else 0.0
    words = OF_PLAN if gain_pct >= profile.thresholds["cause_share_pct"] else OF_SMALL_PLAN
    return Sentence(words, (present, planned))


def _most_exposed(profile: Profile, rank: int, rows: Sequence[Mapping[str, object]]) -> Sentence | None:
    """The collective with most time outside of computation; None where they are too many to be listed."""
    if not rows or len(rows) == MOST_COLLECTIVES:
        return None
    longest = max(rows, key=lambda row: float(str(row["exposed_ms"])))
    names = str(longest["name"]), str(longest["group"])
    if longest["step"] is None or float(str(longest["exposed_ms"])) <= 0.0 or not all(map(_prints, names)):
        return None
    identifier = str(longest["id"])
    whole = measure(profile, "instance_ms", collective=identifier)
    hidden = measure(profile, "instance_overlap_ms", collective=identifier)
    group = "" if names[1].endswith("recorded)") else " in group {n1}"
    which = f"{{n0}} number {longest['index']} of step {longest['step']}{group}"
    words = f"Longest exposed collective of rank {rank}: {which}, {{0}}, of which {{1}} overlap with compute."
    return Sentence(words, (whole, hidden), names)


def _prints(name: str) -> bool:
    """Return whether a recorded name can stand in a record as it is."""
    return name.isprintable() and len(name) <= LONGEST_NAME


def _belongs(look: Look, name: str) -> bool:
    """Return whether a row is a recorded place of the look's parts: communication is no operator of the computation."""
    known = patterns()
    is_exchange = any(known[each].search(name) for each in ("communication_span", "communication_operator"))
    return not name.endswith("recorded)") and not (is_exchange and look.name == "shapes")
