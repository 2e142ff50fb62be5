"""The Dockerfile without an engine: what it copies is there, and what it runs exists. Nothing is built here."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, WHEEL = SETTINGS["project"], SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]
BUILT_FROM = (*WHEEL["packages"], *PROJECT["license-files"], PROJECT["readme"], "pyproject.toml")
INSTALLED_BY = ("Makefile", "constraints.txt")


def instructions(name: str) -> list[str]:
    """The words after each instruction of this name, lines that go on joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    return re.findall(rf"^{name} (.+)$", text, re.MULTILINE)


def targets(command: str) -> list[str]:
    """The targets that ``make`` is called with in a command."""
    return re.findall(r"(?:^|&& )make (\S+)", command)


def left_out(path: str) -> bool:
    """Whether ``.dockerignore`` keeps this path, or a folder that it lies in, out of the image."""
    patterns = (ROOT / ".dockerignore").read_text().split()
    places = (PurePosixPath(path), *PurePosixPath(path).parents)
    return any(matches(place, pattern) for place in places for pattern in patterns)


def matches(place: PurePosixPath, pattern: str) -> bool:
    """Whether a pattern names this place: at any depth after ``**/``, else from the root, ``*`` within one name."""
    if pattern.startswith("**/"):
        return fnmatch(place.name, pattern.removeprefix("**/"))
    return PurePosixPath("/", place).match(f"/{pattern}")


def test_the_base_image_has_a_python_that_the_package_takes() -> None:
    (image,) = instructions("FROM")
    found = re.fullmatch(r"python:(\d+\.\d+)-slim", image)
    assert found
    assert f"{found[1]}.0" in SpecifierSet(PROJECT["requires-python"])


def test_every_source_that_is_copied_exists() -> None:
    copied = instructions("COPY")
    assert copied
    for each in copied:
        *sources, _ = [word for word in each.split() if not word.startswith("--")]
        assert all((ROOT / source).exists() for source in sources), each


def test_every_file_that_the_package_is_built_from_reaches_the_image() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--", *BUILT_FROM, *INSTALLED_BY], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode != 0:
        pytest.skip("no checkout of git")
    kept_out = tuple(f"{each}/" for each in WHEEL["exclude"])
    files = [file for file in listed.stdout.splitlines() if not file.startswith(kept_out)]
    assert {*INSTALLED_BY, "LICENSE", "README.md", "hermes_agent/cli/main.py"} <= set(files)
    assert [file for file in files if left_out(file)] == []
    for private in (".git/config", ".venv/bin/python", "results/lab/x", "tools/__pycache__/x.pyc"):
        assert left_out(private), private


def test_the_commands_of_the_image_exist_and_run_without_rights() -> None:
    run, command = instructions("RUN"), instructions("CMD")
    start = json.loads(command[0])  # words, not a shell's line: make gets the signals of docker stop
    made = [target for each in (*run, " ".join(start)) for target in targets(each)]
    assert made == [".venv/.installed", "demo"]
    for target in made:
        known = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert known.returncode == 0, known.stderr
    text = (ROOT / "Dockerfile").read_text()
    assert text.index("\nUSER hermes") < text.index("\nCOPY --chown=hermes") < text.index("\nRUN make")
    assert "useradd --create-home hermes" in run[0]


def test_the_commands_that_its_first_lines_show_are_those_of_the_package() -> None:
    shown = re.findall(r"^# .*\.venv/bin/(\S+) (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert shown == [("hermes-dx", "diagnose")]
    assert all(name in PROJECT["scripts"] for name, _ in shown)
    commands = {path.stem for path in (ROOT / "hermes_agent/cli/commands").glob("*.py")}
    assert all(command in commands for _, command in shown)
