"""Traces in the cache and between processes: a packed table with the facts of its trace."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from tools.run.cache import READER_VERSION, RunCache
from tools.run.packing import pack, read_header, unpack
from tools.sources.kineto import TraceFacts, TraceFile
from tools.sources.options import Limits, LoadOptions


def cache_of(options: LoadOptions) -> RunCache | None:
    """The cache that the options ask for."""
    if options.cache_dir is None:
        return None
    return RunCache(options.cache_dir, options.limits.cache_bytes)


def cache_key(digest: str, limits: Limits) -> str:
    """Names a file's content as read under the given limits."""
    return hashlib.blake2b(f"{digest} {limits!r}".encode(), digest_size=20).hexdigest()


def recall(cache: RunCache, path: Path, digest: str, limits: Limits) -> TraceFile | None:
    """The trace as read before; None when it was not. Raises ``DamagedError`` when the entry cannot be trusted."""
    hit = cache.get(cache_key(digest, limits))
    return None if hit is None else TraceFile(path, digest, hit.table, _facts(hit.about))


def keep(cache: RunCache, trace: TraceFile, limits: Limits) -> bool:
    """Keep the trace for the next time; False when the cache does not take it."""
    return cache.put(cache_key(trace.digest, limits), trace.table, msgspec.json.encode(trace.facts))


def to_bytes(trace: TraceFile) -> bytes:
    """The trace, packed."""
    return b"".join(pack(trace.table, READER_VERSION, trace.digest, msgspec.json.encode(trace.facts)))


def from_bytes(path: Path, packed: bytes) -> TraceFile:
    """The trace that was packed."""
    data = memoryview(packed)
    header = read_header(data)
    return TraceFile(path, header.key, unpack(data, header), _facts(bytes(header.about)))


def _facts(about: bytes) -> TraceFacts:
    return msgspec.json.decode(about, type=TraceFacts)
