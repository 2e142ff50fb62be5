"""Nested texts end in a sentence, in this process and in a command; every reader takes its JSON and YAML here."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.sources.kineto_text import span, trace_text
from tools.documents import MAX_DEPTH, DepthError, parse_json, parse_toml, parse_yaml
from tools.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
HOSTILE_YAML = {
    "flow": "[" * 50_000,
    "sequences": "- " * 25_000,
    "keys": "? " * 25_000,
    "mappings": "{a: " * 12_000,
    "indented": "\n".join(" " * n + "a:" for n in range(999)),
}
# A reader of a cache with checksums, one whose text msgspec has parsed before, and the monitor, which imports nothing
# of ours and reads what its own `hermes-dx diagnose` printed.
OWN_PARSERS = {"tools/run/packing.py", "tools/views/device/operator_cost.py", "hermes_agent/monitor/verdict.py"}
PARSERS = {("json", "loads"), ("json", "load"), ("yaml", "load"), ("yaml", "safe_load")}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_json_that_is_not_deep_is_read_as_it_is(value: object) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def test_depth_is_counted_outside_of_strings_only() -> None:
    brackets = '["' + "[{" * 500 + '\\"' + "[" * 500 + '"]'
    assert parse_json(brackets) == [brackets[2:-2].replace('\\"', '"')]
    wide = "[" + ",".join("[]" for _ in range(5000)) + "]"
    assert len(parse_json(wide)) == 5000
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for text in ("[" * 101 + "]" * 101, '{"a":' * 101, '["]", ' + "[" * 101, b"[" * 1_000_000):
        with pytest.raises(DepthError, match="nested deeper than 100 levels"):
            parse_json(text)


@pytest.mark.parametrize("kind", HOSTILE_YAML)
def test_deep_yaml_is_refused_before_it_is_parsed(kind: str) -> None:
    text = HOSTILE_YAML[kind]
    with pytest.raises(DepthError, match="nested deeper than 100 levels"):
        parse_yaml(text)


def test_yaml_that_is_not_deep_is_read_as_it_is() -> None:
    text = "a: [1, {b: 'x'}]\nc:\n  - d: '[[[['\n"
    assert parse_yaml(text) == parse_yaml(text.encode()) == {"a": [1, {"b": "x"}], "c": [{"d": "[[[["}]}


def test_an_alias_is_refused_and_named() -> None:
    with pytest.raises(yaml.YAMLError, match=r"the alias \*a is not allowed"):
        parse_yaml("a: &a [1]\nb: [*a, *a]\n")


@pytest.mark.parametrize(
    "text",
    ['a: !!int ""', "a: !!bool x", "a: !x [1]", "a: 2020-99-99", "a: 0x_", f"a: {'9' * 5000}", f"a: {'1:' * 300}1.5"],
)
def test_yaml_that_is_no_value_of_its_type_is_a_fault_of_the_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)


@pytest.mark.parametrize(
    "text",
    [f"a = {'[' * 50_000}", f"a{'.a' * 50_000} = 1", f"[a{'.a' * 50_000}]", f"a{'.' * 101}", "a" + ".\x85" * 101],
)
def test_deep_toml_is_refused_before_it_costs_time(text: str) -> None:
    with pytest.raises(DepthError, match="nested deeper than 100 levels"):
        parse_toml(text)


def test_toml_that_is_not_deep_is_read_as_it_is() -> None:
    assert parse_toml("[a.b]\nc = 1.5\n") == {"a": {"b": {"c": 1.5}}}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hermes_agent.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


@pytest.mark.parametrize("kind", ["flow", "sequences"])
def test_a_deep_case_file_ends_in_a_sentence_not_in_a_crash(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(HOSTILE_YAML[kind], encoding="utf-8")
    done = run("cases", "check", str(tmp_path))
    assert done.returncode == ExitCode.INPUT
    assert "is nested too deeply" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["metadata", "arguments"])
def test_a_deep_trace_is_read_without_what_is_deep(tmp_path: Path, place: str) -> None:
    events = [span(f"ProfilerStep#{n}", 100 * n, 90) for n in range(4)] + [span("op", 10, 20)]
    deep = "[" * 2_000_000 + "]" * 2_000_000
    text = trace_text(events)
    if place == "metadata":
        text = text[: text.rindex("}")] + f', "deviceProperties": {deep}}}'
    else:
        text = text.replace(
            '"traceEvents": [', f'"traceEvents": [{{"ph": "X", "name": "x", "args": {{"y": {deep}}}}}, '
        )
    (tmp_path / "rank0.json").write_text(text, encoding="utf-8")
    done = run("steps", str(tmp_path))
    assert "Traceback" not in done.stderr
    assert done.returncode == ExitCode.OK, done.stderr
    assert len(done.stdout.splitlines()) >= 4


def test_no_reader_parses_json_or_yaml_elsewhere() -> None:
    found = set()
    for path in (file for name in ("tools", "case_library", "hermes_agent") for file in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in PARSERS:
                    found.add(path.relative_to(ROOT).as_posix())
    assert found == OWN_PARSERS | {"tools/documents.py"}
