"""The few signs the chat draws with, in Unicode and for terminals that have only ASCII."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Glyphs:
    """Signs by meaning; ``parts`` has one sign for each part of a step, in the order of ``breakdown.PARTS``."""

    found: str
    clean: str
    cannot_answer: str
    running: str
    done: str
    waiting: str
    prompt: str
    dot: str
    parts: str

    def mark(self, status: str) -> str:
        """The sign of a check's outcome."""
        return {"found": self.found, "clean": self.clean}.get(status, self.cannot_answer)


UNICODE = Glyphs("▲", "✓", "?", "▸", "✓", "·", "❯", "·", "█▓▒▚░▁")
ASCII = Glyphs("!", "+", "?", ">", "+", ".", ">", "-", "#x=d:.")


def glyphs_for(encoding: str | None, environment: Mapping[str, str]) -> Glyphs:
    """ASCII where the terminal cannot be trusted with more, or where ``HERMES_DX_ASCII`` is set."""
    plain = environment.get("HERMES_DX_ASCII") or environment.get("TERM") in ("dumb", "vt100")
    wide = (encoding or "").lower().replace("-", "").replace("_", "") in ("utf8", "utf16", "utf8sig")
    return ASCII if plain or not wide else UNICODE
