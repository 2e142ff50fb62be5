"""The declaration of XProf's recordings (``<host>.xplane.pb``), which JAX and TensorFlow write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.sources.decompress import Readable
from tools.sources.formats import Heard, TraceFormat
from tools.sources.options import LoadOptions

if TYPE_CHECKING:
    from tools.sources.trace_file import TraceFile

# A message with a first field that is a message (a plane), in which an id may stand before the plane's name.
BEGIN = re.compile(
    rb"\n[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x01-\x7f](?:/|Task Env|#Chip)"
)


def _recognises(start: bytes) -> bool:
    return BEGIN.match(start) is not None


def _read(path: Readable, digest: str, options: LoadOptions, heard: Heard | None) -> TraceFile:
    from tools.sources.jax.reader import read_xplane

    return read_xplane(path, digest, options, heard)


XPLANE = TraceFormat("xplane", re.compile(r".+\.xplane\.pb\Z"), _recognises, _read)
