"""The lines of a job's output that may hold a record, from a stream of bytes of any length and in bounded memory.

A carriage return ends a piece of a line, as progress bars write them, but not the line: its number counts line feeds.
Lines without any of the words that records hold are skipped without looking at them one by one.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 1 << 16  # bytes of a piece of a line; what follows is skipped
BLOCK_BYTES = 1 << 20
UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
UTF8_MARK = codecs.BOM_UTF8
MOST_NULLS = 0.01  # of the first bytes: more is no text
# One of these words is in every line that holds a record; lower and upper case as programs write them.
WORDS = (
    *(b"iter", b"Iter", b"step", b"Step", b"loss", b"it/s", b"s/it", b"(ms)", b"amples", b"across ranks"),
    *(
        b"- Init ",
        b"Init timings",
        b"Using",
        b"NCCL version",
        b"=== System : max",
        b"coll channels",
        b" via ",
        b"by environment",
    ),
    *(b"Pattern ", b"XML topology file"),
    *(
        b"GPU Direct",
        b"=== System : max",
        b"NET plugin",
        b"NCCL WARN",
        b"No device found",
        b"libibverbs",
        b"NET/OFI",
        b"ibv_",
        b"nable to open device",
        b"out-of-place",
        b"_perf",
        b"Profiler Report",
        b"Mean duration",
        b"Self CPU",
        b"data_time",
        b"Time ",
        b"comm op",
        b"Watchdog caught",
        b"NVRM: Xid",
        b"EI00",
        b"EJ00",
        b"connect agent[",
        b"| time out",
        b"killed by signal",
        b"oom-kill",
        b"oom_kill",
        b"us error encountered",
        b"insufficient shared",
        b"ery slow compile",
    ),
    *(
        b"took ",
        b"(Took ",
        b"nference time",
        b"time=",
        b" dt",
        b"ast enqueued",
        b"cache flushes",
        b"time total",
        b"out of memory",
        b"OutOfMemory",
        b"Comm. Op",
        b"kipping",
        b"_limit",
        b"many workers",
        b"world size",
        b"epochs",
        b"restart",
        b"DUE TO ",
        b"equeu",
        b"world_size",
        b"WORLD_SIZE",
        b"World size: ",
        b"MEMBER: ",
        b"distributed processes",
        b"Num processes: ",
        b" ....",
        b"ccumulat",
        b"heckpoint",
        b"ckpt",
        b"n cpu",
        b"n CPU",
        b"n the CPU",
        b"evice=",
        b"evice = ",
        b"evice: ",
        b"sing cpu",
        b"sing CPU",
        b"used: False",
        b"aved ",
        b"aving ",
        b"number of worker",
        b"workers=",
        b"workers_per_gpu",
        b"window_size=",
        b" = dict(",
        b"train_runtime",
        b"raining time",
        b"one training in",
        b"MAX_ITER",
        b"raining completed",
        b"raining finished",
        b"raining took",
        b"remaining:",
        b"tart validation",
        b"tart evaluation",
        b"ing validation",
        b"ing evaluation",
        b"verall validation",
        b"ished evaluation",
        b"ished validation",
        b"alidation finished",
        b"valuation finished",
        b"alidation completed",
        b"valuation completed",
        b"alidation done",
        b"valuation done",
        b"Total time: ",
        b"Total time since ",
        b"SIGTERM",
        b"extremely slow",
        b"unfused kernel",
        b"float32_matmul_precision",
        b"use_cache=",
    ),
    *(
        b"Epoch: [",
        b"[Train ",
        b"Epoch [",
        b"Train: ",
        b" (t): ",
        b"  data: ",
        b"num_updates=",
        b"images/sec",
        b" MFU | ",
        b")s/itr",
    ),
    *(b"istributed training: ", b"GPU number: ", b"training on ", b"--nproc", b"distributed=True"),
    *(b"Start inference on ", b" in csv format:", b"Rtt/Rnk: "),
    *(b" MFU | ", b"E2E latency=", b"Progress on:", b"[Evaluation][", b"\ttime cost: "),
    # Profilers' tables: heads, totals, and rows of excerpts without a head.
    *(b"0.000us", b"aten::", b"activities:", b"API calls:", b"Profiling result", b"[CUDA mem", b"(%)", b"Statistics"),
    *(b"Summary", b"ncalls", b"function calls", b"Timer unit", b"Line #", b" latency: "),
    # nccl-tests, memory_summary(), and what watchdogs, NCCL RAS and the flight recorder's analysis write of ranks.
    *(
        b"redop",
        b" sum  ",
        b" none  ",
        b" sum -1 ",
        b"emainder of ranks",
        b"json_stats: ",
        b"DataLoadingTime",
        b"Metric: ",
        b"__recompiles",
        b"_dynamo/convert_frame",
        b"%|",
        b"RankID:",
        b" Pid ",
        b"NCCL_",
        b" at entry ",
    ),
    *(b"registering GPU", b"WON'T CONVERT", b"got stuck", b"slow compared to"),
    *(b"cudaMalloc retries", b"llocated memory", b"reserved memory", b"Non-releasable memory"),
    *(b"eak mem", b"eak_mem", b"eak Mem", b"eak GPU", b"eak_gpu", b"eak CUDA", b"eak VRAM", b"eak_vram"),
    *(b"eak alloc", b"max_memory_", b"ax memory ", b"ax Memory ", b"ax GPU memory", b"max_alloc", b"max_reserved"),
    *(b"max allocated: ", b"Max_MA "),
    *(
        b"collective #",
        b"ed ranks:",
        b"] started ",
        b"ulprit rank",
        b"operation counts",
        b"have launched up to",
        b"-- GPU ",
    ),
    *(b"alidation", b"alidating", b"valuat", b"eval_loss", b"eval_runtime", b"val_loss", b"Test: "),
    *(b"Epoch ", b"epoch ", b"Traceback (most", b"Namespace(", b"Error: ", b"unning training", b"raining start"),
    *(b"aken for ", b"took:"),
    *(b"Val ", b"Loss", b"ccuracy"),
    *(b"poch time", b"poch Time", b"Time Taken: ", b" time: ", b"poch duration", b"finished in"),
    *(b"collective: ", b"issing ranks", b"oining collective", b"ollective sequence number", b"ranks: "),
)


def line_starts(text: bytes) -> list[int]:
    """Where the lines begin that hold one of ``WORDS``, ascending."""
    found: set[int] = set()
    for word in WORDS:
        at = text.find(word)
        while at >= 0:
            found.add(text.rfind(b"\n", 0, at) + 1)
            end = text.find(b"\n", at)
            if end < 0:
                break
            at = text.find(word, end)
    return sorted(found)


@dataclass(frozen=True, slots=True)
class RawLine:
    """A piece of a line and the number of the line."""

    number: int
    data: bytes


class LineReader:
    """Iterates over the lines of a stream that may hold a record; afterwards the counts say what was there.

    ``wants_all`` is asked after each line: while it answers True every line is given, as rows of a table need it.
    ``starts`` finds the lines that hold one of ``WORDS``; ``look`` is given each block, with line feeds for carriage
    returns and as it is, and the number of its first line.
    """

    def __init__(
        self,
        pieces: Iterable[bytes],
        wants_all: Callable[[], bool],
        starts: Callable[[bytes], list[int]] = line_starts,
        look: Callable[[bytes, bytes, int], None] | None = None,
    ) -> None:
        self.pieces = pieces
        self.wants_all = wants_all
        self.starts = starts
        self.look = look
        self.lines = 0
        self.shortened = 0
        self.binary = False

    def __iter__(self) -> Iterator[RawLine]:
        for block in self._blocks():
            yield from self._of_block(block)

    def _blocks(self) -> Iterator[bytes]:
        """Blocks that end with a line feed or a carriage return, but for the last and those of an endless line."""
        left, skipping = b"", False
        for piece in self._text():
            data = left + piece
            if skipping:
                end = _first_end(data)
                if end < 0:
                    left = b""
                    continue
                data, skipping = data[end:], False  # the end itself stays, so that the line is counted
            if len(data) < BLOCK_BYTES and len(piece) < BLOCK_BYTES:
                left = data
                continue
            cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
            block, left = data[:cut], data[cut:]
            if len(left) > LONGEST_LINE:
                block, left, skipping = block + left[:LONGEST_LINE], b"", True
                self.shortened += 1
            if block:
                yield block
        if left:
            yield left

    def _text(self) -> Iterator[bytes]:
        """The stream as UTF-8, in pieces of whole characters; nothing where it is no text."""
        pieces = iter(self.pieces)
        first = next(pieces, b"")
        zeros = first.count(0) > MOST_NULLS * len(first)
        encoding = UTF16.get(first[:2]) if zeros else None  # each digit and space of it has a zero
        if encoding is None and zeros:
            self.binary = True
            return
        if encoding is None:
            yield from self._joined(first.removeprefix(UTF8_MARK), pieces)
            return
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        decoded = (decoder.decode(piece).encode("utf-8", "replace") for piece in (first[2:], *pieces))
        yield from self._joined(b"", decoded)

    def _joined(self, first: bytes, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces joined to about ``BLOCK_BYTES``: scanning many small ones costs more."""
        waiting, size = [first], len(first)
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= BLOCK_BYTES:
                yield b"".join(waiting)
                waiting, size = [], 0
        yield b"".join(waiting)

    def _of_block(self, block: bytes) -> Iterator[RawLine]:
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
            text = block.replace(b"\r", b"\n")
        else:
            text = block
        if self.look is not None:
            self.look(text, block, self.lines + 1)
        starts = self.starts(text)
        counted, place, at, number = 0, 0, 0, self.lines + 1
        while True:
            if self.wants_all():
                start = at
            else:
                place = bisect_left(starts, at, place)
                if place == len(starts):
                    break
                start = starts[place]
            if start >= len(text):
                break
            end = text.find(b"\n", start)
            end = len(text) if end < 0 else end
            number += block.count(b"\n", counted, start)
            counted = start
            if end - start > LONGEST_LINE:
                self.shortened += 1
            yield RawLine(number, text[start : min(end, start + LONGEST_LINE)])
            at = end + 1
        self.lines += block.count(b"\n")


def _first_end(data: bytes) -> int:
    ends = [end for end in (data.find(b"\n"), data.find(b"\r")) if end >= 0]
    return min(ends, default=-1)
