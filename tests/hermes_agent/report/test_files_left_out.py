"""A file that could not be used is named next to the verdict."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from hermes_agent.demo.data import demo_run
from hermes_agent.report.opening import opening
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile


def texts(folder: Path) -> list[str]:
    profile = Profile(load_run([folder]))
    return [sentence.template for sentence in opening(profile, ranking(profile)) if not sentence.facts]


def test_an_unreadable_trace_is_named_in_the_first_sentences(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(demo_run(), run)
    assert not any("could not be used" in text for text in texts(run))
    trace = run / "rank0.pt.trace.json.gz"
    trace.write_bytes(gzip.compress(gzip.decompress(trace.read_bytes())[:30]))
    assert any("{n0} could not be used" in text for text in texts(run))
