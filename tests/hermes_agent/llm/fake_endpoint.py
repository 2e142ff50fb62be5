"""An OpenAI-compatible server on loopback that answers as scripted and keeps what it was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; ``chunks`` become server-sent events, ``hold`` stops before the chunk of that number."""

    status: int = 200
    chunks: Sequence[Body | str] = ()
    document: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    done: bool = True  # send the closing event
    cut: bool = False  # promise more bytes than are sent
    hold: int | None = None


@dataclass
class FakeEndpoint:
    """What the server was sent, and where it is."""

    url: str
    bodies: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)


def text_chunk(text: str, **extra: object) -> Body:
    """A piece of an answer."""
    return {"choices": [{"index": 0, "delta": {"content": text, **extra}, "finish_reason": None}]}


def end_chunk(reason: str = "stop") -> Body:
    """The piece that says why the model stopped."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def usage_chunk(prompt: int, completion: int) -> Body:
    """The token counts, which come in a chunk without choices."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def call_chunk(index: int | None, arguments: object, identity: str | None = None, name: str | None = None) -> Body:
    """A piece of a tool call."""
    part: Body = {"function": {"arguments": arguments} | ({"name": name} if name else {})}
    if index is not None:
        part["index"] = index
    if identity:
        part["id"] = identity
    return {"choices": [{"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}]}


def said(text: str, prompt: int = 11, completion: int = 3) -> Answer:
    """A whole ordinary answer."""
    return Answer(chunks=[text_chunk(text), end_chunk(), usage_chunk(prompt, completion)])


def refused(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """An error as OpenAI words it."""
    document = json.dumps({"error": {"message": message, "type": "error", "code": code}})
    return Answer(status, document=document, content_type="application/json", headers=headers)


@contextmanager
def serving(*answers: Answer | Callable[[Body], Answer]) -> Iterator[FakeEndpoint]:
    """A server that gives the answers in order, the last one again and again; functions see the request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    endpoint = FakeEndpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
    server.plan = (endpoint, answers)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def dripping(piece: bytes, every_s: float) -> Iterator[bytes]:
    """The piece again and again, without end."""
    while True:
        time.sleep(every_s)
        yield piece


def _read_request(connection: socket.socket) -> None:
    """Read all of a request: a connection that is closed with a part of it unread is reset, and the answer is lost."""
    size = 0
    with connection.makefile("rb") as asked:
        while (line := asked.readline()).strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        asked.read(size)


@contextmanager
def raw_server(headers: bytes, pieces: Iterable[bytes]) -> Iterator[str]:
    """The address of a server that answers every request with these pieces until the client goes away."""
    done = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not done.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(30)
                    _read_request(connection)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + headers + b"\r\n")
                    for piece in pieces:
                        connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        done.set()
        thread.join(30)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        endpoint, answers = self.server.plan  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        endpoint.bodies.append(body)
        endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
        endpoint.paths.append(self.path)
        chosen = answers[min(len(endpoint.bodies), len(answers)) - 1]
        self._send(chosen(body) if callable(chosen) else chosen, endpoint)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""

    def _send(self, answer: Answer, endpoint: FakeEndpoint) -> None:
        pieces = [f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in answer.chunks]
        if answer.document is not None:
            pieces = [answer.document]
        elif answer.done:
            pieces.append("data: [DONE]\n\n")
        size = sum(len(piece.encode()) for piece in pieces) + (100 if answer.cut else 0)
        if answer.hold == -1:
            endpoint.release.wait(30)
        try:
            self.send_response(answer.status)
            for name, value in {"content-type": answer.content_type, **answer.headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(size))
            self.end_headers()
            for number, piece in enumerate(pieces):
                if number == answer.hold:
                    endpoint.release.wait(30)
                self.wfile.write(piece.encode())
                self.wfile.flush()
        except OSError:
            return  # the client went away, as some tests want
        self.close_connection = True
