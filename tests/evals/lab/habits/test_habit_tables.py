"""The tables of runs with other people's habits, and their scripts."""

from __future__ import annotations

import py_compile
import re
from pathlib import Path

import pytest

from evals.lab.habits.table import SCRIPTS, Entry, chosen, entries, label_json
from tools.errors import InputError, UsageError
from tools.knowledge.taxonomy import causes

ENTRIES = entries()
every = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)


def in_taxonomy(name: str) -> bool:
    cause, _, mechanism = name.partition("/")
    return cause in causes() and (not mechanism or mechanism in causes()[cause].mechanisms)


@every
def test_every_name_of_a_label_is_in_the_taxonomy(entry: Entry) -> None:
    label = entry.label
    names = (*label.causes, *label.also_right, *label.symptoms, *label.not_causes, *label.only_causes, *entry.one_fixed)
    assert [name for name in names if not in_taxonomy(name)] == []


@every
def test_a_label_does_not_contradict_itself(entry: Entry) -> None:
    label = entry.label
    right = {name.partition("/")[0] for name in (*label.causes, *label.also_right)}
    assert not right & set(label.not_causes)
    assert not {name.partition("/")[0] for name in label.causes} & set(label.symptoms)
    assert all(label.also_right.values())
    assert set(label.ranks or ()) <= set(range(entry.processes))
    assert set(entry.one_fixed) <= set(label.all_of)
    if label.causes:
        assert label.injected
        assert label.fix
        assert label.sources
        assert entry.starts["slow"] != entry.starts["fixed"]


@every
def test_the_script_of_an_entry_exists_and_every_fault_around_it_is_known(entry: Entry) -> None:
    assert (SCRIPTS / entry.script).is_file()
    for start in (*entry.starts.values(), *entry.one_fixed.values()):
        assert len(start.surroundings()) == len(start.environment_faults)


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.name)
def test_a_script_compiles_and_keeps_the_contract(script: Path, tmp_path: Path) -> None:
    py_compile.compile(str(script), cfile=str(tmp_path / "compiled"), doraise=True)
    text = script.read_text(encoding="utf-8")
    assert script.name == "clock.py" or ("clock.tick()" in text and "RUN_DIR" in text)
    assert re.findall(r"\b(?:slow|fault|inject)\w*", text) == []


def test_a_label_is_written_in_the_form_of_the_lab() -> None:
    entry = chosen(["resnet_workers"])[0]
    label = label_json(entry, "mild")
    assert (label["verdict"], label["cause"], label["mechanism"]) == (
        "problem",
        "slow_data_processing",
        "too_few_workers",
    )
    assert (label["strength"], label["workload"], label["ranks"]) == ("mild", "resnet_folder", [0])


def test_an_unknown_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no entry 'rain'; it can record resnet_workers"):
        chosen(["rain"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {id: one, script: a.py, style: s, label: {cause: compute_bound}, run: {}}", "needs slow and fixed"),
        ("- {id: one, script: a.py, style: s, label: {}, run: {argument: [1]}}", "argument"),
        ("- {id: one, script: a.py, style: s, label: {all_of: [straggler]}, slow: {}, fixed: {}}", "two causes"),
    ],
    ids=["sides", "field", "one of several"],
)
def test_a_wrong_entry_is_refused_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(text)
    with pytest.raises(InputError, match=rf"table.yaml: 'one'.*{problem}"):
        entries((table,))


def test_an_id_is_used_once(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("- &one {id: one, script: a.py, style: s, label: {}, run: {}}\n- *one\n")
    with pytest.raises(InputError, match="used twice"):
        entries((table,))
