"""A stand-in takes the place of a package while another one imports it, and of nothing else."""

from __future__ import annotations

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from case_library.stand_ins import StandIn, stand_ins

PACKAGE = "package_of_a_service"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a module and a function that can be imported."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("real = True\n")
    (folder / "client.py").write_text("class Client: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in (PACKAGE, f"{PACKAGE}.client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return PACKAGE


def test_inside_its_modules_and_names_stand_in_and_afterwards_the_package_is_itself(package: str) -> None:
    with stand_ins(package):
        inside = importlib.import_module(f"{package}.client")
        client = inside.Client
    assert isinstance(inside, StandIn)
    with pytest.raises(RuntimeError, match="Client belongs to a service"):
        client()
    assert importlib.import_module(f"{package}.client").Client is not client
    assert importlib.import_module(package).real


def test_a_known_function_may_be_called_however_its_module_is_reached(package: str) -> None:
    with stand_ins(package, known={f"{package}.tracing": {"enabled": lambda: False}}):
        by_name = importlib.import_module(f"{package}.tracing")
        by_attribute = importlib.import_module(package).tracing
    assert by_name.enabled() is by_attribute.enabled() is False


def test_a_package_that_is_imported_already_stays(package: str) -> None:
    before = importlib.import_module(package)
    with stand_ins(package):
        assert importlib.import_module(package) is before
    assert sys.modules[package] is before


def test_other_packages_of_a_similar_name_are_imported_as_they_are(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}_two.py").write_text("real = True\n")
    with stand_ins(package):
        assert importlib.import_module(f"{package}_two").real


def test_a_failure_inside_leaves_nothing_behind(package: str) -> None:
    finders = list(sys.meta_path)
    with pytest.raises(ModuleNotFoundError), stand_ins(package):
        importlib.import_module("no_package_of_this_name")
    assert package not in sys.modules
    assert sys.meta_path == finders


def test_other_threads_may_import_while_stand_ins_come_and_go(package: str, tmp_path: Path) -> None:
    names = [f"{package}_part{number}" for number in range(200)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("real = True\n")
    with ThreadPoolExecutor(1) as other:
        imported = other.submit(lambda: [importlib.import_module(name).real for name in names])
        while not imported.done():
            with stand_ins(package):
                importlib.import_module(package)
    assert imported.result() == [True] * len(names)


def test_a_stand_in_is_not_left_on_the_package_around_it(package: str) -> None:
    whole = importlib.import_module(package)
    with stand_ins(f"{package}.client"):
        inside = importlib.import_module(f"{package}.client")
        assert whole.client is inside
    assert not hasattr(whole, "client")
    assert importlib.import_module(f"{package}.client").Client


def test_a_second_user_meanwhile_has_stand_ins_as_well(package: str) -> None:
    with stand_ins(package) as first:
        importlib.import_module(package)
        with stand_ins(package) as second:
            assert first == second == [package]
        assert isinstance(importlib.import_module(package), StandIn)
    assert importlib.import_module(package).real
    with stand_ins(package) as imported:
        assert imported == []
