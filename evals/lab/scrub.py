"""Make a recorded trace fit to be given away: no host, no path, the same bytes for the same trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

PRIVATE_KEYS = frozenset({"host_name", "traceName", "trace_id"})


def scrub_trace(recorded: Path, target: Path) -> None:
    """Write the Kineto trace ``recorded`` as gzip without what names the machine; every event is kept as it is."""
    trace: dict[str, Any] = json.loads(recorded.read_text(encoding="utf-8"))
    kept = {key: value for key, value in trace.items() if key not in PRIVATE_KEYS}
    text = json.dumps(kept, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
