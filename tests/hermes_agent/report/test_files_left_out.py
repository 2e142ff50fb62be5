"""A file that could not be used is named next to the verdict."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.report.opening import opening
from tools.judgement.ranking import ranking
from tools.run.model import Source
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
    (text,) = [text for text in texts(run) if "could not be used" in text]
    assert text.startswith("{n0} could not be used: ")
    assert text.endswith("; the answer does not cover it.")


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("left out: they are of other ranks (0-1) than the traces (2-3)", ": they are of other ranks (0-1) than the"),
        ("{0} [E7] is `slow`", "; the answer"),
        ("a line\nand another", "; the answer"),
    ],
)
def test_a_reason_that_could_be_more_than_words_is_left_to_the_notes(note: str, shown: str) -> None:
    profile = Profile(load_run([demo_run()]))
    source = Source(demo_run() / "monitor", "monitor", (), "excluded", note)
    run = replace(profile.run, sources=(*profile.run.sources, source))
    (said,) = [each for each in opening(Profile(run), ranking(profile)) if "could not be used" in each.template]
    assert said.template.startswith(f"{{n0}} could not be used{shown}")
    assert said.names == ("monitor",)


def test_of_several_files_the_first_is_named_with_its_reason_and_the_others_are_counted() -> None:
    profile = Profile(load_run([demo_run()]))
    left_out = [
        Source(demo_run() / name, "kineto", (), "excluded", "is no profiler trace: it has no traceEvents")
        for name in ("a.json", "b.json", "c.json")
    ]
    run = replace(profile.run, sources=(*profile.run.sources, *left_out))
    (said,) = [each for each in opening(Profile(run), ranking(profile)) if "could not be used" in each.template]
    assert said.template == (
        "{n0} and 2 more could not be used; the first: it is no profiler trace: it has no traceEvents; "
        "the answer does not cover them."
    )
