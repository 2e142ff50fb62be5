"""The declaration of Kineto traces, also called Chrome or PyTorch profiler traces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.sources.decompress import GZIP_MAGIC, Readable
from tools.sources.formats import Heard, TraceFormat
from tools.sources.options import LoadOptions

if TYPE_CHECKING:
    from tools.sources.trace_file import TraceFile


def _recognises(start: bytes) -> bool:
    return start.startswith(GZIP_MAGIC) or start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _read(path: Readable, digest: str, options: LoadOptions, heard: Heard | None) -> TraceFile:
    from tools.sources.kineto.reader import read_trace

    return read_trace(path, digest, options, heard)


KINETO = TraceFormat("kineto", re.compile(r".+\.json\Z"), _recognises, _read)
