"""The declaration of rocprofv3's recordings in JSON (``rocprofv3 --output-format json``, rocprofiler-sdk)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.sources.decompress import Readable
from tools.sources.formats import Heard, TraceFormat
from tools.sources.options import LoadOptions

if TYPE_CHECKING:
    from tools.sources.trace_file import TraceFile

BEGIN = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')


def _recognises(start: bytes) -> bool:
    return BEGIN.match(start) is not None


def _read(path: Readable, digest: str, options: LoadOptions, heard: Heard | None) -> TraceFile:
    from tools.sources.rocprof.reader import read_rocprof

    return read_rocprof(path, digest, options, heard)


ROCPROF = TraceFormat("rocprof", re.compile(r".+_results\.json\Z"), _recognises, _read)
