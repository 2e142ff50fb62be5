"""NCCL's payloads of NVTX ranges: the communicator and the size of a message, where an export holds them.

They are there with ``nsys export --include-blobs=true``. A blob is a header, then the fields of its schema:
domain, flags, schema, flags (32 bits each), size of the payload and of all (64 bits each), little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tools.sources.nsys.pieces import Numbers, pieces
from tools.sources.nsys.rank_rows import RankRows
from tools.sources.sqlite_file import ABSENT, Database

ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
HEADER = struct.Struct("<IIIIQQ")
# The fields by the names that NCCL gives them (src/include/nvtx_payload_schemas.h), and how they are stored.
COMMUNICATOR, MESSAGE, MEMBERS = "NCCL communicator ID", "Message size [bytes]", "No. of ranks"
STORED = {COMMUNICATOR: struct.Struct("<Q"), MESSAGE: struct.Struct("<Q"), MEMBERS: struct.Struct("<I")}
MOST_FIELDS = 4096
LARGEST_OFFSET = 1 << 12
LARGEST_MESSAGE = 1 << 50
UNKNOWN = -1
PREFIX = "nccl"  # of its functions
BYTE = "byte"  # the payload holds no type
# Collectives whose message is what a rank sends; of others it is what a rank receives.
SENT = ("allreduce", "broadcast", "reduce", "allgather", "send", "recv")
RECEIVED = "reducescatter"


@dataclass(frozen=True)
class Message:
    """A call of NCCL by its payload; ``UNKNOWN`` where it holds no such field."""

    communicator: int
    size_bytes: int
    members: int


class Payloads:
    """Decodes blobs by the schemas of an export."""

    def __init__(self, offsets: Mapping[int, Mapping[str, int]]) -> None:
        self._offsets = offsets  # of the fields of each schema

    @classmethod
    def of(cls, database: Database) -> Payloads:
        """The schemas that an export holds."""
        offsets: dict[int, dict[str, int]] = {}
        for piece in pieces(database, ENTRIES, ["schemaId", "offset"], "name"):
            rows = zip(piece["schemaId"].tolist(), piece["offset"].tolist(), piece.texts, strict=True)
            for schema, offset, name in rows:
                offset = 0 if offset == ABSENT else offset
                if name in STORED and 0 <= offset <= LARGEST_OFFSET and len(offsets) < MOST_FIELDS:
                    offsets.setdefault(schema, {})[name] = offset
        return cls(offsets)

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def message(self, blob: object) -> Message | None:
        """The call that a blob describes; None where it is none of NCCL's, or cut."""
        if not isinstance(blob, bytes) or len(blob) < HEADER.size:
            return None
        offsets = self._offsets.get(HEADER.unpack_from(blob)[2])
        if offsets is None:
            return None
        found = {}
        for name, offset in offsets.items():
            stored, place = STORED[name], HEADER.size + offset
            if place + stored.size > len(blob):
                return None
            found[name] = int(stored.unpack_from(blob, place)[0])
        size = found.get(MESSAGE, UNKNOWN)
        return Message(
            communicator=found.get(COMMUNICATOR, UNKNOWN),
            size_bytes=size if size <= LARGEST_MESSAGE else UNKNOWN,
            members=found.get(MEMBERS, UNKNOWN),
        )


def elements(name: str, message: Message, members: int) -> tuple[int, int]:
    """What a rank puts in and gets out, in bytes; ``UNKNOWN`` where the payload does not show it."""
    kind = name.removeprefix(PREFIX).lower()
    if message.size_bytes == UNKNOWN:
        return UNKNOWN, UNKNOWN
    if kind == RECEIVED:
        return (message.size_bytes * members, message.size_bytes) if members > 0 else (UNKNOWN, UNKNOWN)
    if kind not in SENT:
        return UNKNOWN, UNKNOWN
    if kind == "allgather":
        return message.size_bytes, message.size_bytes * members if members > 0 else UNKNOWN
    return message.size_bytes, message.size_bytes


@dataclass
class Calls:
    """Calls of NCCL of one process, with the row of each; what made a communicator may come after its calls."""

    members: dict[int, int] = field(default_factory=dict)  # ranks of each communicator
    rows: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def take(self, payloads: Payloads, rows: Numbers, names: list[str], blobs: list[object]) -> None:
        """Note those of these ranges that have a payload of NCCL."""
        for row, name, blob in zip(rows.tolist(), names, blobs, strict=True):
            message = None if blob is None or row < 0 else payloads.message(blob)
            if message is None:
                continue
            if message.members > 0 and len(self.members) < MOST_FIELDS:
                self.members[message.communicator] = message.members
            if message.size_bytes != UNKNOWN:
                self.rows.append(row)
                self.names.append(name)
                self.messages.append(message)

    def close(self, rows: RankRows) -> None:
        """Add the messages as the parameters of their collectives."""
        members = [self.members.get(each.communicator, UNKNOWN) for each in self.messages]
        sizes = [elements(*each) for each in zip(self.names, self.messages, members, strict=True)]
        rows.add_details(
            "collectives",
            np.array(self.rows, dtype=np.int64),
            {
                "collective": [each.removeprefix(PREFIX) for each in self.names],
                "group": ["" if each.communicator == UNKNOWN else f"{each.communicator:#x}" for each in self.messages],
                "group_size": np.array(members, dtype=np.int64),
                "dtype": [BYTE] * len(self.rows),
                "in_elements": np.array([each for each, _ in sizes], dtype=np.int64),
                "out_elements": np.array([each for _, each in sizes], dtype=np.int64),
            },
        )
