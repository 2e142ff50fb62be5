"""A folder as MiniLM's, with weights of a few bytes: each word of a short list has a vector of its own.

The ONNX file is written by hand, field by field of its protocol buffers, as no package for that is needed otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = ("[PAD]", "[UNK]", "synchronizes", "item", "loss", "gc", "ranks", "checkpoint", "save", "epoch", "storage")
SIZE = 16


def toy_weights(folder: Path, seed: int = 0) -> Path:
    """Write tokenizer and weights into a new folder."""
    (folder / "onnx").mkdir(parents=True)
    table = np.random.default_rng(seed).normal(size=(len(WORDS), SIZE)).astype(np.float32)
    (folder / "onnx" / "model.onnx").write_bytes(_model(table))
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: n for n, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def _model(table: np.ndarray) -> bytes:
    """Token vectors looked up in a table: one Gather of ``table`` by ``input_ids``."""
    node = _text(1, "table") + _text(1, "input_ids") + _text(2, "last_hidden_state") + _text(4, "Gather")
    dims = b"".join(_number(1, size) for size in table.shape)
    initial = dims + _number(2, 1) + _text(8, "table") + _bytes(9, table.tobytes())
    inputs = b"".join(_bytes(11, _value(name, 7, 2)) for name in ("input_ids", "attention_mask"))
    outputs = _bytes(12, _value("last_hidden_state", 1, 3))
    graph = _bytes(1, node) + _text(2, "toy") + _bytes(5, initial) + inputs + outputs
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _value(name: str, element: int, axes: int) -> bytes:
    shape = b"".join(_bytes(1, _text(2, f"axis{axis}")) for axis in range(axes))
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, element) + _bytes(2, shape)))


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
