"""Big traces of four shapes, made from recorded ones by repeating them with shifted times and ids."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TRACES = Path(os.environ.get("HERMES_TRACES", ROOT.parent / "shared" / "traces"))

ID_ARGUMENTS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Record function id",
    "Sequence number",
)
SYNC_ARGUMENT = "wait_on_cuda_event_record_corr_id"
STEP = re.compile(r"^ProfilerStep#(\d+)$")
GAP_US = 1000.0  # between two copies

Event = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """A kind of big trace: the recorded files it is made of, one per rank."""

    name: str
    sources: tuple[str, ...]  # below the folder of traces
    what: str

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(TRACES / source for source in self.sources)


SHAPES = (
    Shape("device", ("hta/trace_diff_test.json.gz",), "one rank, device kept busy, most events are operators"),
    Shape("idle", ("hta/df_index_resolver.json.gz",), "one rank, device waits for the host, many causes to replay"),
    Shape("stacks", ("tracelens/mi300_resnet_act_checkpoint.json.gz",), "one rank, Python stacks 22 to 36 deep (ROCm)"),
    Shape(
        "ranks",
        tuple(f"param/dlrm_8rank/worker{rank}.pt.trace.json.gz" for rank in range(8)),
        "eight ranks, one file each",
    ),
)


@dataclass(frozen=True)
class Enlarged:
    """What was made: files in order of rank, events and sizes over all of them."""

    files: tuple[str, ...]
    events: int
    json_bytes: int

    @property
    def compressed_bytes(self) -> int:
        return sum(Path(path).stat().st_size for path in self.files)


def enlarge(sources: Sequence[Path], folder: Path, json_bytes: int) -> Enlarged:
    """Write one ``.json.gz`` per source into ``folder``, together at least ``json_bytes`` of JSON.

    Every file holds the same number of copies. Each copy is shifted behind the one before by the longest span of any
    source, so that ranks stay aligned, and its ids by more than the largest id, so that no correlation id and no step
    number occurs twice.
    """
    folder.mkdir(parents=True, exist_ok=True)
    traces = [_Recorded.of(source) for source in sources]
    span_us = round(max(trace.span_us for trace in traces) + GAP_US)
    copies = -(-json_bytes // sum(trace.json_bytes for trace in traces))
    files, sizes = [], []
    for trace, source in zip(traces, sources, strict=True):
        target = folder / source.name
        with gzip.open(target, "wt", compresslevel=3, encoding="utf-8") as out:
            sizes.append(sum(out.write(text) for text in trace.repeated(copies, span_us)))
        files.append(str(target))
    return Enlarged(tuple(files), copies * sum(len(trace.timed) for trace in traces), sum(sizes))


@dataclass(frozen=True)
class _Recorded:
    """One recorded trace, its events that have a time apart from those that name processes and threads."""

    head: Event
    labels: list[Event]
    timed: list[Event]
    json_bytes: int

    @classmethod
    def of(cls, source: Path) -> _Recorded:
        opener = gzip.open if source.suffix == ".gz" else open
        with opener(source, "rt", encoding="utf-8") as file:
            trace = json.load(file)
        events: list[Event] = trace["traceEvents"]
        timed = [event for event in events if event.get("ph") != "M" and "ts" in event]
        return cls(
            head={key: value for key, value in trace.items() if key != "traceEvents"},
            labels=[event for event in events if event.get("ph") == "M"],
            timed=timed,
            json_bytes=sum(len(json.dumps(event)) + 2 for event in timed),
        )

    @property
    def span_us(self) -> float:
        """Span of the events, but for single ones that lie hours away."""
        times = [float(event["ts"]) for event in self.timed if not isinstance(event["ts"], str)]
        ends = [float(event["ts"]) + float(event.get("dur", 0)) for event in self.timed]
        return max(ends) - min(times)

    def repeated(self, copies: int, span_us: int) -> Iterator[str]:
        """The text of the trace with ``copies`` of every event that has a time."""
        id_shift = max(_largest_id(event) for event in self.timed) + 1
        steps = [int(match[1]) for event in self.timed if (match := STEP.match(str(event.get("name", ""))))]
        step_shift = max(steps) - min(steps) + 1 if steps else 1
        yield json.dumps(self.head)[:-1] + ', "traceEvents": [\n'
        yield ",\n".join(json.dumps(event) for event in self.labels)
        for copy, event in itertools.product(range(copies), self.timed):
            yield ",\n" + json.dumps(_moved(event, copy * span_us, copy * id_shift, copy * step_shift))
        yield "\n]}"


def _largest_id(event: Event) -> int:
    arguments = event.get("args") or {}
    ids = [event.get("id"), *(arguments.get(name) for name in ID_ARGUMENTS)]
    return max((each for each in ids if isinstance(each, int)), default=0)


def _moved(event: Event, later_us: int, id_shift: int, step_shift: int) -> Event:
    moved, ts = dict(event), event["ts"]
    if not isinstance(ts, str):
        moved["ts"] = ts + later_us
    if isinstance(event.get("id"), int):
        moved["id"] = event["id"] + id_shift
    arguments = event.get("args")
    if arguments:
        moved["args"] = {
            name: value + id_shift
            if isinstance(value, int) and (name in ID_ARGUMENTS or name == SYNC_ARGUMENT) and value >= 0
            else value
            for name, value in arguments.items()
        }
    if match := STEP.match(str(event.get("name", ""))):
        moved["name"] = f"ProfilerStep#{int(match[1]) + step_shift}"
    return moved
