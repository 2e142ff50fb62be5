"""Traces behind a URL are summarised from the stream: nothing is copied, nothing is followed elsewhere."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from hermes_agent.locations.stream import RemoteFolder, RemoteTrace, traces_at
from tests.hermes_agent.locations.test_http_guard import NAME, TRACE, web
from tests.tools.summaries.test_reduce import HERE
from tools.errors import InputError
from tools.run.packing import DamagedError
from tools.sources.options import LoadOptions, Silent
from tools.summaries.folder import LocalFolder, SummaryFolder
from tools.summaries.reduce import Reduced, TraceSource, read_summary, reduce_traces

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")
PACKED = gzip.compress(TRACE)


def reduced(traces: Sequence[TraceSource], folder: SummaryFolder) -> Reduced:
    """What becomes of these traces."""
    return reduce_traces(traces, folder, HERE, LoadOptions(), Silent())


def test_a_streamed_trace_has_the_summary_of_the_file(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.gz").write_bytes(PACKED)
    local, remote = LocalFolder(tmp_path / "local"), LocalFolder(tmp_path / "remote")
    expected = read_summary(local, reduced([tmp_path / f"{NAME}.gz"], local).summaries[0])
    with web(pages={f"/{NAME}.gz": PACKED}, headers={"ETag": '"1"'}) as site:
        (trace,) = traces_at(f"{site.url}/{NAME}.gz")
        result = reduced([pickle.loads(pickle.dumps(trace))], remote)
        assert result.summaries[0].made
        assert not reduced([trace], remote).summaries[0].made
        site.headers = {"ETag": '"2"'}
        assert reduced([trace], remote).summaries[0].made
    assert {path.name for path in tmp_path.iterdir()} == {f"{NAME}.gz", "local", "remote"}
    streamed = read_summary(remote, result.summaries[0])
    assert streamed.facts.trace == expected.facts.trace
    pd.testing.assert_frame_equal(streamed.steps, expected.steps)


def test_without_a_sign_of_its_content_a_trace_is_read_again(tmp_path: Path) -> None:
    with web(pages={f"/{NAME}": TRACE}) as site:
        traces = traces_at(f"{site.url}/{NAME}")
        assert [reduced(traces, LocalFolder(tmp_path)).summaries[0].made for _ in range(2)] == [True, True]


def test_a_redirect_to_another_host_is_not_followed_while_streaming(tmp_path: Path) -> None:
    with web(pages={f"/{NAME}": TRACE}) as other, web(pages={f"/{NAME}": TRACE}) as first:
        (trace,) = traces_at(f"{first.url}/{NAME}")
        first.away[f"/{NAME}"] = f"{other.url}/{NAME}"
        (failure,) = reduced([trace], LocalFolder(tmp_path)).failures
        with pytest.raises(PermissionError, match=f"refers to {other.url}/{NAME}, another scheme or host"):
            trace.open("rb")
        assert other.asked == []
    assert f"refers to {other.url}/{NAME}, another scheme or host" in failure.reason


def test_a_cut_connection_and_a_trace_that_is_gone_are_listed(tmp_path: Path) -> None:
    with web(pages={f"/{NAME}": TRACE}, headers={"ETag": '"1"'}) as site:
        traces = traces_at(f"{site.url}/{NAME}")
        del site.pages[f"/{NAME}"]
        (gone,) = reduced(traces, LocalFolder(tmp_path)).failures
        assert gone.reason.startswith(f"{site.url}/{NAME}: ")


def test_credentials_of_the_url_are_not_shown() -> None:
    trace = RemoteTrace("https://user:secret@host/run?token=t", "https://user:secret@host/run/r0.json", Path("r0.json"))
    assert str(trace) == "https://...@host/run/r0.json" or "secret" not in str(trace)
    assert "secret" not in f"{trace}{trace!r}{RemoteFolder('s3://key:secret@bucket/x')!r}"
    assert "token" not in str(trace)


def test_a_folder_at_a_url_holds_whole_files_only(tmp_path: Path) -> None:
    folder = RemoteFolder(f"file://{tmp_path}/made")
    assert folder.read("a.summary") is None
    folder.write("a.summary", b"data")
    assert folder.read("a.summary") == b"data"
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["a.summary"]


def test_a_folder_that_takes_nothing_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="takes no file"):
        RemoteFolder(f"file://{tmp_path}/file/below").write("a.summary", b"data")
    (tmp_path / "a.summary").mkdir()
    with pytest.raises(DamagedError):
        RemoteFolder(f"file://{tmp_path}").read("a.summary")
