"""Whether a JSON value fits a JSON Schema, for the part of JSON Schema that tool arguments use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "$schema", "$id", "$defs", "definitions", "format", "deprecated"}
)
_CHECKED = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties", "required", "additionalProperties"}
    | {"items", "minItems", "maxItems", "minLength", "maxLength", "pattern"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
Schema = Mapping[str, object]

_LIMITS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "at least", operator.ge),
    ("maximum", "at most", operator.le),
    ("exclusiveMinimum", "more than", operator.gt),
    ("exclusiveMaximum", "less than", operator.lt),
)


def complaints(value: object, schema: Schema) -> list[str]:
    """What is wrong with ``value``, one phrase per fault; empty when it fits."""
    return list(_check(value, schema, schema, ""))


def refuse_unchecked(schema: object) -> None:
    """Raise ValueError for a schema with a keyword that is not checked here, or that refers to nothing.

    Passing it over would call values valid that are not.
    """
    _refuse(schema, schema)


def _refuse(schema: object, root: object) -> None:
    if not isinstance(schema, Mapping):
        return
    unknown = set(schema) - _ANNOTATIONS - _CHECKED
    if unknown:
        raise ValueError(f"the schema uses {', '.join(sorted(unknown))}, which is not checked")
    if isinstance(reference := schema.get("$ref"), str):
        _resolve(reference, root)
    for kind in _kinds(schema):
        if kind not in _TYPES:
            raise ValueError(f"the schema names the type {kind!r}, which does not exist")
    for keyword in ("properties", "$defs", "definitions"):
        named = schema.get(keyword)
        for inner in named.values() if isinstance(named, Mapping) else ():
            _refuse(inner, root)
    listed = (inner for keyword in ("anyOf", "oneOf", "allOf") for inner in _list(schema.get(keyword)))
    for inner in (*listed, schema.get("items"), schema.get("additionalProperties")):
        _refuse(inner, root)


def _check(value: object, schema: object, root: Schema, path: str) -> Iterator[str]:
    if schema is True:
        return
    if not isinstance(schema, Mapping):
        yield f"{path or 'the value'} is not allowed"
        return
    if isinstance(reference := schema.get("$ref"), str):
        yield from _check(value, _resolve(reference, root), root, path)
    faults = list(_check_kind(value, schema, path))
    yield from faults
    yield from _check_branches(value, schema, root, path)
    if not faults:
        yield from _check_content(value, schema, root, path)


def _check_content(value: object, schema: Schema, root: Schema, path: str) -> Iterator[str]:
    match value:
        case dict():
            yield from _check_object(value, schema, root, path)
        case list():
            yield from _check_size(len(value), schema, "Items", f"{path or 'the list'} has", "items")
            for index, item in enumerate(value):
                yield from _check(item, schema.get("items", True), root, f"{path}[{index}]")
        case str():
            yield from _check_size(len(value), schema, "Length", f"{path or 'the text'} has", "characters")
            pattern = schema.get("pattern")
            if isinstance(pattern, str) and not re.search(pattern, value):
                yield f"{path or 'the text'} does not match {pattern}"
        case int() | float() if not isinstance(value, bool):
            yield from _check_range(value, schema, path)


def _check_kind(value: object, schema: Schema, path: str) -> Iterator[str]:
    name = path or "the value"
    kinds = _kinds(schema)
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{name} has to be {' or '.join(kinds)}, not {_kind(value)}"
    allowed = schema.get("enum")
    if isinstance(allowed, Sequence) and not any(_same(value, item) for item in allowed):
        yield f"{name} has to be one of {', '.join(map(repr, allowed))}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{name} has to be {schema['const']!r}"


def _check_branches(value: object, schema: Schema, root: Schema, path: str) -> Iterator[str]:
    for branch in _list(schema.get("allOf")):
        yield from _check(value, branch, root, path)
    for keyword in ("anyOf", "oneOf"):
        branches = _list(schema.get(keyword))
        found = [list(_check(value, branch, root, path)) for branch in branches]
        fitting = sum(not faults for faults in found)
        if branches and not fitting:
            yield " or ".join(faults[0] for faults in found)
        if keyword == "oneOf" and fitting > 1:
            yield f"{path or 'the value'} fits more than one of the alternatives"


def _check_object(value: Mapping[str, object], schema: Schema, root: Schema, path: str) -> Iterator[str]:
    properties = schema.get("properties")
    known: Mapping[str, object] = properties if isinstance(properties, Mapping) else {}
    for name in _list(schema.get("required")):
        if name not in value:
            yield f"{_join(path, str(name))} is missing"
    extra = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            yield from _check(item, known[name], root, _join(path, name))
        elif extra is False:
            yield f"{_join(path, name)} is unknown (known: {', '.join(known) or 'none'})"
        else:
            yield from _check(item, extra, root, _join(path, name))


def _check_size(size: int, schema: Schema, suffix: str, what: str, unit: str) -> Iterator[str]:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if isinstance(least, int) and size < least:
        yield f"{what} {size} {unit}, at least {least} are needed"
    if isinstance(most, int) and size > most:
        yield f"{what} {size} {unit}, at most {most} are allowed"


def _check_range(value: float, schema: Schema, path: str) -> Iterator[str]:
    name = path or "the number"
    for keyword, words, holds in _LIMITS:
        limit = schema.get(keyword)
        if isinstance(limit, int | float) and not holds(value, limit):
            yield f"{name} has to be {words} {limit}, not {value}"


def _resolve(reference: str, root: object) -> object:
    found: object = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if not isinstance(found, Mapping) or part not in found:
            raise ValueError(f"the schema refers to {reference}, which is not in it")
        found = found[part]
    return found


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type")
    return [kinds] if isinstance(kinds, str) else [str(kind) for kind in _list(kinds)]


def _kind(value: object) -> str:
    return next(kind for kind in _TYPES if _is(value, kind))


def _same(value: object, other: object) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
