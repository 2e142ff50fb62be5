"""Records that collectives leave themselves: PyTorch's flight recorder, NCCL Inspector and NCCL RAS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class CallState(IntEnum):
    """How far a call was when its rank wrote the dump, as far as the rank had seen it."""

    SCHEDULED = 0  # enqueued by the host
    STARTED = 1  # its kernel was seen running
    COMPLETED = 2


CALL_COLUMNS = {
    **dict.fromkeys(("rank", "file", "row", "record", "group", "sequence", "peer", "elements"), "int64"),
    **dict.fromkeys(("created_ns", "seen_ns", "timeout_ms"), "int64"),
    **{"state": "int8", "p2p": "bool", "sends": "bool", "operation": "str", "types": "str"},
}
STATUS_COLUMNS = dict.fromkeys(("rank", "group", "enqueued", "completed"), "int64")
INSPECTOR_COLUMNS = {
    **dict.fromkeys(("file", "line", "rank", "member", "ranks", "nodes", "sequence", "bytes"), "int64"),
    **{"time_us": "float64", "busbw_gb_per_s": "float64"},
    **dict.fromkeys(("communicator", "operation", "timing", "host"), "str"),
}
NO_PEER = NOT_COMPARED = NO_RANK = -1


@dataclass(frozen=True)
class FlightGroup:
    """A process group: the same name and the same ranks on every rank that is in it."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class FlightDump:
    """What one rank wrote; ``whole``: no call since its start was forgotten."""

    rank: int
    file: int
    whole: bool
    groups: tuple[int, ...]  # of ``FlightRecords.groups``


@dataclass(frozen=True, eq=False)
class FlightRecords:
    """Dumps of PyTorch's flight recorder, one of each rank.

    calls:  ``CALL_COLUMNS``: ``row`` in the dump's entries, ``record`` in the order of the rank's calls, ``sequence``
            counts the collectives of a group (0 of a send or receive), ``peer`` the other rank of a send or receive,
            ``elements`` what must be equal on all ranks (``NOT_COMPARED`` where it need not), ``seen_ns`` the last time
            that the rank noted for it, Unix time
    status: ``STATUS_COLUMNS``: the last collective that the rank enqueued and completed in each group, -1 for none
    """

    calls: pd.DataFrame
    status: pd.DataFrame
    groups: tuple[FlightGroup, ...]
    dumps: tuple[FlightDump, ...]
    files: tuple[str, ...]

    @property
    def world_size(self) -> int | None:
        """The ranks of the default group, which holds all; None where no dump lists it."""
        sizes = {len(each.ranks) for each in self.groups if each.description == "default_pg" or each.name == "0"}
        return sizes.pop() if len(sizes) == 1 else None


@dataclass(frozen=True, eq=False)
class InspectorRecords:
    """Lines of NCCL Inspector: ``INSPECTOR_COLUMNS``, one row for each collective of each rank.

    ``member`` is the rank inside the communicator, ``rank`` that in the job: of the process in the communicator of all
    (``NO_RANK`` where none of that size was recorded for it).
    """

    collectives: pd.DataFrame
    files: tuple[str, ...]


@dataclass(frozen=True)
class RasRank:
    """One rank of a communicator in one answer of NCCL RAS; ``counts`` of collectives by kind."""

    rank: int
    host: str
    pid: int
    error: int = 0  # ncclResult_t of the communicator, 0 where it has none
    counts: Mapping[str, int] | None = None  # None of a rank that did not answer
    unresponsive: bool = False
    dead: bool = False


@dataclass(frozen=True)
class RasCommunicator:
    """One communicator in one answer; ``file`` and ``sample`` say in which."""

    key: str
    size: int
    ranks: tuple[RasRank, ...]
    missing: tuple[RasRank, ...]
    file: int
    sample: int  # answers in the order of their time stamps, else of their files


@dataclass(frozen=True)
class RasRecords:
    """Answers of NCCL RAS to ``ncclras -f json``."""

    communicators: tuple[RasCommunicator, ...]
    samples: int
    files: tuple[str, ...]
    version: str = ""


@dataclass(frozen=True)
class CollectiveRecords:
    """What collectives left of a run; None where no file of the kind lies there."""

    flight: FlightRecords | None = None
    inspector: InspectorRecords | None = None
    ras: RasRecords | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the records name."""
        found = set() if self.inspector is None else {str(host) for host in self.inspector.collectives["host"].unique()}
        for each in () if self.ras is None else self.ras.communicators:
            found |= {rank.host for rank in (*each.ranks, *each.missing)}
        return tuple(sorted(found - {""}))


def joined_collectives(first: CollectiveRecords | None, other: CollectiveRecords | None) -> CollectiveRecords | None:
    """The records of both; of the same kind those of the first."""
    if first is None or other is None:
        return first or other
    return CollectiveRecords(
        flight=first.flight or other.flight,
        inspector=first.inspector or other.inspector,
        ras=first.ras or other.ras,
    )
