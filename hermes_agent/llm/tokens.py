"""How many tokens a text will be, when nobody has counted."""

from __future__ import annotations

import json

from hermes_agent.llm.model import Message, ModelRequest

# English and code run at about four characters a token in the usual byte-pair vocabularies; other scripts
# come nearer to one. Overestimating is the safe side for a budget and for a context window.
ASCII_CHARS_PER_TOKEN = 4
MESSAGE_OVERHEAD_TOKENS = 4


def estimated_tokens(text: str) -> int:
    """Tokens of ``text``, rounded up; 0 only for the empty text."""
    other = len(text) - len(text.encode("ascii", "ignore"))
    return -(-(len(text) - other) // ASCII_CHARS_PER_TOKEN) + other


def message_tokens(message: Message) -> int:
    """Tokens one message adds to a prompt, its tool calls included."""
    calls = sum(estimated_tokens(call.name) + estimated_tokens(call.arguments_json) for call in message.tool_calls)
    reasoning = estimated_tokens(message.reasoning or "")
    return MESSAGE_OVERHEAD_TOKENS + estimated_tokens(message.content) + calls + reasoning


def request_tokens(request: ModelRequest) -> int:
    """Tokens of the whole prompt, tool descriptions included."""
    tools = sum(
        estimated_tokens(tool.name + tool.description + json.dumps(tool.schema, default=str)) for tool in request.tools
    )
    return sum(map(message_tokens, request.messages)) + tools
