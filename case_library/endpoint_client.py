"""A client of one OpenAI-compatible endpoint that goes nowhere else and reads answers up to a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tools.errors import HermesError

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import OpenAI

CONNECT_TIMEOUT_S = 10.0
MAX_STREAM_BYTES = 64 * 1024 * 1024  # of one streamed answer
MAX_BODY_BYTES = 16 * 1024 * 1024  # of any other, which is parsed at once: errors, and the vectors of a batch of texts
MAX_LINE_BYTES = 4 * 1024 * 1024  # of one event of a stream: the longest answer that is taken comes in one
NO_KEY = "none"  # the client insists on one; servers without keys ignore it


def endpoint_client(
    base_url: str,
    key: str | None,
    *,
    timeout_s: float,
    retries: int,
    proxies: bool,
    fault: type[HermesError],
) -> OpenAI:
    """Return a client whose calls raise ``fault``, inside of an APIConnectionError, for an answer beyond a bound.

    Redirects are not followed, compressed answers are refused unread, and nothing that the environment holds for
    OpenAI is sent. ``proxies``: those that the environment names are used.
    """
    import openai

    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        trust_env=proxies,
        headers={"accept-encoding": "identity"},  # a small compressed body can fill the memory
        event_hooks={"response": [lambda response: _bound(response, base_url, fault)]},
    )
    client = openai.OpenAI(
        base_url=base_url,
        api_key=key or NO_KEY,
        timeout=openai.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        max_retries=retries,
        http_client=http,
    )
    # Read from the environment by the client, whoever the endpoint belongs to.
    client.organization = client.project = client.admin_api_key = None
    return client


def _bound(response: Response, where: str, fault: type[HermesError]) -> None:
    """Refuse a compressed body, and stop reading one that does not end."""
    read = response.iter_bytes
    if response.headers.get("content-encoding", "identity") != "identity":
        raise fault(f"{where} compressed its answer, which it was asked not to do; choose another endpoint.")
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    most = MAX_STREAM_BYTES if is_stream else MAX_BODY_BYTES

    def bounded(chunk_size: int | None = None) -> Iterator[bytes]:
        size = line = 0
        for part in read(chunk_size):
            size += len(part)
            if size > most:
                raise fault(f"The answer of {where} is larger than {most:,} bytes; ask again.")
            end = max(part.rfind(b"\n"), part.rfind(b"\r"))
            line = line + len(part) if end < 0 else len(part) - end - 1
            if is_stream and line > MAX_LINE_BYTES:
                raise fault(f"A line of the answer of {where} is longer than {MAX_LINE_BYTES:,} bytes; ask again.")
            yield part

    response.iter_bytes = bounded  # type: ignore[method-assign]
