"""A run at an HTTP address: servers that send the reader elsewhere, and servers that compress."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hermes_agent.locations import fetch
from tests.tools.sources.kineto_text import span, trace_text
from tools.errors import InputError

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

TRACE = trace_text([span("ProfilerStep#1", 0, 50), span("op", 10, 20)]).encode()
NAME = "rank0.pt.trace.json"


@dataclass
class Web:
    """A server on loopback: content by path, or a status with the address it refers to."""

    pages: dict[str, bytes] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def web(**content: object) -> Iterator[Web]:
    state = Web(**content)  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            page = state.pages.get(self.path)
            if (target := state.away.get(self.path)) is not None:
                self.send_response(302)
                self.send_header("Location", target)
                page = b""
            else:
                self.send_response(200 if page is not None else 404)
            for name, value in state.headers.items():
                self.send_header(name, value)
            if self.path.endswith("/") or "." not in self.path:
                self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(page or b"")

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def test_a_redirect_to_another_host_is_not_followed_and_named(tmp_path: Path) -> None:
    with web(pages={f"/{NAME}": TRACE}) as other, web(away={f"/{NAME}": f"{other.url}/{NAME}?signature=s"}) as first:
        with pytest.raises(InputError, match=rf"refers to {other.url}/{NAME}, another scheme or host"):
            fetch.fetched(f"{first.url}/{NAME}", tmp_path)
        assert other.asked == []


def test_a_redirect_to_another_scheme_is_not_followed(tmp_path: Path) -> None:
    with web() as first:
        first.away[f"/{NAME}"] = f"{first.url.replace('http:', 'https:')}/{NAME}"
        with pytest.raises(InputError, match=r"refers to https://127\.0\.0\.1"):
            fetch.fetched(f"{first.url}/{NAME}", tmp_path)


def test_a_file_of_a_folder_that_lies_elsewhere_is_not_followed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(web(pages={f"/{NAME}": TRACE}))
        first = stack.enter_context(web(pages={"/run/": f'<a href="{NAME}">trace</a>'.encode()}))
        first.pages["/run"] = first.pages["/run/"]
        first.away[f"/run/{NAME}"] = f"{other.url}/{NAME}"
        with pytest.raises(InputError, match=f"refers to {other.url}"):
            fetch.fetched(f"{first.url}/run/", tmp_path)
        assert other.asked == []
        assert list(tmp_path.rglob("*.json")) == []


def test_a_redirect_on_the_same_host_is_followed(tmp_path: Path) -> None:
    with web(pages={f"/new/{NAME}": TRACE}, away={f"/{NAME}": f"/new/{NAME}"}) as first:
        copy = fetch.fetched(f"{first.url}/{NAME}", tmp_path)
    assert (copy / NAME).read_bytes() == TRACE


def test_what_a_server_compressed_is_copied_as_it_was_sent(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(50 << 20))
    with web(pages={f"/{NAME}": packed}, headers={"Content-Encoding": "gzip"}) as first:
        copy = fetch.fetched(f"{first.url}/{NAME}", tmp_path)
    assert (copy / NAME).read_bytes() == packed
