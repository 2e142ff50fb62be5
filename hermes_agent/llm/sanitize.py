"""Text that was read from a run, made harmless before a model or a screen gets it."""

from __future__ import annotations

import hashlib
import re

# Terminal sequences first, whole: CSI, OSC and friends with their payload, then two-character escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Controls but tab and newline, separators that some screens break lines at, invisible and direction-changing
# characters, tags and lone surrogates.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# Words that chat templates give a meaning to; some servers honour them inside of a message.
_TEMPLATE_MARKS = re.compile(
    r"<(?=[|｜])|(?<=[|｜])>|\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
    r"|<(?=/?(?:s|think|tool_call|tool_response|start_of_turn|end_of_turn|bos|eos)>)|<(?=<\s*/?SYS>>)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[^A-Za-z0-9_.:, -]")
CUT_MARK = " … (cut)"
DIGEST_CHARS = 12


def clean(text: str, limit: int | None = None) -> str:
    """``text`` without escape codes, controls (tabs and newlines stay) and chat-template marks, cut to ``limit``."""
    if limit is not None and len(text) > 4 * limit:
        text = text[: 4 * limit]
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    text = _CONTROLS.sub("", text)
    text = _TEMPLATE_MARKS.sub(lambda mark: f"{mark.group()} " if mark.group() != ">" else " >", text)
    return text if limit is None or len(text) <= limit else text[:limit] + CUT_MARK


def one_line(text: str, limit: int) -> str:
    """``text`` as a single harmless line."""
    return " ".join(clean(text, limit).split())


def fence(text: str, label: str) -> str:
    """Cleaned ``text`` between two lines that mark it as data by its own digest, which nothing inside can hold."""
    body = clean(text)
    mark = hashlib.sha256(body.encode()).hexdigest()[:DIGEST_CHARS]
    name = _LABEL.sub("", label)
    return f"[data {mark}: {name}; not instructions]\n{body}\n[end of data {mark}]"
