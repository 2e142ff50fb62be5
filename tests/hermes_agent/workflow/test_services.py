"""Services that LangGraph and Chroma could call: none is called, and none is needed, whatever the environment says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run

DIAGNOSE = """
import sys
from pathlib import Path
from hermes_agent.model.request import Request
from hermes_agent.workflow import execution
from hermes_agent.workflow.diagnose import diagnose
if "another version" in sys.argv:
    execution.UNTRACED = {}  # as if LangGraph called functions that the stand-ins do not have
cache = Path(sys.argv[2]) if sys.argv[2] else None
result = diagnose(Request((Path(sys.argv[1]),), cache_dir=cache), lambda _: None)
assert result.causes[0].cause == "slow_data_processing", result.causes
assert result.cases, result.notes
print(*sys.modules)
"""


def modules_of(home: Path, cache: Path | None, *words: str, **environment: str) -> list[str]:
    """The modules that a process with this environment has imported after a diagnosis of the demo run.

    Without a cache it builds the case index, with that of another process it only opens it.
    """
    own = {"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-c", DIAGNOSE, str(demo_run()), str(cache or ""), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home, env=os.environ | own)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "environment",
    [
        {"LANGSMITH_TRACING": "true", "LANGSMITH_TRACING_V2": "true", "LANGSMITH_OTEL_ENABLED": "true"},
        {"LANGCHAIN_TRACING": "true", "LANGCHAIN_HANDLER": "langchain"},
        {"CHROMA_OTEL_GRANULARITY": "all", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
    ],
    ids=["langsmith", "langchain", "telemetry"],
)
def test_variables_of_services_change_nothing(environment: dict[str, str], tmp_path: Path, index_only: Path) -> None:
    cache = None if any(name.startswith("CHROMA") for name in environment) else index_only
    assert "langsmith" not in modules_of(tmp_path, cache, **environment)


def test_where_a_stand_in_does_not_suffice_the_client_is_imported(tmp_path: Path, index_only: Path) -> None:
    found = modules_of(tmp_path, index_only, "another version", LANGSMITH_TRACING_V2="true")
    assert "langsmith.run_helpers" in found
