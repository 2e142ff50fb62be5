"""Damages bytes as disks, programs and attackers do: anywhere, at the tokens of a text, and in a compressed file."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from random import Random

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[\[\]{}:,]|[A-Za-z_][\w-]*')
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
NUMBERS = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e308", b"-1e308", b"1e-320", b"1e400", b"-1", b"0", b"-0.0", b"0.5"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"4294967295"),
    *(b"2147483648", b"1" * 400, b"1e9999999999", b"00", b"0x10", b"1_000", b"9007199254740993", b"1" * 5000),
)
STRINGS = (
    *(b'""', b'"\\u0000"', b'"\\ud800"', b'"\x1b[2J"', b'"\\u202e\\u200b"', b'"\xff\xfe"', b'"nan"', b'"1e400"'),
    *(b'"../../etc/passwd"', b'"[link](javascript:x)"', b'"' + b"A" * 5000 + b'"', b'"{n0} {0} %s"', b'"\\n\\r\\t"'),
    *(b'"ProfilerStep#0"', b'"ProfilerStep#99999999999999999999"', b'"nccl:all_reduce"', b'"cudaLaunchKernel"'),
)
WORDS = (b"null", b"true", b"false", b"[]", b"{}", b"[[]]", b'{"a":1}', b"[1,2,3]", b"*x", b"&x", b"!!python/x", b"---")
MARKS = b"[]{}:,"
DEEP = 200_000
CHANGES = (1, 1, 1, 2, 3, 6)
LARGEST = 1 << 20  # bytes of a mutated input: larger ones are cut


class Mutator:
    """Makes inputs from seeds; the same number gives the same inputs."""

    def __init__(self, seeds: Sequence[bytes], random: Random) -> None:
        self.seeds = [seed for seed in seeds if seed]
        self.random = random
        self._tokens = [[match.span() for match in TOKEN.finditer(seed)] for seed in self.seeds]
        self._values = [
            [span for span in spans if seed[span[0]] not in MARKS]
            for seed, spans in zip(self.seeds, self._tokens, strict=True)
        ]

    def text(self) -> bytes:
        """A seed with some of its tokens exchanged, most often, or damaged like any other bytes."""
        if self.random.random() < 0.25:
            return self.binary()
        at = self.random.randrange(len(self.seeds))
        data, spans = self.seeds[at], self._values[at] if self.random.random() < 0.8 else self._tokens[at]
        if not spans:
            return self.binary()
        changes = {}
        for _ in range(self.random.choice(CHANGES)):
            span = self.random.choice(spans)
            changes[span] = self._token(data[slice(*span)], data, spans)
        parts, end = [], 0
        for (first, last), token in sorted(changes.items()):
            parts += [data[end:first], token]
            end = last
        return b"".join([*parts, data[end:]])[:LARGEST]

    def binary(self) -> bytes:
        """A seed with some of its bytes changed, moved or missing."""
        data = self.random.choice(self.seeds)
        for _ in range(self.random.choice(CHANGES)):
            data = self.random.choice(DAMAGES)(self.random, data) or b"\0"
        return data[:LARGEST]

    def packed(self) -> bytes:
        """A text as gzip, in one or several members, whose bytes are then damaged in one case of two."""
        text = self.text()
        at = self.random.randint(0, len(text))
        parts = [text[:at], text[at:]] if self.random.random() < 0.3 else [text]
        data = b"".join(gzip.compress(part, 1, mtime=0) for part in parts)
        if self.random.random() < 0.5:
            data = self.random.choice((*DAMAGES, _bomb))(self.random, data) or b"\x1f\x8b"
        return data[:LARGEST]

    def _token(self, token: bytes, data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
        random = self.random
        choice = random.random()
        if choice < 0.1:
            return random.choice(WORDS)
        if choice < 0.25:
            return data[slice(*random.choice(spans))]  # a token from elsewhere
        if choice < 0.3:
            return b""
        if choice < 0.3003:
            return random.choice((b"[", b'{"a":', b'[{"b":')) * random.choice((50, 101, DEEP))
        if choice < 0.35:
            return token + b"," + token
        if NUMBER.match(token):
            return random.choice(NUMBERS) if random.random() < 0.6 else _near(random, token)
        return random.choice(STRINGS) if token.startswith(b'"') else random.choice((*NUMBERS, *WORDS))


def _near(random: Random, token: bytes) -> bytes:
    """A number close to the one written, or of another size."""
    value = float(token)
    return repr(
        random.choice((value + 1, value - 1, -value, value * 1000, value / 1000, value + 0.5, value * 2))
    ).encode()


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def _without(random: Random, data: bytes) -> bytes:
    at, length = random.randrange(len(data)), random.choice((1, 4, 16, 64, 512))
    return data[:at] + data[at + length :]


def _overwritten(random: Random, data: bytes) -> bytes:
    at, length = random.randrange(len(data)), random.choice((1, 4, 16, 64, 512))
    fill = random.choice((b"\0", b"\xff", b"A", b'"', b"[", b"\n")) * length
    return data[:at] + (fill if random.random() < 0.7 else random.randbytes(length)) + data[at + length :]


def _repeated(random: Random, data: bytes) -> bytes:
    at, length = random.randrange(len(data)), random.choice((1, 16, 64, 512, 4096))
    return data[:at] + data[at : at + length] * random.choice((2, 3, 100)) + data[at + length :]


def _moved(random: Random, data: bytes) -> bytes:
    first, second = sorted(random.randrange(len(data)) for _ in range(2))
    return data[second:] + data[first:second] + data[:first]


def _integer(random: Random, data: bytes) -> bytes:
    """A whole number of a binary format set to an extreme."""
    size = random.choice((1, 2, 4, 8))
    at = random.randrange(max(len(data) - size, 1))
    value = random.choice((0, 1, 0x7F, 0x80, (1 << (8 * size)) - 1, 1 << (8 * size - 1), (1 << (8 * size - 1)) - 1))
    return data[:at] + (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little") + data[at + size :]


def _bomb(_: Random, data: bytes) -> bytes:
    """The data, then a member of a mebibyte of spaces."""
    return data + gzip.compress(b" " * (1 << 20), 9, mtime=0) + zlib.compress(b"")


DAMAGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(_flip, _flip, _cut, _without, _overwritten, _overwritten, _repeated, _moved, _integer, _integer),
)
