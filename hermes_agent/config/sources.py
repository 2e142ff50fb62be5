"""Configuration files and HERMES_DX_* variables, read without checking the values."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel

from hermes_agent.config.credentials import EMBEDDING_KEY_VARIABLE, KEY_VARIABLE
from tools.errors import UsageError

FILE_NAME = "hermes-dx.toml"
PREFIX = "HERMES_DX_"
MAX_FILE_BYTES = 1_000_000
SHORT_NAMES = {f"{PREFIX}CASES_DIR": ("cases", "private_dir")}
SECTIONS = (f"{PREFIX}LLM_", f"{PREFIX}BUDGET_", f"{PREFIX}CASES_")
NOT_SETTINGS = (KEY_VARIABLE, EMBEDDING_KEY_VARIABLE, f"{PREFIX}ASCII", f"{PREFIX}RUN_FOLDER")
TYPO = 0.8  # similarity (difflib) from which a variable outside the sections counts as a misspelt setting
_DERIVED = frozenset({"api_key", "files", "endpoint_from"})  # results of loading, not for the user to set
_SECRET = re.compile(r"(^|[_-])(api[_-]?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
# Settings that only the user's own file or the environment may make: section, key, variable, reason.
_USER_ONLY = (
    ("llm", "api_key_file", "HERMES_DX_LLM_API_KEY_FILE", ""),
    ("cases", "send_private", "HERMES_DX_CASES_SEND_PRIVATE", ""),
    ("cases", "embedding", "HERMES_DX_CASES_EMBEDDING_*", ": it decides where questions and cases are sent"),
)

Values = dict[str, object]


@dataclass(frozen=True)
class SettingsFile:
    """One configuration file and its values."""

    path: Path
    values: Values


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the user's configuration folder for Hermes."""
    return xdg_folder(env, "XDG_CONFIG_HOME", ".config")


def xdg_folder(env: Mapping[str, str], variable: str, usual: str) -> Path:
    """Return Hermes's folder below the one that a variable names, or below the usual one in the home."""
    base = Path(env.get(variable, ""))
    return (base if base.is_absolute() else home_folder(env) / usual) / "hermes-dx"


def home_folder(env: Mapping[str, str]) -> Path:
    """Return the user's home."""
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def absolute(path: Path, folder: Path, env: Mapping[str, str]) -> Path:
    """A path of the settings as an absolute one: ``~`` is the home, relative paths start at ``folder``."""
    if path.parts[:1] == ("~",):
        return home_folder(env).joinpath(*path.parts[1:])
    return folder / path


def settings_files(cwd: Path, env: Mapping[str, str]) -> list[SettingsFile]:
    """The nearest file at or above ``cwd``, then the user's; raises UsageError for one that cannot be read."""
    user_file = user_folder(env) / FILE_NAME
    start = cwd.resolve()
    project = next((path for folder in (start, *start.parents) if (path := folder / FILE_NAME).is_file()), None)
    found = []
    if project is not None and project != user_file.resolve():
        found.append(SettingsFile(project, _read(project)))
        _check_project_file(found[0])
    if user_file.is_file():
        found.append(SettingsFile(user_file, _read(user_file)))
    return found


def environment_values(kind: type[BaseModel], env: Mapping[str, str]) -> Values:
    """The HERMES_DX_* variables as settings; raises UsageError for a misspelt one, with the nearest name.

    A name is the section and the key in capitals: HERMES_DX_LLM_BASE_URL, HERMES_DX_CACHE_DIR. Variables that are
    neither in a section nor close to a setting belong to other programs and are ignored.
    """
    values: Values = {}
    known = {f"{PREFIX}{'_'.join(path).upper()}": path for path in _paths(kind)} | SHORT_NAMES
    for name, text in env.items():
        if not text or not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue  # set to nothing is not set, as usual in a shell
        if name in known:
            values = merged(values, _nested(known[name], text))
        elif name.startswith(f"{PREFIX}THRESHOLDS_"):
            values = merged(values, {"thresholds": {name.removeprefix(f"{PREFIX}THRESHOLDS_").lower(): text}})
        else:
            _check_spelling(name, [*known, *NOT_SETTINGS])
    return values


def _check_spelling(name: str, known: list[str]) -> None:
    """Raise UsageError for a variable of a section, and for one that looks like a setting."""
    in_section = name.startswith(SECTIONS)
    near = get_close_matches(name, known, n=1, cutoff=0.0 if in_section else TYPO)
    if near:
        raise UsageError(f"{name} is not a setting; did you mean {near[0]}?")


def merged(below: Values, above: Mapping[str, object]) -> Values:
    """Two sets of settings as one, section by section; ``above`` wins."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _read(path: Path) -> Values:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes and cannot be a settings file.")
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from error
    for name in _secrets(values, ""):
        raise UsageError(
            f"{path} holds {name}: keys never go into this file. Remove it and set HERMES_DX_API_KEY, or write the "
            f"key into a file with mode 600 and name that in llm.api_key_file of the user's own settings."
        )
    for name in sorted(_DERIVED & set(values)):
        raise UsageError(f"{path}: {name} is not a setting.")
    section = values.get("cases")
    folder = section.get("private_dir") if isinstance(section, dict) else None
    if isinstance(section, dict) and isinstance(folder, str) and not folder.startswith("~"):
        section["private_dir"] = str(path.parent / folder)  # relative to the file that names it
    return values


def _check_project_file(file: SettingsFile) -> None:
    """Refuse what somebody else may have written next to a run: it must not decide which of our files are sent."""
    status = file.path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o002:
        raise UsageError(
            f"{file.path} belongs to somebody else or can be written by everybody, so its settings are not used; "
            "take ownership of it, or run from another folder."
        )
    for section, key, variable, reason in _USER_ONLY:
        values = file.values.get(section)
        if isinstance(values, dict) and key in values:
            raise UsageError(
                f"{file.path} sets {section}.{key}, which only the user's own settings or {variable} may do{reason}."
            )


def _paths(kind: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _paths(inner, (*above, name))
        elif name != "thresholds" and (above or name not in _DERIVED):
            yield (*above, name)


def _secrets(values: Mapping[str, object], above: str) -> Iterator[str]:
    for name, value in values.items():
        if _SECRET.search(name):
            yield f"{above}{name}"
        if isinstance(value, dict):
            yield from _secrets(value, f"{above}{name}.")


def _nested(path: tuple[str, ...], text: str) -> Values:
    return {path[0]: _nested(path[1:], text) if path[1:] else text}
