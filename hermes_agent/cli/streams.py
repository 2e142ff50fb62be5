"""The standard streams as the commands need them: present, and able to take any text."""

from __future__ import annotations

import codecs
import io
import os
import sys

ESCAPES = "hermes-dx-escapes"


def settle_streams() -> None:
    """Opens a closed stream on nothing, and has characters that a stream's encoding lacks written as ``\\uXXXX``.

    That form is valid inside JSON strings as well.
    """
    codecs.register_error(ESCAPES, _escaped)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPES)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end
