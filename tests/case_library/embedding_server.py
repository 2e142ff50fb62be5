"""An embeddings endpoint on loopback that hashes words into a few directions and keeps what it was sent."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class EmbeddingServer:
    """What was sent; ``size`` is that of the vectors, and ``status`` other than 200 refuses."""

    url: str = ""
    size: int = 64
    status: int = 200
    broken: bool = False
    texts: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def vector(self, text: str) -> list[float]:
        """A direction per word."""
        found = [0.0] * self.size
        for word in text.lower().split():
            found[zlib.crc32(word.strip(".,;:()").encode()) % self.size] += 1.0
        return found


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """The server, running until the block ends."""
    state = EmbeddingServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append(body)
            state.keys.append(self.headers.get("Authorization", ""))
            state.texts.extend(body["input"])
            rows = [{"object": "embedding", "index": n, "embedding": state.vector(text)} for n, text in
                    enumerate(body["input"])]  # fmt: skip
            answer = {"object": "list", "model": body["model"], "data": [] if state.broken else rows[::-1]}
            content = json.dumps(answer).encode()
            self.send_response(state.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
