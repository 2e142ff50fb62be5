"""What takes most time by the tables that profilers printed, as far as they were pasted, and what their rows mean."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from tools.analyzers.support.answers import clean, say
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Sentence
from tools.metrics.recorded.job_log import HOLDS_OTHERS
from tools.metrics.recorded.profile_rows import BATCH, EPOCH, tables_of
from tools.metrics.registry import measure
from tools.views.profile import Profile

SHOWN = 3  # rows of a table
MOST_TABLES = 4
SHORT_MS = 0.1  # shorter means are given in microseconds
FEWEST_SHORT_CALLS = 1000  # fewer short calls are no load on the host
TITLES = {
    "torch.profiler": "torch.profiler's table, own time of the host",
    "torch.profiler, device": "torch.profiler's table, own time of the device",
    "nvprof": "nvprof's table of the GPU",
    "nvprof, API calls": "nvprof's table of API calls on the host",
    "Lightning": "Lightning's profiler",
    "cProfile": "cProfile, own time of functions",
    "line_profiler": "line_profiler",
    "DeepSpeed flops profiler": "DeepSpeed's flops profiler, of one step",
    "torch_xla": "torch_xla's metrics report",
    "nsys, kernels": "nsys stats, kernels on the device",
    "nsys, copies on the device": "nsys stats, copies and fills on the device",
    "nsys, CUDA API": "nsys stats, CUDA calls on the host",
}
OF_DEVICE = ("torch.profiler, device", "nvprof", "nsys, kernels", "nsys, copies on the device")
OF_HOST = ("torch.profiler", "nvprof, API calls", "nsys, CUDA API")
UPLOAD = re.compile(r"\bHtoD\b|Host-to-Device", re.I)
PAGEABLE = re.compile(r"pageable", re.I)
COPY = re.compile(r"\bmemcpy\b", re.I)
WAITING = re.compile(r"(?:cuda|hip|acl\w*)\w*(?:Synchronize|StreamWaitEvent)|(?:cuda|hip)Memcpy(?!Async)", re.I)
COPY_CALL = re.compile(r"(?:cuda|hip)MemcpyAsync")
ALLOCATING = re.compile(r"(?:cuda|hip)(?:Malloc|Free)(?:Host|Async|Managed|Array)?\b|(?:cuda|hip)HostAlloc")
OVERLAPPING = "Some of its rows contain others, so they do not add up."
ADDED = "Its rows add up to {0}; what took longer outside of them is not in the table."
OF_OPERATORS = "An operator's row holds its kernels and copies, which have rows of their own: the two do not add up."


@check(
    *("step_time.profile_tables", "Tables of profilers", "What takes most time by the tables of profilers?"),
    family="parallel",
    from_records="output",
)
def profile_tables(profile: Profile) -> Check | None:
    """The largest rows of each table with share, calls and mean, then what such rows stand for."""
    log = profile.run.job_log
    if log is None or profile.traced or not (tables := tables_of(log)):
        return None
    shown = list(tables.items())[:MOST_TABLES]
    first = [_largest(profile, table, rows) for table, rows in shown]
    return clean(*first, *(each for table, rows in shown for each in _meaning(profile, table, rows)))


def _largest(profile: Profile, table: str, rows: pd.DataFrame) -> Sentence:
    """``X takes 4.4 s (99 %) in 3,094,192 calls of 1.43 us each; Y ...``."""
    facts: list[Fact] = []
    names: list[str] = []
    said: list[str] = []
    for name in rows["action"].iloc[:SHOWN]:
        given = {"table": table, "name": str(name)}
        total, at = measure(profile, "table_row_ms", **given), len(facts)
        mean = measured(profile, "table_row_mean_ms", **given)
        if mean is not None and mean.value < SHORT_MS:
            mean = measure(profile, "table_row_mean_us", **given)
        share, calls = (measured(profile, f"table_row_{each}", **given) for each in ("pct", "calls"))
        text = f"{{n{len(names)}}} takes {{{at}}}"
        own = [total]
        if share is not None:
            own.append(share)
            text += f" ({{{at + len(own) - 1}}})"
        if calls is not None:
            own.append(calls)
            text += f" in {{{at + len(own) - 1}}}"
        if calls is not None and calls.value > 1 and mean is not None:
            own.append(mean)
            text += f", {{{at + len(own) - 1}}} each"
        facts += own
        names.append(str(name))
        said.append(text)
    return say(f"By {TITLES.get(table, table)}: {'; '.join(said)}.", *facts, names=tuple(names))


def _meaning(profile: Profile, table: str, rows: pd.DataFrame) -> list[Sentence]:
    said = [*_short_calls(profile, table, rows), *_uploads(profile, table, rows), *_host_calls(profile, table, rows)]
    if table == "torch.profiler, device" and rows["action"].str.startswith("aten::").any():
        said.append(say(OF_OPERATORS))
    if table == "Lightning":
        nested = rows["action"].str.contains(HOLDS_OTHERS, regex=True).any()
        added = say(ADDED, measure(profile, "table_rows_ms", table=table))
        said += [*_outside_batches(profile, rows), say(OVERLAPPING) if nested else added]
    return said


def _large(profile: Profile, rows: pd.DataFrame, words: re.Pattern[str]) -> Sequence[str]:
    """The rows that match, of those with a noticeable share, the longest first; where no share is stated none."""
    large = rows[rows["share_pct"] >= profile.thresholds["noted_pct"]]
    return [str(name) for name in large["action"] if words.search(str(name))]


def _short_calls(profile: Profile, table: str, rows: pd.DataFrame) -> list[Sentence]:
    """Many kernels or copies so short that launching them costs the host about as much."""
    if table not in OF_DEVICE:
        return []
    short = rows[
        (rows["share_pct"] >= profile.thresholds["noted_pct"])
        & (rows["calls"] >= FEWEST_SHORT_CALLS)
        & (1e3 * rows["mean_ms"] < profile.thresholds["small_grid_kernel_us"])
        & ~rows["action"].str.contains("::", regex=False)
    ]
    if short.empty:
        return []
    name = str(short["action"].iloc[0])
    what = "copies" if COPY.search(name) or "memcpy" in name.lower() else "kernels"
    given = {"table": table, "name": name}
    facts = (measure(profile, "table_row_calls", **given), measure(profile, "table_row_mean_us", **given))
    text = (
        f"{{n0}}: {{0}} of {{1}} are many small {what}, as short as their launch takes on the host: what issues them"
        " one by one is the place to look at, so that few large ones take their place."
    )
    return [say(text, *facts, names=(name,))]


def _uploads(profile: Profile, table: str, rows: pd.DataFrame) -> list[Sentence]:
    names = _large(profile, rows, UPLOAD) if table in OF_DEVICE else []
    if not names:
        return []
    share = measure(profile, "table_row_pct", table=table, name=names[0])
    text = "Copies from the host to the device take {0} of the device's time"
    if PAGEABLE.search(names[0]):
        text += ", from pageable memory: the host waits in each of them until its data is staged"
    return [say(f"{text}. Tensors made on the device, or pinned memory with non_blocking=True, avoid that.", share)]


def _host_calls(profile: Profile, table: str, rows: pd.DataFrame) -> list[Sentence]:
    """Calls in which the host waits, and allocations."""
    if table not in OF_HOST:
        return []
    said = []
    if names := _large(profile, rows, WAITING):
        text = "In {n0} the host waits for the device: its time is no cost by itself, the device may be at work."
        said.append(say(text, names=(names[0],)))
    if names := _large(profile, rows, COPY_CALL):
        text = (
            "{n0} returns at once only where the memory is pinned: else its time holds the wait for the device, such"
            " as in .item(), .cpu() or .to() of a tensor."
        )
        said.append(say(text, names=(names[0],)))
    if names := _large(profile, rows, ALLOCATING):
        text = (
            "{n0} belongs to the start: PyTorch keeps what it allocates, so that calls of it in later steps mean that"
            " memory is short or not reused."
        )
        said.append(say(text, names=(names[0],)))
    return said


def _outside_batches(profile: Profile, rows: pd.DataFrame) -> list[Sentence]:
    """What an epoch of Lightning takes outside of its batches."""
    if not {EPOCH, BATCH} <= set(rows["action"]):
        return []
    rest = measured(profile, "lightning_outside_ms", outer=EPOCH, inner=BATCH)
    if rest is None or rest.value <= 0.0:
        return []
    text = "Of {n0}, {0} lies outside of {n1}: loading batches, callbacks, logging and Lightning's own loop."
    return [say(text, rest, names=(EPOCH, BATCH))]
