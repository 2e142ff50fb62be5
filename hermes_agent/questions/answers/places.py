"""Answers about where time goes in the program: layers, Python lines, shapes, phases, process groups."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.questions.answers.device import operator_and_shapes, slowest_rank
from hermes_agent.questions.answers.events import more
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, listed, milliseconds, paragraph, row_table
from hermes_agent.questions.reading.question import Question, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.find_events import GroupRow
from tools.agent_tools.phases import PhaseRow
from tools.agent_tools.result import Result
from tools.findings import Fact

LISTED = 5
OPTIMIZER_STEP = "Optimizer.step#"  # what torch.optim marks
PHASES = ("data", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class _Place:
    by: str
    lead: str


MODULE = _Place("module", "The layers of rank {rank} with most time, in ms per step")
LINE = _Place("stack", "The Python lines of rank {rank} with most time, in ms per step")


def layers(discussion: Discussion, question: Question) -> str:
    """The modules with most device time, on a CPU most operator time; without them the operators by shape."""
    return _by_place(discussion, question, MODULE)


def lines(discussion: Discussion, question: Question) -> str:
    """The Python lines whose calls take most device time, on a CPU most operator time."""
    return _by_place(discussion, question, LINE)


def shapes(discussion: Discussion, question: Question) -> str:
    """Matrix operators by their shapes, the lowest share of the device's peak first."""
    rank = _rank(discussion, question)
    given = {"rank": rank, "group_by": "shape", "sort": "rate", "limit": LISTED}
    found = called(discussion, "find_events", question.page, **given, kind="kernel")
    rows = [row for row in found.rows if isinstance(row, GroupRow) and row.tflop_per_s is not None]
    if not rows:
        return wording("no_rates")
    cells = [
        [
            row.id,
            milliseconds(row.own_ms_per_step),
            milliseconds(row.tflop_per_s),
            milliseconds(row.peak_pct),
            shape_text(row.name),
        ]
        for row in rows
    ]
    lead = f"Matrix operators of rank {rank} by shape, the lowest share of the device's peak first; ms per step:"
    return blocks([lead, row_table(("id", "ms", "TFLOP/s", "% peak", "operator and shapes"), cells), more(found)])


def phase_times(discussion: Discussion, question: Question) -> str | None:
    """Forward, backward, optimizer and data: kernels' time and the host's time per step; None for a name such as
    ``aten::convolution_backward``."""
    if question.names:
        return None
    rank = _rank(discussion, question)
    step = question.steps[0] if question.steps else None
    result = called(discussion, "phases", rank=rank, step=step)
    rows = [row for row in result.rows if isinstance(row, PhaseRow)]
    device = discussion.profile().rank(rank).rank.has_device
    kernels = _kernel_time(discussion, rank, step) if device else {}
    cells = [
        [row.id, milliseconds(kernels.get(row.name, 0.0)) if device else "", milliseconds(row.host_ms), row.name]
        for row in rows
    ]
    heads: tuple[str, ...] = ("id", "kernels", "host", "phase")
    if not device:
        cells, heads = [[row[0], *row[2:]] for row in cells], ("id", "host", "phase")
    when = "per step" if step is None else f"in step {step}"
    asked = [name for name in PHASES if name in question.words.split()] or ["forward", "backward"]
    timed = {row.name for row in rows if row.host_ms or kernels.get(row.name)}
    if not timed.intersection(asked):
        none = (
            f"There is no {listed(asked, 'or')} in the recorded steps of rank {rank}, as far as the trace shows phases."
        )
        return paragraph([none, *(note for note in result.notes if "separable" in note)])
    parts = [_phase(discussion, rank, name, step, device) for name in asked]
    lead = f"Phases of rank {rank}, ms {when}: the phase's kernels, communication included, and its time on the host."
    return blocks([" ".join(parts), lead if device else f"Phases of rank {rank}, ms {when}: time on the host.",
                   row_table(heads, cells), wording("phases_overlap") if device else "",
                   paragraph(note for note in result.notes if "separable" in note)])  # fmt: skip


