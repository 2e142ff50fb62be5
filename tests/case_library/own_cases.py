"""Made-up cases for tests: small, valid, and no case of the library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

DRAFT: Mapping[str, object] = {
    "title": "Nightly backup halves the speed of ranks on rack seven",
    "symptom": "Step of 310 ms grows to 640 ms between 02:00 and 03:00 on eight of 64 ranks.",
    "signals": ["host operators slow on one rack only", "run queue longer than the cores at night"],
    "signals_origin": "observed",
    "family": "cpu",
    "cause": "cpu_contention",
    "mechanism": "foreign_process",
    "setting": {"framework": "pytorch 2.6", "hardware": "8x H100", "scale": "64 GPUs", "model": "8B transformer"},
    "diagnosis": "Host metrics showed a compressing backup process on the slow nodes.",
    "optimization": "Backup moved to nodes that do not train.",
    "effect": "Step stays at 310 ms through the night.",
    "confidence": "high",
}


def draft(**changes: object) -> dict[str, object]:
    """The draft with some fields changed; a field set to None is left out."""
    fields = {**DRAFT, **changes}
    return {name: value for name, value in fields.items() if value is not None}


def public_fields(name: str, **changes: object) -> dict[str, object]:
    """A public case of that id, with a thread of its own as source."""
    url = f"https://github.com/example/{name}/issues/1"
    return {"id": name, "source": {"kind": "issue", "url": url, "year": 2024}, **draft(**changes)}


def put(folder: Path, fields: Mapping[str, object], name: str = "") -> Path:
    """Writes a case file named after its id."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name or fields['id']}.yaml"
    path.write_text(yaml.safe_dump(dict(fields), sort_keys=False), encoding="utf-8")
    return path
