"""Runs that cannot be diagnosed are refused with what to record instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.model.events import Event
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import kernel, span, write_trace
from tools.errors import InputError


def ignore(_: Event) -> None: ...


def test_a_run_of_device_work_alone_is_refused(tmp_path: Path, index_only: Path) -> None:
    trace = write_trace(tmp_path / "rank0.json", [kernel("k", 1000 * n, 800, n) for n in range(1, 20)])

    with pytest.raises(InputError, match=r"no host thread .*ProfilerActivity\.CPU"):
        diagnose(Request(paths=(trace,), workers=1, cache_dir=index_only), ignore)


def test_a_run_in_which_no_time_passes_is_refused(tmp_path: Path, index_only: Path) -> None:
    trace = write_trace(tmp_path / "rank0.json", [span("op", 5, 0), span("op", 5, 0)])

    with pytest.raises(InputError, match="no time passes in its steps"):
        diagnose(Request(paths=(trace,), workers=1, cache_dir=index_only), ignore)
