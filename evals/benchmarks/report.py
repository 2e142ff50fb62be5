"""RESULTS.md from the stored results."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from evals.benchmarks.big_traces import SHAPES
from evals.benchmarks.results import (
    RATIOS,
    ChecksResult,
    CommandsResult,
    Conditions,
    JoinResult,
    RanksCost,
    Results,
    ShapeResult,
    ratios_of,
)

CHECK_GOAL_MS = 150.0  # of CPU per 1.7 million events
GOAL_EVENTS = 1_700_000
VIEWS_SHOWN = 25
MADE_BY = "Made by `python -m evals.benchmarks --out evals/benchmarks` (`make bench`)."
NOTES = (
    "Seconds are wall time, memory the largest sum over all processes of a command, shared pages counted once (PSS). "
    "A load above the number of running processes says that something else used the machine meanwhile; pairs run back "
    "to back, so that it slows both.",
    "",
)


def report(results: Results) -> str:
    """All tables as Markdown."""
    lines = [
        "# Speed and memory",
        "",
        "Made by `python -m evals.benchmarks --out evals/benchmarks` (`make bench`).",
        "",
    ]
    lines += NOTES
    lines += _against_hta(results.shapes)
    if results.checks:
        lines += _checks(results.checks)
    if results.commands:
        lines += _commands(results.commands)
    if results.ranks:
        lines += _ranks(results.ranks)
    if results.join:
        lines += _join(results.join)
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table and an empty line."""
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)] + [""]


def _against_hta(shapes: Mapping[str, ShapeResult]) -> Iterator[str]:
    known = [shape for shape in SHAPES if shape.name in shapes]
    if not known:
        return
    yield "## Big traces, against HTA 0.5.0"
    yield ""
    yield "Recorded traces repeated with shifted times and ids. HTA loads the trace and prints its temporal breakdown; "
    yield "Hermes makes its whole diagnosis, cold (nothing kept) and warm (the same again)."
    yield ""
    sizes = []
    for shape in known:
        of = shapes[shape.name]
        size = f"{of.json_bytes / 1e6:.0f} ({of.compressed_bytes / 1e6:.0f})"
        where = _where(of.conditions)
        sizes.append([shape.name, f"`{shape.sources[0]}`: {shape.what}", f"{of.events:,}", size, where])
    yield from table(["trace", "made from", "events", "MB of JSON (gzip)", "measured"], sizes)
    rows = [[shape.name, *row] for shape in known for row in _pair_rows(shapes[shape.name])]
    yield from table(
        ["trace", "pair", "HTA s", "cold s", "warm s", "HTA MiB", "cold MiB", "HTA CPU s", "cold CPU s"], rows
    )
    goals = [f"{name} (at most {goal:.3f})" for name, goal in RATIOS.items()]
    yield "Ratios, pair by pair, and their median, which `make bench` compares with the next one:"
    yield ""
    yield from table(["trace", *goals], [[shape.name, *_ratio_cells(shapes[shape.name])] for shape in known])
    for shape in known:
        if shapes[shape.name].peer_failure:
            yield f"HTA cannot read {shape.name}: `{shapes[shape.name].peer_failure}`"
            yield ""


def _pair_rows(result: ShapeResult) -> Iterator[list[str]]:
    for number, pair in enumerate(result.pairs, start=1):
        peer = ["-"] * 3
        if pair.peer is not None:
            peer = [f"{pair.peer.seconds:.1f}", f"{pair.peer.peak_mib:.0f}", f"{pair.peer.cpu_s:.1f}"]
        seconds = [peer[0], f"{pair.cold.seconds:.2f}", f"{pair.warm.seconds:.2f}"]
        yield [str(number), *seconds, peer[1], f"{pair.cold.peak_mib:.0f}", peer[2], f"{pair.cold.cpu_s:.1f}"]


def _ratio_cells(result: ShapeResult) -> list[str]:
    medians, rows = result.medians(), [ratios_of(pair) for pair in result.pairs]
    return [
        f"{', '.join(f'{row[name]:.3f}' for row in rows)}; **{medians[name]:.3f}**" if name in medians else "-"
        for name in RATIOS
    ]


def _where(conditions: Conditions) -> str:
    load = f"load {conditions.load_before:.1f} to {conditions.load_after:.1f}"
    return f"{conditions.commit}, {conditions.cores} cores, Python {conditions.python}, {load}"


