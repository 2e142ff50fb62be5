"""JSON, YAML and TOML texts that anybody may have written, parsed after their nesting was measured.

The C parser of YAML calls itself for every level and ends the interpreter on a few thousand of them; the parser of TOML
takes time quadratic in the parts of one key. No document that is read here has more than ten levels.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100  # levels of lists and mappings
# A string of a JSON text, also one that does not end; or one bracket. Possessive: no text makes it search twice.
_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|([\[{])|[\]}]', re.DOTALL)


class DepthError(ValueError):
    """A text is nested deeper than any that belongs here."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {MAX_DEPTH} levels")


def parse_json(
    text: str | bytes | bytearray,
    *,
    strict: bool = True,
    parse_float: Callable[[str], object] | None = None,
    parse_constant: Callable[[str], object] | None = None,
) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text, read as ``json.loads`` does; raises ValueError (DepthError included)."""
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    _check_json_depth(text)
    if strict and parse_float is None and parse_constant is None:
        return json.loads(text)  # a decoder that is there already: with options one is made for each text
    return json.loads(text, strict=strict, parse_float=parse_float, parse_constant=parse_constant)


def parse_yaml(text: str | bytes, *, aliases: bool = False) -> Any:  # noqa: ANN401 - any YAML value
    """Return the value of a YAML document; raises ``yaml.YAMLError`` or DepthError.

    Aliases are refused unless the file is the user's own: a value that holds itself, or others many times over, has no
    bound. So are tags, which demand a type of values that do not have it.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise yaml.YAMLError(f"the alias *{event.anchor} is not allowed")
        if (tag := getattr(event, "tag", None)) is not None:
            raise yaml.YAMLError(f"the tag {tag} is not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise DepthError
    try:
        return yaml.load(text, Loader=loader)
    except (ValueError, OverflowError) as error:  # a day that no month has, a number of too many digits
        raise yaml.YAMLError(str(error)) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML document; raises ValueError (``tomllib.TOMLDecodeError`` and DepthError included)."""
    if any(line.count(".") > MAX_DEPTH for line in text.split("\n")):
        raise DepthError
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DepthError from None


def _check_json_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for token in _JSON_TOKEN.finditer(text):
        if token.end() - token.start() == 1 and token[0] != '"':
            depth += 1 if token[1] else -1
            if depth > MAX_DEPTH:
                raise DepthError
