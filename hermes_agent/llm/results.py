"""Tool results in full, behind handles that are short enough for a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_agent.llm.sanitize import clean
from hermes_agent.llm.tool import FunctionTool, Output, ToolOutput
from tools.errors import UsageError

MAX_STORED_CHARS = 4_000_000  # of one result
MAX_TOTAL_CHARS = 64_000_000  # of all of them; the oldest go first
PAGE_LINES = 60
MAX_PAGE_LINES = 200
READ_RESULT = "read_result"


@dataclass(frozen=True)
class StoredResult:
    """One tool result as it came; ``cut`` when its text was too long even for the store."""

    handle: str
    tool: str
    arguments: Mapping[str, object]
    text: str
    data: object
    cut: bool = False


class ResultStore:
    """The results of one conversation, by handle (``R1``, ``R2`` ...)."""

    def __init__(self) -> None:
        self._results: dict[str, StoredResult] = {}
        self._count = 0
        self._chars = 0

    def put(self, tool: str, arguments: Mapping[str, object], output: ToolOutput) -> StoredResult:
        """Keep a result and give it a handle."""
        self._count += 1
        text = clean(output.text[:MAX_STORED_CHARS])
        cut = len(output.text) > MAX_STORED_CHARS
        stored = StoredResult(f"R{self._count}", tool, dict(arguments), text, output.data, cut)
        self._results[stored.handle] = stored
        self._chars += len(text)
        while self._chars > MAX_TOTAL_CHARS and len(self._results) > 1:
            oldest = self._results.pop(next(iter(self._results)))
            self._chars -= len(oldest.text)
        return stored

    def get(self, handle: str) -> StoredResult:
        """The result behind a handle; raises UsageError naming the handles there are."""
        if handle not in self._results:
            raise UsageError(f"There is no result {handle!r}; there are: {', '.join(self._results) or 'none yet'}.")
        return self._results[handle]

    def all(self) -> dict[str, StoredResult]:
        """Every result that is still kept, oldest first."""
        return dict(self._results)

    def reader(self) -> FunctionTool:
        """The tool with which the model reads on in a result that it was shown the start of."""
        return FunctionTool(
            READ_RESULT,
            "Reads on in an earlier tool result by handle: lines from `offset`, all or those with `contains` in them.",
            _READER_SCHEMA,
            self._read,
        )

    def _read(self, arguments: dict[str, object]) -> Output:
        handle, contains = str(arguments["handle"]), str(arguments.get("contains", ""))
        offset, limit = _whole(arguments.get("offset", 0)), _whole(arguments.get("limit", PAGE_LINES))
        stored = self.get(handle)
        lines = [line for line in stored.text.splitlines() if contains.lower() in line.lower()]
        page = lines[offset : offset + limit]
        if not page:
            return Output(f"{handle} has {len(lines)} such lines; none from line {offset} on.", [])
        head = f"{handle}, lines {offset} to {offset + len(page) - 1} of {len(lines)}:"
        return Output("\n".join([head, *page]), page)


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


_READER_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "for example R3"},
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_LINES},
        "contains": {"type": "string", "description": "keep only lines with this text"},
    },
    "required": ["handle"],
    "additionalProperties": False,
}
