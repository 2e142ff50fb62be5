"""Kernels of Ascend by its tables: work of the AI CPU, conversions of formats, and the unit that bounds them."""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.errors import UsageError
from tools.findings import Check, Fact, Finding, Saving, Sentence
from tools.metrics.recorded.ascend import BUSY, UNITS, computing_kernels, cores_stated, kernel_rows, tables
from tools.metrics.registry import measure
from tools.views.profile import Profile

NO_KERNELS = ("the tables hold no kernels (kernel_details)", "a profile of level 1 or 2")
NO_CORES = (
    "the table does not say which core a kernel ran on (Accelerator Core of kernel_details)",
    "a profile of level 1 or 2",
)
NO_UNITS = (
    "the units' busy time was not measured",
    "a profile of level 1 with aic_metrics=AiCMetrics.PipeUtilization",
)
MEMORY_UNKNOWN = (
    "Whether memory bounds kernels was not measured: it needs a profile with aic_metrics=AiCMetrics.PipeUtilization."
)
BOUND_BY = {"matrix": "compute-bound", "vector": "compute-bound", "memory": "memory-bound"}
SHOWN_TYPES = 3
KERNEL_CAP = 0.75  # other work may fill the time in which these kernels run


def _per(profile: Profile, rank: int) -> str:
    """What the kernels' time is of: a step, or all of the table where nothing tells its steps."""
    steps = tables(profile).steps
    return "per step" if (steps["rank"] == rank).any() else "in the whole table"


def _ranks(profile: Profile) -> list[int]:
    """The ranks of whose kernels the tables state the cores."""
    known = sorted(int(rank) for rank in tables(profile).kernels["rank"].unique())
    return [rank for rank in known if cores_stated(profile, rank)]


def _no_kernels(profile: Profile) -> Check:
    """Why nothing can be said of kernels: no table, one that was not read, or one that does not state cores."""
    if len(tables(profile).kernels):
        return cannot_answer(*NO_CORES)
    if "kernel_details" in profile.run.unread:
        return cannot_answer("kernel_details was not read, see the notes", "kernel_details as the profiler writes it")
    return cannot_answer(*NO_KERNELS)


def _underused(profile: Profile, group: str, subject: str, mechanism: str, left: float) -> Check | Finding | None:
    """Low device utilization by kernels that could keep ``left`` of their time, or the clean answer."""
    if profile.run.ascend is None:
        return None
    ranks = _ranks(profile)
    if not ranks:
        return _no_kernels(profile)
    per_rank = {rank: measure(profile, "ascend_kernel_ms", group=group, rank=rank) for rank in ranks}
    worst = max(ranks, key=lambda rank: (per_rank[rank].value, -rank))
    own, share = per_rank[worst], measure(profile, "ascend_kernel_pct", group=group, rank=worst)
    rows = kernel_rows(profile, group, worst).groupby("op_type")["duration_us"].sum().nlargest(SHOWN_TYPES)
    text = f"{subject} {{0}} {_per(profile, worst)} on rank {worst}, {{1}} of the kernels' time"
    if own.value:
        said = say(f"{text}, most of it in {{n0}}.", own, share, names=(", ".join(map(str, rows.index)),))
    else:
        said = say(f"{text}.", own, share)
    limits = profile.thresholds
    if not profile.measured or (profile.traced and group == "conversion"):  # ``computation.layout`` finds these
        return symptom(said) if own.value else clean(said)
    step_ms = profile.mean_step_ms
    saved_ms = (1.0 - left) * own.value
    saved_pct = 100.0 * saved_ms / step_ms
    if saved_pct < limits["noted_pct"]:
        return clean(said)
    return Finding(
        cause="underutilization",
        mechanism=mechanism,
        claim=said,
        confidence=confidence((saved_pct, limits["cause_share_pct"]), at_most=KERNEL_CAP),
        ranks=tuple(rank for rank in ranks if per_rank[rank].value >= 0.5 * own.value),
        saving=Saving(step_ms, saved_ms, 0.3 * saved_ms, saved_ms, "profiler tables: time of these kernels"),
    )


@check(
    *("computation.ai_cpu", "AI CPU", "Do operators run on the AI CPU instead of the AI cores?"),
    causes=("underutilization",),
    mechanisms=("fallback_unit",),
    from_records="tables",
)
def ai_cpu(profile: Profile) -> Check | Finding | None:
    """Kernels whose core is the AI CPU, of 20 us and more."""
    return _underused(profile, "ai_cpu", "Kernels on the AI CPU run", "fallback_unit", 0.1)


