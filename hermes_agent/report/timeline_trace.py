"""A timeline as a Chrome trace, to open in Perfetto or chrome://tracing on this machine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

from hermes_agent.evidence.printable import printable
from hermes_agent.report.perfetto import NAME_CHARS, Event, named_event
from tools.whatif.timeline import Timeline, bounded

MOST_EVENTS = 200_000  # the longest ones; Perfetto stays usable


def timeline_trace(timeline: Timeline, packed: bool) -> bytes:
    """The trace as JSON, gzipped if ``packed``: a process per group, a thread per lane."""
    shown = bounded(timeline, MOST_EVENTS)
    note = {"title": printable(timeline.title, NAME_CHARS), "left_out": shown.left_out}
    document = {"displayTimeUnit": "ms", "otherData": note, "traceEvents": list(_events(shown))}
    text = json.dumps(document).encode()
    return gzip.compress(text, mtime=0) if packed else text


def _events(shown: Timeline) -> Iterator[Event]:
    groups = {group: place for place, group in enumerate(dict.fromkeys(each.group for each in shown.bars), 1)}
    lanes = {lane: place for place, lane in enumerate(dict.fromkeys(each.lane for each in shown.bars), 1)}
    for group, process in groups.items():
        yield named_event("process_name", process, 0, printable(group or shown.title, NAME_CHARS))
    for lane, group in shown.lanes:
        yield named_event("thread_name", groups[group], lanes[lane], printable(lane, NAME_CHARS))
    for each in shown.bars:
        yield {
            **{"ph": "X", "cat": printable(each.kind, NAME_CHARS), "name": printable(each.name, NAME_CHARS)},
            **{"pid": groups[each.group], "tid": lanes[each.lane]},
            **{"ts": each.start_ms * 1e3, "dur": each.lasting_ms * 1e3},
        }
