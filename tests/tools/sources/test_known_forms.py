"""Texts of a known form that no reader takes are named with what to record instead, pasted and in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.locations.paste import pasted
from tools.errors import InputError
from tools.sources.unread import looks_like

TEXTS = {
    "MLPerf": ':::MLLOG {"namespace": "", "time_ms": 1710400100500, "key": "run_start"}',
    "Nsight Compute": "  sgemm (32, 8, 1)x(128, 1, 1), Context 1\n    Section: GPU Speed Of Light Throughput\n",
    "lscpu": "Architecture:            x86_64\n  CPU op-mode(s):        32-bit, 64-bit\nCPU(s):                  64\n",
    "numactl": "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\n",
    "ulimit": "core file size          (blocks, -c) 0\nopen files                      (-n) 1024\n",
    "whole job": "  CPU utilization  [||||        12%]\n  GPU utilization  [||||||      33%]\n",
    "htop": "  1  [||||||||||||||||||98.7%]   5  [|||    12.0%]\n",
    "pidstat": "10:15:01 AM   UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n",
    "without its head": "    Clocks\n        Graphics                          : 2025 MHz\n",
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_paste_of_a_known_form_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"it looks like .*{name}.*; .*paste lines with step times"):
        pasted(TEXTS[name].encode(), tmp_path)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_file_of_a_known_form_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "host.txt"
    path.write_text(TEXTS[name])
    assert name in looks_like(path)


def test_other_text_is_of_no_known_form(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("the clocks of the max section are available in 2 nodes\n")
    assert looks_like(path) == ""