def group_cost(discussion: Discussion, question: Question) -> str:
    """Communication by process group: tensor, data or pipeline parallel, with what is exposed."""
    rank = _rank(discussion, question)
    result = called(discussion, "find_events", rank=rank, group_by="group", kind="collective", limit=2 * LISTED)
    rows = [row for row in result.rows if isinstance(row, GroupRow)]
    if not rows:
        return f"There are no collectives in the steps of rank {rank}, so no kind of parallelism costs communication."
    steps = len(discussion.profile().rank(rank).steps)
    cells = [
        [
            row.id,
            milliseconds(row.own_ms_per_step),
            milliseconds((row.exposed_ms or 0.0) / steps),
            str(row.count),
            row.name,
        ]
        for row in rows
    ]
    table = row_table(("id", "ms", "exposed", "count", "process group"), cells)
    lead = f"Communication of rank {rank} by process group, ms per step; exposed: nothing else computes."
    unnamed = all("not recorded" in row.name for row in rows)
    single = wording("groups_unnamed") if unnamed else wording("one_group") if len(rows) == 1 else ""
    return blocks([single, lead, table, more(result)])


def shape_text(label: str) -> str:
    """``aten::mm 32x1000, 1000x2048`` of an operator with its recorded shapes and types."""
    return " ".join(operator_and_shapes(label)).strip()


def _kernel_time(discussion: Discussion, rank: int, step: int | None) -> dict[str, float]:
    rows = called(discussion, "find_events", rank=rank, kind="kernel", group_by="phase", step=step).rows
    return {row.name: row.own_ms_per_step for row in rows if isinstance(row, GroupRow)}


def _phase(discussion: Discussion, rank: int, phase: str, step: int | None, device: bool) -> str:
    when = "per step" if step is None else f"in step {step}"
    if not device or phase == "data":
        host = discussion.measured("phase_ms", rank=rank, phase=phase, place="host", step=step)
        if host is None:
            return ""
        text = f"The {phase} of rank {rank} takes {{0}} {when} on the host"
        marked = _marked_steps(discussion, rank) if phase == "optimizer" and step is None else None
        return discussion.say(f"{text}.", host) if marked is None else discussion.say(
            f"{text}, {{1}} of it in the calls marked as the optimizer's step.", host, marked
        )  # fmt: skip
    time = discussion.measured("events_ms", rank=rank, by="phase", name=phase, kind="kernel", step=step)
    return f"The {phase} launches no kernel." if time is None else discussion.say(
        f"The kernels of the {phase} of rank {rank} run {{0}} {when}.", time
    )  # fmt: skip


def _marked_steps(discussion: Discussion, rank: int) -> Fact | None:
    """Time per step in the optimizer's own step, without clearing gradients; None where it is not marked."""
    fact = discussion.measured("kind_ms", rank=rank, kind="annotation", part=OPTIMIZER_STEP)
    return fact if fact is not None and fact.value > 0 else None


def _by_place(discussion: Discussion, question: Question, place: _Place) -> str:
    rank = _rank(discussion, question)
    step = question.steps[0] if question.steps else None
    kind = "kernel" if discussion.profile().rank(rank).rank.has_device else "operator"
    found = called(
        discussion, "find_events", question.page, rank=rank, group_by=place.by, kind=kind, limit=LISTED + 1, step=step
    )
    rows = [row for row in found.rows if isinstance(row, GroupRow)]
    known = [row for row in rows if "recorded)" not in row.name]
    if not known:
        needs = wording("needs_module") if place is MODULE else wording("needs_stack")
        return blocks([needs, _nearest(discussion, rank, kind)])
    rest = next((row for row in rows if row not in known), None)
    lead = f"{place.lead.format(rank=rank)} ({'device time' if kind == 'kernel' else 'own time of operators'}):"
    cells = [[row.id, milliseconds(row.own_ms_per_step), f"{row.share_pct:.1f}", row.name] for row in known]
    none = "" if rest is None else f"For {rest.share_pct:.1f} % ({rest.id}) of that time it is not recorded."
    return blocks(
        [
            lead,
            row_table(("id", "ms", "%", "layer" if place is MODULE else "line"), cells, ends=True),
            none,
            more(found),
        ]
    )


def _nearest(discussion: Discussion, rank: int, kind: str) -> str:
    """The operators with their shapes: what stands nearest to a layer where none is recorded."""
    found: Result = called(discussion, "find_events", rank=rank, group_by="shape", kind=kind, limit=LISTED)
    rows = [row for row in found.rows if isinstance(row, GroupRow) and "recorded)" not in row.name]
    if not rows:
        return ""
    cells = [[row.id, milliseconds(row.own_ms_per_step), f"{row.share_pct:.1f}", shape_text(row.name)] for row in rows]
    lead = f"What is recorded are operators with shapes; those of rank {rank} with most time, in ms per step:"
    return blocks([lead, row_table(("id", "ms", "%", "operator and shapes"), cells)])


def _rank(discussion: Discussion, question: Question) -> int:
    return question.ranks[0] if question.ranks else slowest_rank(discussion)
