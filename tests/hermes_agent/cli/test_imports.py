"""The packages that each command may import: what a command does not need, its user does not wait for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.main import COMMANDS
from hermes_agent.demo.data import demo_run

OURS = {"hermes_agent", "tools", "case_library", "prompts"}
RECORDS = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
TABLES = {"numpy", "pandas", "pyarrow", "dateutil", "cython_runtime", "pytz", "six", "msgspec", "isal", "yaml"}
CHROMA = {
    *("chromadb", "chromadb_rust_bindings", "pydantic_settings", "dotenv", "orjson", "overrides", "pybase64"),
    *("tenacity", "httpx", "httpcore", "idna", "zstandard", "opentelemetry", "psutil", "google", "importlib_metadata"),
    *("zipp", "mmh3", "anyio", "h11", "sniffio", "certifi"),
}
LANGGRAPH = {
    *("langgraph", "langchain_core", "langchain_protocol", "ormsgpack", "xxhash", "uuid_utils", "jsonpatch"),
    *("jsonpointer", "packaging", "tenacity"),
}
PRESENT = {"cloudpickle", "tornado"}  # pyarrow and tenacity import them where the extra `scale` brought them
SCREEN = {
    "textual",
    "rich",
    "pygments",
    "markdown_it",
    "linkify_it",
    "uc_micro",
    "mdurl",
    "platformdirs",
    "typing_extensions",
}

ALLOWED = {
    "env": set[str](),
    "steps RUN": RECORDS | TABLES,
    "ranks RUN": RECORDS | TABLES,
    "operators RUN": RECORDS | TABLES,
    "collectives RUN --json": RECORDS | TABLES,
    "tool --list": RECORDS | TABLES,
    "tool checks RUN": RECORDS | TABLES,  # of a run that was diagnosed before
    "cases show garbage_collection": RECORDS | {"yaml", "cython_runtime"},
    "cases search loader": RECORDS | TABLES - {"pandas", "pyarrow"} | CHROMA,
    "diagnose RUN --no-cache": RECORDS | TABLES | CHROMA | LANGGRAPH,
    "diagnose RUN": RECORDS | {"yaml", "msgspec", "isal", "cython_runtime"},  # made before
    "ask RUN why --no-llm": RECORDS | TABLES,  # of a run that was diagnosed before
}
RUN_COMMAND = """
import sys
from hermes_agent.cli.main import main
code = main(sys.argv[1:])
print("IMPORTED", *sys.modules, file=sys.stderr)
sys.exit(code)
"""
PRINT_HELP = """
import sys
from hermes_agent.cli.main import build_parser
build_parser().format_help()
print("IMPORTED", *sys.modules, file=sys.stderr)
"""
OPEN_CHAT = """
import sys
from hermes_agent.cli.commands import chat
from hermes_agent.tui.app import HermesChat
HermesChat(chat.openings)
print("IMPORTED", *sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Path:
    """A folder of a user for whom the demo run was diagnosed before."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copytree(prepared, folder / "cache")
    return folder


def imported(home: Path, program: str, *words: str) -> set[str]:
    """The top-level packages outside of the standard library that a program imports in a process of its own."""
    packages = {name.partition(".")[0] for name in modules(home, program, *words)} - sys.stdlib_module_names
    return {name for name in packages if not name.startswith("_")}


def modules(home: Path, program: str, *words: str) -> set[str]:
    """All modules that a program imports in a process of its own."""
    own = {"HOME": str(home), "HERMES_DX_CACHE_DIR": str(home / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=home, env=os.environ | own)
    return set(done.stderr.rpartition("IMPORTED")[2].split())


@pytest.mark.parametrize("command", ALLOWED)
def test_a_command_imports_no_more_than_it_needs(home: Path, command: str) -> None:
    words = [str(demo_run()) if word == "RUN" else word for word in command.split()]

    found = imported(home, RUN_COMMAND, *words)

    assert found - OURS - PRESENT <= ALLOWED[command]
    assert "hermes_agent" in found


def test_help_imports_no_module_of_networks_or_of_installed_packages(home: Path) -> None:
    found = modules(home, PRINT_HELP)

    assert not found & {"asyncio", "ssl", "socket", "email", "importlib.metadata", "zipfile", "sqlite3"}
    assert "hermes_agent.cli.commands.slack" in found


def test_a_command_imports_no_other_command(home: Path) -> None:
    found = modules(home, RUN_COMMAND, "--debug", "show", "E1", str(demo_run()))

    assert "hermes_agent.cli.commands.show" in found
    assert not {f"hermes_agent.cli.{name}" for name in COMMANDS} & found - {"hermes_agent.cli.commands.show"}


def test_the_chat_imports_the_screen_alone_before_it_is_shown(home: Path) -> None:
    assert imported(home, OPEN_CHAT) - OURS - PRESENT <= SCREEN
