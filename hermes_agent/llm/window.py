"""A conversation kept within a model's context window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes_agent.llm.model import Message
from hermes_agent.llm.tokens import message_tokens

ELIDED = "(left out to save room; ask for it again or read it by its handle)"


def fit_window(messages: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The messages with the oldest tool results left out until about ``tokens`` are enough.

    Questions, answers and the latest tool result stay whatever they need: without them there is nothing to
    answer, and the endpoint's own limit speaks up.
    """
    kept = list(messages)
    total = sum(map(message_tokens, kept))
    results = [index for index, message in enumerate(kept) if message.role == "tool"]
    for index in results[:-1]:
        if total <= tokens:
            break
        shorter = replace(kept[index], content=ELIDED)
        total += message_tokens(shorter) - message_tokens(kept[index])
        kept[index] = shorter
    return tuple(kept)