@check(
    *("computation.conversion", "Format conversion", "Are private formats and types converted back and forth?"),
    causes=("underutilization",),
    mechanisms=("layout_conversion",),
    from_records="tables",
)
def conversion(profile: Profile) -> Check | Finding | None:
    """TransData, Cast and Transpose kernels."""
    subject = "Conversions of formats and types (TransData, Cast, Transpose) run"
    return _underused(profile, "conversion", subject, "layout_conversion", 0.2)


@check(
    *("computation.affinity_apis", "Affinity APIs", "Do kernels run one by one that torch_npu offers as one?"),
    from_records="tables",
)
def affinity_apis(profile: Profile) -> Check | None:
    """Foreach kernels, of an optimizer of torch, for which torch_npu.optim has fused ones (NpuFusedSGD and others)."""
    if profile.run.ascend is None:
        return None
    ranks = _ranks(profile)
    if not ranks:
        return _no_kernels(profile)
    worst = max(ranks, key=lambda rank: (measure(profile, "ascend_kernel_ms", group="foreach", rank=rank).value, -rank))
    own, share = (measure(profile, f"ascend_kernel_{of}", group="foreach", rank=worst) for of in ("ms", "pct"))
    said = say(
        f"Foreach kernels run {{0}} {_per(profile, worst)} on rank {worst}, {{1}} of the kernels' time.", own, share
    )
    whole = profile.mean_step_ms if profile.measured else None
    if own.value == 0.0 or (whole is not None and 100.0 * own.value / whole < profile.thresholds["noted_pct"]):
        return clean(said)
    fused = "An optimizer of `torch_npu.optim` (NpuFused...) runs fewer of them; what that saves is not in the tables."
    return symptom(said, say(fused))


@check(
    *("computation.units", "Units of Ascend", "Which unit bounds the kernels: matrix, vector or memory?"),
    from_records="tables",
)
def units(profile: Profile) -> Check | None:
    """Kernel time by the unit that is busy for more than 80 % of it, and the limit of the operators with most time."""
    if profile.run.ascend is None:
        return None
    ranks = _ranks(profile)
    if not ranks:
        return _no_kernels(profile)
    rank, groups = ranks[0], ("matrix", "vector", "memory", "unbound")
    operators = _bounds(profile, rank)
    try:
        facts: tuple[Fact, ...] = tuple(measure(profile, "ascend_kernel_pct", group=each, rank=rank) for each in groups)
    except UsageError:
        return symptom(*operators, say(MEMORY_UNKNOWN)) if operators else cannot_answer(*NO_UNITS)
    text = (
        f"On rank {rank}, matrix units bound kernels for {{0}} of their time, vector units for {{1}}, memory for {{2}};"
        " no unit is busy for most of the other {3}."
    )
    clock = measured(profile, "ascend_kernel_ms", group="unbound", rank=rank)
    unbound = () if clock is None else (say("Those run {0} per step.", clock),)
    return symptom(say(text, *facts), *unbound, *operators)


def _bounds(profile: Profile, rank: int) -> list[Sentence]:
    """Of the operators with most time which limit they are at: compute, memory, or none."""
    own = computing_kernels(profile, rank)
    longest = own.groupby("op_type")["duration_us"].sum().nlargest(SHOWN_TYPES).index
    said = []
    for op_type in map(str, longest):
        known = {
            unit: fact
            for unit in UNITS
            if (fact := measured(profile, "ascend_unit_pct", unit=unit, op_type=op_type, rank=rank)) is not None
        }
        unit = max(known, key=lambda each: known[each].value, default="")
        if not unit or not known[unit].value > 0.0:
            continue
        takes = measure(profile, "ascend_type_ms", op_type=op_type, rank=rank)
        rate = measured(profile, "ascend_type_tflops", op_type=op_type, rank=rank)
        text = f"{{n0}} runs {{0}} {_per(profile, rank)}: {_bound(unit, known[unit].value, 'memory' in known)}"
        facts = (takes, known[unit], *([] if rate is None else [rate]))
        said.append(say(text + ("." if rate is None else "; it reaches {2}."), *facts, names=(op_type,)))
    return said


def _bound(unit: str, busy_pct: float, memory_known: bool) -> str:
    """The limit that a unit which is busy so long sets; the share stands in place 1."""
    if busy_pct >= 100.0 * BUSY and unit in BOUND_BY:
        return f"{BOUND_BY[unit]}, its {unit} unit is busy for {{1}} of its time"
    if not memory_known:
        return f"not compute-bound, its {unit} unit is busy for {{1}} of its time"
    return f"underutilised, the {unit} unit is the busiest, for {{1}} of its time"