def _checks(result: ChecksResult) -> Iterator[str]:
    shapes = [shape.name for shape in SHAPES if shape.name in result.shapes]
    costs = [result.shapes[name] for name in shapes]
    yield "## CPU time of each check"
    yield ""
    yield f"Milliseconds of one thread on the big traces, worst first ({_where(result.conditions)}); wanted: at most "
    yield f"{CHECK_GOAL_MS:.0f} ms per {GOAL_EVENTS / 1e6:.1f} million events. Views of the run, figures and replays "
    yield "that several checks share are computed once, by whoever asks first; they have a table of their own and are "
    yield "not in the checks' figures. `-` is below 0.05 ms."
    yield ""
    rows = {name: [cost.checks.get(name, 0.0) for cost in costs] for name in costs[0].checks}
    rows |= {"ranking of the causes": [cost.ranking_ms for cost in costs]}
    yield from table(["check", *shapes], _worst_first(rows))
    worst = max((value, name) for name, values in rows.items() for value in values)
    yield f"The most expensive: {worst[1]}, {worst[0]:.0f} ms."
    yield ""
    views = {name: [cost.views.get(name, 0.0) for cost in costs] for cost in costs for name in cost.views}
    shown = _worst_first(views)
    yield f"Shared views, figures and replays, the {min(VIEWS_SHOWN, len(shown))} most expensive of {len(shown)}:"
    yield ""
    yield from table(["view", *shapes], shown[:VIEWS_SHOWN])
    sums = {
        "rows of events": [float(cost.rows) for cost in costs],
        "all checks and the ranking, ms": [cost.whole_ms for cost in costs],
    }
    yield from table(["in all", *shapes], [[name, *(f"{v:,.0f}" for v in values)] for name, values in sums.items()])


def _worst_first(rows: Mapping[str, Sequence[float]]) -> list[list[str]]:
    ordered = sorted(rows.items(), key=lambda row: (-max(row[1]), row[0]))
    return [[name, *("-" if value < 0.05 else f"{value:.1f}" for value in values)] for name, values in ordered]


def _commands(result: CommandsResult) -> Iterator[str]:
    yield "## Start of each command"
    yield ""
    yield f"The bundled run, medians of {result.runs} ({_where(result.conditions)}). First output is what a terminal "
    yield "shows first: progress, an answer, or the chat's first screen. Wanted: `diagnose` from an empty cache 2.5 "
    yield "CPU seconds and 1.0 s until its first line of progress, the chat's first screen 400 ms, `--help` 150 ms."
    yield ""
    rows = []
    for name, cost in result.commands.items():
        peak = f"{cost.peak_mib:.0f}" if cost.peak_mib else ""
        figures = [f"{cost.cpu_s:.2f}", f"{cost.shown_s:.2f}", f"{cost.seconds:.2f}", peak]
        rows.append([f"`{name}`", *figures, ", ".join(cost.packages)])
    yield from table(["command", "CPU s", "s to first output", "s in all", "MiB", "packages imported"], rows)


def _ranks(results: Mapping[int, RanksCost]) -> Iterator[str]:
    yield "## Runs of many ranks"
    yield ""
    yield "`hermes-dx reduce` from an empty folder and once more, with all summaries there, then `hermes-dx diagnose` "
    yield "from an empty cache. Memory is that of all processes; it should not depend on the number of ranks."
    yield ""
    rows = []
    for ranks, cost in sorted(results.items()):
        first, whole = cost.reduced, cost.diagnosed
        rows.append(
            [
                f"{ranks:,}",
                f"{cost.trace_mb:.1f}",
                *(f"{first.seconds:.1f}", f"{first.seconds / ranks:.3f}", f"{first.cpu_s / ranks:.3f}"),
                *(f"{first.peak_mib:.0f}", f"{cost.again.seconds:.1f}", f"{cost.again.peak_mib:.0f}"),
                *(f"{whole.seconds:.1f}", f"{whole.seconds / ranks:.3f}", f"{whole.peak_mib:.0f}"),
                _where(cost.conditions),
            ]
        )
    reduced = ["reduce s", "s per rank", "CPU s per rank", "MiB", "again s", "MiB"]
    yield from table(["ranks", "traces MB", *reduced, "diagnose s", "s per rank", "MiB", "measured"], rows)


def _join(result: JoinResult) -> Iterator[str]:
    rows = result.ranks * result.collectives
    yield f"## Join of {result.ranks:,} ranks"
    yield ""
    yield f"{result.collectives:,} collectives each, {rows / 1e6:.0f} million rows ({_where(result.conditions)}). "
    yield "`summaries` is the join of the product, from one file for each rank; the others read the same rows as one "
    yield "table, which would have to be made from these files first."
    yield ""
    cells = [
        [f"`{name}`", f"{cost.seconds:.1f}", f"{cost.peak_mib:.0f}", f"{cost.caused_s:.3f}"]
        for name, cost in result.engines.items()
    ]
    yield from table(["engine", "s", "MiB", "waiting caused by all ranks, s"], cells)


def summary(shape: str, result: ShapeResult) -> str:
    """One line on the medians of the commands."""
    cold = statistics.median(pair.cold.seconds for pair in result.pairs)
    ratios = ", ".join(f"{name} {value:.3f}" for name, value in result.medians().items())
    return (
        f"{shape}: cold {cold:.2f} s; {ratios}; load {result.conditions.load_before} to {result.conditions.load_after}"
    )
