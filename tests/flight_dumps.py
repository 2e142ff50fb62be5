"""Dumps of PyTorch's flight recorder as tests write them: groups, the calls of a rank, and how far each call is."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.run.recorded.collective_records import FlightRecords
from tools.sources.load import load_run
from tools.views.communication.collective_hang import Hang, find_hang

START_NS = 1_758_000_000_000_000_000
MS = 1_000_000


@dataclass(frozen=True)
class Made:
    """One call: a collective of a group, or a send or receive ("send 0->1") inside of it."""

    operation: str = "all_reduce"
    state: str = "completed"
    group: str = "0"
    at_ms: float = 0.0
    elements: int = 1024
    dtype: str = "Float"
    seen_ms: float | None = None


def done(count: int, operation: str = "all_reduce", group: str = "0") -> list[Made]:
    """Finished calls."""
    return [Made(operation, group=group) for _ in range(count)]


def dump(
    calls: Sequence[Made],
    groups: Mapping[str, Sequence[int]],
    *,
    keep: int = 0,
    status: bool = True,
    json_form: bool = False,
) -> dict[str, object]:
    """The members of a dump with the last ``keep`` calls (all where 0), as PyTorch writes them."""
    sequence = dict.fromkeys(groups, 0)
    sends = dict.fromkeys(groups, 0)
    ended = dict.fromkeys(groups, 0)
    entries: list[dict[str, object]] = []
    for record, call in enumerate(calls):
        p2p = call.operation.startswith(("send", "recv"))
        (sends if p2p else sequence)[call.group] += 1
        own = (sends if p2p else sequence)[call.group]
        if call.state == "completed":
            ended[call.group] = own
        created = START_NS + int((call.at_ms or record) * MS)
        seen = created + MS if call.seen_ms is None else START_NS + int(call.seen_ms * MS)
        none = 0 if json_form else None
        entries.append(
            {
                "record_id": record,
                "pg_id": sorted(groups, key=int).index(call.group),
                "process_group": [call.group, f"group_{call.group}"]
                if json_form
                else (call.group, f"group_{call.group}"),
                "collective_seq_id": sequence[call.group],
                "p2p_seq_id": sends[call.group],
                "op_id": record,
                "profiling_name": f"nccl:{call.operation}",
                "time_created_ns": created,
                "input_sizes": [[call.elements]],
                "input_dtypes": [call.dtype],
                "output_sizes": [[call.elements]],
                "output_dtypes": [call.dtype],
                "state": call.state,
                "time_discovered_started_ns": none if call.state == "scheduled" else seen,
                "time_discovered_completed_ns": seen if call.state == "completed" else none,
                "retired": call.state == "completed",
                "timeout_ms": 600_000,
                "is_p2p": p2p,
            }
        )
    found: dict[str, object] = {
        "version": "2.9",
        "pg_config": {
            name: {"name": name, "desc": f"group_{name}", "ranks": str(list(ranks))} for name, ranks in groups.items()
        },
        "entries": entries[-keep:] if keep else entries,
    }
    if status:
        last = {name: (max(sequence[name], sends[name]), ended[name]) for name in groups}
        found["pg_status"] = {
            str(at): {
                "last_enqueued_collective": str(last[name][0]) if json_form else last[name][0],
                "last_started_collective": "-1" if json_form else -1,
                "last_completed_collective": str(last[name][1]) if json_form else last[name][1],
            }
            for at, name in enumerate(sorted(groups, key=int))
        }
    return found


def write(folder: Path, ranks: Mapping[int, dict[str, object]], *, form: str = "pickle") -> Path:
    """The dumps of ranks in a folder, by its name; as a pickle of protocol 2, or as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, value in ranks.items():
        data = json.dumps(value).encode() if form == "json" else pickle.dumps(value, protocol=2)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    return folder


def records_of(folder: Path) -> FlightRecords:
    """The record of the dumps in a folder."""
    found = load_run([folder]).collectives
    assert found is not None
    assert found.flight is not None
    return found.flight


def hang_of(folder: Path, calls: Mapping[int, Sequence[Made]], world: int, **options: bool | int | str) -> Hang:
    """What the dumps of ranks of one group show."""
    form = str(options.pop("form", "pickle"))
    keep, status = int(options.pop("keep", 0)), bool(options.pop("status", True))
    made = {
        rank: dump(each, {"0": range(world)}, keep=keep, status=status, json_form=form == "json")
        for rank, each in calls.items()
    }
    return find_hang(records_of(write(folder, made, form=form)))
