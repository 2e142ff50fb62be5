"""What may be said about the embedding that the vector ranker works with: which one, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tools.errors import HermesError

if TYPE_CHECKING:
    from case_library.embedding import Vector

Kind = Literal["hashed", "minilm", "endpoint"]


class EmbeddingError(HermesError):
    """The embedding that was chosen cannot be used now."""


class TextEmbedding(Protocol):
    """Texts to vectors of length 1; texts about the same thing reach a cosine of ``close_angle``."""

    close_angle: float

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector per text, all of one size; raises ``EmbeddingError``."""


@dataclass(frozen=True)
class EmbeddingChoice:
    """``folder`` holds the weights of ``minilm``; ``base_url``, ``model`` and ``key`` belong to ``endpoint``.

    ``mask`` hides names before a text goes to the endpoint, and ``sends_private`` lets a team's own cases go there;
    without it they have no vector and are found by their words and signals.
    """

    kind: Kind = "hashed"
    folder: Path | None = None
    base_url: str = ""
    model: str = ""
    key: str | None = field(default=None, repr=False)
    mask: Callable[[str], str] | None = field(default=None, repr=False, compare=False)
    sends_private: bool = False

    @property
    def embeds_private(self) -> bool:
        """Whether a team's own cases get a vector: always on this machine, at an endpoint only if that is allowed."""
        return self.kind != "endpoint" or self.sends_private


HASHED = EmbeddingChoice()
