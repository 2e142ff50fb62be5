"""The shape of one case file; anything it does not name is refused."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from tools.knowledge.taxonomy import causes

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=200)]
CaseId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]
PUBLIC_URL = re.compile(r"https://[^\s/]+\.[^\s/]+/\S*")
INTERNAL_URL = re.compile(r"(https?://\S+)?")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Source(_Strict):
    """The publication of the case; ``internal`` for a team's own case, which may have no address at all."""

    kind: Literal["issue", "pr", "docs", "blog", "paper", "internal"]
    url: Annotated[str, StringConstraints(max_length=500)] = Field(default="", validate_default=True)
    repo: Text | None = None
    number: int | None = Field(default=None, ge=1)
    year: int | None = Field(default=None, ge=2005, le=2100)

    @field_validator("url")
    @classmethod
    def _address(cls, url: str, info: ValidationInfo) -> str:
        internal = info.data.get("kind") == "internal"
        if not (INTERNAL_URL if internal else PUBLIC_URL).fullmatch(url):
            form = "http(s)://..., or be left out" if internal else "https://host.domain/page"
            raise ValueError(f"an address has to look like {form}")
        return url


class Setting(_Strict):
    """The setting of the run; ``unknown`` where the source does not say."""

    framework: Text
    hardware: Text
    scale: Text
    model: Text


class Case(_Strict):
    """One past slow-down: what was seen, what caused it, how that was found and what fixed it."""

    id: CaseId
    title: Text
    source: Source
    setting: Setting
    symptom: Text
    signals: Annotated[list[Phrase], Field(min_length=1, max_length=12)]
    signals_origin: Literal["observed", "mixed"]
    family: Text
    cause: Text
    mechanism: Text | None = None
    diagnosis: Text
    optimization: Text
    effect: Text
    confidence: Literal["high", "medium", "low"]
    confidence_reason: Text | None = None
    private: bool = False  # a team's own: marked everywhere, and not sent to a remote model unless that is allowed

    @model_validator(mode="after")
    def _within_the_taxonomy(self) -> Self:
        known = causes().get(self.cause)
        if known is None:
            raise ValueError(f"cause {self.cause!r} is not in the taxonomy")
        if self.family != known.family:
            raise ValueError(f"cause {self.cause!r} belongs to family {known.family!r}, not {self.family!r}")
        if self.mechanism is not None and self.mechanism not in known.mechanisms:
            allowed = ", ".join(known.mechanisms) or "none"
            raise ValueError(f"mechanism {self.mechanism!r} is not one of {self.cause!r} (known: {allowed})")
        return self
