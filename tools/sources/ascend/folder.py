"""What an Ascend profiler folder says of the rank, its settings and the job, next to the tables of events.

``<name>_ascend_pt/`` (of MindSpore ``_ascend_ms/``) holds ``profiler_info_<rank>.json``, ``profiler_metadata.json`` and
the folder ``ASCEND_PROFILER_OUTPUT``. The first have no other mark than their names; their content is checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.documents import parse_json
from tools.sources.decompress import beginning
from tools.sources.plain_files import leads_out
from tools.sources.trace_file import TraceMetadata

OUTPUT = "ASCEND_PROFILER_OUTPUT"
INFO = re.compile(r"profiler_info(?:_-?\d+)?\.json\Z")
METADATA = "profiler_metadata.json"
MOST_BYTES = 1 << 20
MOST_FILES = 256  # entries of the folder that are looked at
SHORT_TEXT, MOST_VALUES = 200, 64
SWITCHES = ("record_shapes", "profile_memory", "with_stack", "with_modules")
LEVEL, METRICS = "profiler_level", "aic_metrics"
VERSIONS = ("torch_npu_version", "cann_version")


def folder_of(path: Path) -> Path:
    """The folder that describes the rank of a file of its output."""
    return path.parent.parent if path.parent.name == OUTPUT else path.parent


def read_folder(path: Path) -> TraceMetadata:
    """The rank and its settings from the files around one file of the output; what is not there stays unknown."""
    folder = folder_of(path)
    info, job = _info(folder), _object(folder / METADATA, folder)
    layout = _member(job, "distributed_args")
    rank = _count(info.get("rank_id"))
    groups = [each for each in _member(job, "parallel_group_info").values() if isinstance(each, dict)]
    return TraceMetadata(
        rank=_count(layout.get("rank")) if rank is None else rank,
        world_size=_count(layout.get("world_size")),
        backend="hccl",
        groups=tuple(_group(each) for each in groups[:MOST_VALUES]),
        plain=_settings(info) | variables_of(_member(job, "ENV_VARIABLES")),
    )


def variables_of(recorded: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables that are set."""
    given = {str(key)[:SHORT_TEXT]: str(value)[:SHORT_TEXT] for key, value in recorded.items() if value}
    return dict(list(given.items())[:MOST_VALUES])


def _settings(info: Mapping[str, Any]) -> dict[str, str]:
    config = _member(info, "config")
    common, own = _member(config, "common_config"), _member(config, "experimental_config")
    named = {LEVEL: own.get("_profiler_level"), METRICS: own.get("_aic_metrics")}
    named |= {key: str(int(common[key])) for key in SWITCHES if isinstance(common.get(key), bool)}
    named |= {key: info.get(key) for key in VERSIONS}
    return {key: value[:SHORT_TEXT] for key, value in named.items() if isinstance(value, str)}


def _group(said: Mapping[str, Any]) -> dict[str, Any]:
    name, ranks = str(said.get("group_name", ""))[:SHORT_TEXT], said.get("global_ranks")
    listed = ranks if isinstance(ranks, list) else []
    # Different ranks are in different groups of one name.
    number = "_".join(str(each) for each in listed[:8])
    return {"pg_name": f"{name}:{number}", "pg_desc": name, "ranks": listed, "pg_size": len(listed)}


def _info(folder: Path) -> dict[str, Any]:
    try:
        names = sorted(entry.name for _, entry in zip(range(MOST_FILES), folder.iterdir(), strict=False))
    except OSError:
        return {}
    found = (_object(folder / name, folder) for name in names if INFO.match(name))
    return next((each for each in found if "config" in each or "rank_id" in each), {})


def _object(path: Path, folder: Path) -> dict[str, Any]:
    """The members of a small JSON object, none where it cannot be read or is none."""
    try:
        if leads_out(path, folder):
            return {}
        content = beginning(path, MOST_BYTES)
        value = {} if content.more else parse_json(bytes(content.data).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _member(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    own = value.get(name)
    return own if isinstance(own, dict) else {}


def _count(value: object) -> int | None:
    """A rank or a size; the profiler writes -1 where there is one process, and newer versions texts."""
    text = str(value)
    return int(text) if re.fullmatch(r"\d{1,7}", text) else None
