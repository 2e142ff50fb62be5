"""The processes of Ascend's trace_view.json: which of their events are work of the device, and which calls launch it.

The profiler (of PyTorch and MindSpore) writes one process for each layer. "Ascend Hardware" holds the tasks of every
stream: kernels, copies, and the events and notifications by which streams wait for each other, which last as long as
the wait and compute nothing. "HCCL" (later "Communication") holds every collective as a whole in one lane for each
group, and its parts in lanes called planes. "CANN" holds the calls of the host. The counters and "Overlap Analysis" are
derived from these.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import EventKind
from tools.sources.kineto.columns import Columns, TrackKey
from tools.sources.kineto.details import Codes

HARDWARE, CANN = "Ascend Hardware", "CANN"
COLLECTIVES = re.compile(r"(?:HCCL|Communication)\Z")
GROUP_LANE = re.compile(r"Group\b.*\bCommunication|Communication\Z", re.IGNORECASE)
QUEUES = re.compile(r"Enqueue|Dequeue")
STREAM = re.compile(r"\d+")
GROUP_STREAMS = 1 << 20  # lanes of groups are no streams: they are numbered from here
# Tasks of streams that compute nothing: what they wait for, and parts of collectives that HCCL's lanes hold as a whole.
NO_WORK = re.compile(
    r"(?:EVENT|NOTIFY|NOP|PROFILING|PLACE_HOLDER|STREAM|LABEL|MODEL|WRITE|CONDITION|CMO|WAIT)(?:_[A-Z0-9_]+)?\Z"
    r"|(?:Write Value|Notify (?:Wait|Record)|S?DMA|RDMA\w*|Reduce_Inline|Reduce Inline|Reduce TBE|[A-Z_]+_SQE)\Z"
)
COPY = re.compile(r"memcpy|(?:SDMA|PCIE_DMA)_SQE\Z", re.IGNORECASE)


def is_ascend(columns: Columns) -> bool:
    """Whether the trace has Ascend's processes."""
    return any(HARDWARE in said for said in columns.processes.values())


def task_kind(name: str) -> EventKind:
    """The kind of a task of a stream, by its name."""
    if COPY.match(name):
        return EventKind.MEMCPY
    return EventKind.OTHER if NO_WORK.match(name) else EventKind.KERNEL


def take_ascend_work(columns: Columns, kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """The kinds with tasks, whole collectives and calls recognised; notes the devices' streams, and reads shapes."""
    names, keys = list(columns.names), list(columns.tracks)
    tasks = np.array([task_kind(name) for name in names], dtype=np.int8)
    queues = np.array([QUEUES.match(name) is not None for name in names], dtype=bool)
    layer = np.array([_layer(columns, key) for key in keys], dtype=np.int8)
    hardware = [pid for pid, said in columns.processes.items() if HARDWARE in said]
    for code, key in enumerate(keys):
        if layer[code] in (ON_STREAM, ON_GROUP):
            number = STREAM.search(columns.labels.get(key, "") or str(key[1]))
            stream = int(number[0][:9]) if number else -1
            own = hardware.index(key[0]) if key[0] in hardware else 0
            columns.devices[code] = (own, GROUP_STREAMS + code if layer[code] == ON_GROUP else stream)
    of, name = layer[columns.joined("track")], columns.joined("name")
    found = np.where(of == ON_STREAM, tasks[name], kind)
    found = np.where(of == ON_GROUP, EventKind.KERNEL, found)
    calls = (of == CALLS) | ((of == HOST) & queues[name] & (kind == EventKind.OTHER))
    for column in ("dims", "types"):
        _as_json(columns, f"operators.{column}", numbers=column == "dims")
    return np.where(calls, EventKind.RUNTIME, found).astype(np.int8)


HOST, ON_STREAM, ON_GROUP, CALLS = range(4)


def _layer(columns: Columns, key: TrackKey) -> int:
    said = columns.processes.get(key[0], set())
    if HARDWARE in said:
        return ON_STREAM
    if CANN in said:
        return CALLS
    grouped = GROUP_LANE.match(columns.labels.get(key, ""))
    return ON_GROUP if grouped and any(COLLECTIVES.match(each) for each in said) else HOST


def _as_json(columns: Columns, name: str, numbers: bool) -> None:
    """Shapes and types as Kineto writes them: the profiler joins them with semicolons and line breaks into one text."""
    own = columns.details.vocabularies.get(name)
    if own is None:
        return
    plain: Codes[str] = Codes()
    for text, code in own.items():
        rewritten = inputs_of(text, numbers)
        plain[text if rewritten in plain else rewritten] = code
    columns.details.vocabularies[name] = plain


def inputs_of(text: str, numbers: bool) -> str:
    r"""``"32,3;\r\n;\r\n"`` as ``[[32, 3], [], []]``, types as a list of texts; the text itself where it is no such.

    The quotes of a JSON text and its escapes are taken away first.
    """
    if not text.startswith('"'):
        return text
    parts = [part.strip() for part in re.split(r";(?:\\r|\\n|\s)*", text.strip('"'))]
    if not numbers:
        return "[" + ", ".join(f'"{part}"' for part in parts) + "]" if all(map(PLAIN_TYPE.match, parts)) else text
    if not all(PLAIN_SIZES.match(part) for part in parts):
        return text
    return "[" + ", ".join(f"[{', '.join(part.split(','))}]" for part in parts) + "]"


PLAIN_TYPE = re.compile(r"[\w:.<> ]*\Z")
PLAIN_SIZES = re.compile(r"(?:\d{1,15}(?:,\d{1,15})*)?\Z")
