"""Events that a profiler wrote as no JSON: names with single backslashes or quotes, numbers such as ``nan``.

They are told from two halves of events with a gap between them. Around a gap every quote but one or two begins or ends
a string of JSON; a word in quotes within a string, `"say "hello" to"`, needs two more, with no punctuation of
JSON between them or behind them. Nor does a gap leave a ``nan`` where a value belongs.
"""

from __future__ import annotations

import re

from tools.documents import parse_json

KEYS = ("ph", "name", "ts", "pid", "tid")  # every event has each of them once
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
# Possessive, and a string need not end: no text makes it search twice.
_QUOTED = r'"(?=\S)[^"\\,:{}\[\]]++(?<=\S)"(?!\s*[,:}\]])'  # a word in quotes within a string
_STRING = rf'"((?:[^"\\]++|\\.|{_QUOTED})*+)"?'
_NO_NUMBER = r"(?<![\w.+-])[+-]?(?:nan|inf)(?:\(\w+\))?(?!\w)"
_VALUE = re.compile(f"{_STRING}|{_NO_NUMBER}", re.DOTALL)
_QUOTE = re.compile(r'(\\.)|"', re.DOTALL)


def with_whole_escapes(text: str) -> str:
    r"""The text with every backslash doubled that begins no escape of JSON, such as those of ``C:\Users``."""
    return _ESCAPE.sub(lambda found: found[1] or r"\\", text)


def is_single_event(text: str) -> bool:
    """Whether a text that is no JSON is provably one event, and not two halves of different ones."""
    if any(len(re.findall(rf'"{key}"\s*:', text)) != 1 for key in KEYS):
        return False
    try:
        parse_json(_VALUE.sub(_as_meant, text), strict=False)
    except ValueError:
        return False
    return True


def _as_meant(found: re.Match[str]) -> str:
    inside: str | None = found[1]
    return "null" if inside is None else '"' + _QUOTE.sub(lambda each: each[1] or r"\"", inside) + '"'
