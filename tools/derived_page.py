"""Pages of the documentation that are written from the declarations they describe."""

from __future__ import annotations

from pathlib import Path


def keep(path: Path, text: str, arguments: list[str]) -> int:
    """Write the page with ``--write``, else say by the exit code whether the stored one is up to date."""
    if "--write" in arguments:
        path.write_text(text, encoding="utf-8")
        return 0
    return int(not path.is_file() or path.read_text(encoding="utf-8") != text)
