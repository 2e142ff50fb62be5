"""The embedding of recall as the settings want it, with its key and with names masked where they would leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings

KEY_VARIABLE = "HERMES_DX_EMBEDDING_API_KEY"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"  # given to OpenAI alone


def embedding_choice(chosen: Settings, env: Mapping[str, str]) -> EmbeddingChoice:
    """The choice; an endpoint elsewhere sees masked names, and a team's own cases only if ``send_private`` says so."""
    from hermes_agent.config.credentials import is_openai
    from hermes_agent.config.settings import is_loopback
    from hermes_agent.llm.redact import Redactor

    wanted = chosen.cases.embedding
    if wanted.kind == "hashed":
        return HASHED
    if wanted.kind == "minilm":
        return EmbeddingChoice("minilm", folder=wanted.folder)
    address = wanted.base_url or ""
    key = env.get(KEY_VARIABLE, "").strip() or (env.get(OPENAI_KEY_VARIABLE, "").strip() if is_openai(address) else "")
    at_home = is_loopback(address)
    masks = not at_home if chosen.redact is None else chosen.redact
    return EmbeddingChoice(
        "endpoint",
        base_url=address,
        model=wanted.model or "",
        key=key or None,
        mask=Redactor().mask if masks else None,
        sends_private=at_home or chosen.cases.send_private,
    )
