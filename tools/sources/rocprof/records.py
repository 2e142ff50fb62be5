"""The parts of rocprofv3's JSON that are read, as rocprofiler-sdk's documentation names them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

# A table holds 64 bits; a damaged number is beyond.
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class Handle(msgspec.Struct):
    """An agent, a queue or a stream by its number."""

    handle: Whole


class Correlation(msgspec.Struct):
    """What joins a call with the work that it asks for."""

    internal: Whole = -1


class Size(msgspec.Struct):
    """A grid or a group of work items."""

    x: Whole = 0
    y: Whole = 0
    z: Whole = 0

    @property
    def product(self) -> int:
        """All work items; -1 where a side is not known."""
        items = self.x * self.y * self.z
        return items if 0 < items < 2**62 else -1


class Record(msgspec.Struct):
    """What all records hold."""

    start_timestamp: Whole
    end_timestamp: Whole
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Call(Record):
    """A call of HIP or RCCL, or a range that the program marks."""

    kind: Whole = -1
    operation: Whole = -1
    thread_id: Whole = 0


class DispatchInfo(msgspec.Struct):
    """Where a kernel ran and with which sizes."""

    agent_id: Handle
    kernel_id: Whole
    queue_id: Handle | None = None
    workgroup_size: Size = msgspec.field(default_factory=Size)
    grid_size: Size = msgspec.field(default_factory=Size)  # in work items, not in groups
    group_segment_size: Whole = 0


class Dispatch(Record, kw_only=True):
    """A kernel that ran."""

    dispatch_info: DispatchInfo
    stream_id: Handle | None = None


class Copy(Record):
    """A copy; the sizes are in bytes."""

    kind: Whole = -1
    operation: Whole = -1
    src_agent_id: Handle | None = None
    dst_agent_id: Handle | None = None
    bytes: Whole = -1
    stream_id: Handle | None = None


class BufferRecords(msgspec.Struct):
    """All recorded events by what they are of."""

    kernel_dispatch: list[Dispatch] = []
    memory_copy: list[Copy] = []
    hip_api: list[Call] = []
    rccl_api: list[Call] = []
    marker_api: list[Call] = []


class Operations(msgspec.Struct):
    """The names of a kind's operations, by their number."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct):
    """The text of a marked range, by the number of its correlation."""

    key: Whole
    value: Any = None


class Strings(msgspec.Struct):
    """The names that records refer to."""

    buffer_records: list[Operations] = []
    marker_api: list[Message] = []

    def operation(self, kind: int, number: int) -> str:
        """The name of an operation; a stand-in where the file does not name it."""
        known = self.buffer_records[kind].operations if 0 <= kind < len(self.buffer_records) else []
        return known[number] if 0 <= number < len(known) else f"operation {number}"


class Agent(msgspec.Struct):
    """A processor or a device."""

    id: Handle
    type: Whole = 0
    product_name: str = ""
    name: str = ""
    cu_count: Whole = 0
    logical_node_type_id: Whole = -1


class Symbol(msgspec.Struct):
    """The name of a kernel."""

    kernel_id: Whole
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class Node(msgspec.Struct):
    """The machine."""

    hostname: str = ""


class Metadata(msgspec.Struct):
    """Of the recording as a whole."""

    pid: Whole = 0
    node: Node = msgspec.field(default_factory=Node)


class Process(msgspec.Struct):
    """The recording of one process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: BufferRecords = msgspec.field(default_factory=BufferRecords)


class Recording(msgspec.Struct):
    """The whole file."""

    processes: list[Process] = msgspec.field(name="rocprofiler-sdk-tool")
