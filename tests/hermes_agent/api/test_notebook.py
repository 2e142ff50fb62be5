"""The notebook of the documentation, executed; ``python -m`` of this module stores what its cells show."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[3] / "docs" / "diagnose.ipynb"
LIMIT_S = 300


def executed(environment: Mapping[str, str]) -> Any:  # noqa: ANN401 - a notebook node of nbformat, which has no types
    """The notebook with what its cells show now, run by this Python."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3", record_timing=False)
    client.execute(env={**os.environ, **environment})
    return notebook


def shown(notebook: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - as above
    """Kind and text of every output."""
    found: list[tuple[str, str]] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            kinds = {output["output_type"]: output.get("text", "")} | output.get("data", {})
            found += [
                (kind, "".join(text)) for kind, text in sorted(kinds.items()) if kind.startswith(("text/", "stream"))
            ]
    return found


def test_the_notebook_shows_what_is_stored_in_it(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.chdir(tmp_path)
    environment = {
        "HERMES_DX_CACHE_DIR": str(own_cache),
        "XDG_CONFIG_HOME": str(tmp_path),
        "IPYTHONDIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    now, stored = shown(executed(environment)), shown(nbformat.read(NOTEBOOK, as_version=4))
    assert now == stored
    assert len(now) > 10
    assert ("stream", "52.0 ms, 2.07 times faster\n80 % range 41.8 to 65.1 ms\n") in now


def store() -> None:
    """Write what the cells show now, each figure with the id that it has in an empty cache."""
    nbformat = pytest.importorskip("nbformat")
    with TemporaryDirectory() as folder:
        made = executed({"HERMES_DX_CACHE_DIR": folder})
    for cell in made.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(made, NOTEBOOK)


if __name__ == "__main__":
    store()
