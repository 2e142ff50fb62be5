"""Where settings are written: files and variables, read without judging their values."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from tools.errors import UsageError

FILE_NAME = "hermes-dx.toml"
PREFIX = "HERMES_DX_"
MAX_FILE_BYTES = 1_000_000
# Shorter names of settings.
SHORT_NAMES = {f"{PREFIX}CASES_DIR": ("cases", "private_dir")}
# Not for the user to write: results of loading.
_DERIVED = frozenset({"api_key", "files", "endpoint_from"})
_SECRET = re.compile(r"(^|[_-])(api[_-]?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)

Values = dict[str, object]


@dataclass(frozen=True)
class FoundValues:
    """What one source says."""

    path: Path
    values: Values


@dataclass(frozen=True)
class EnvironmentValues:
    """What the HERMES_DX_* variables say."""

    values: Values


def user_folder(env: Mapping[str, str]) -> Path:
    """The user's configuration folder for Hermes."""
    base = Path(env.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else home_folder(env) / ".config") / "hermes-dx"


def home_folder(env: Mapping[str, str]) -> Path:
    """The user's home."""
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def absolute(path: Path, folder: Path, env: Mapping[str, str]) -> Path:
    """A path as written in the settings: ``~`` is the home, anything relative starts at ``folder``."""
    if path.parts[:1] == ("~",):
        return home_folder(env).joinpath(*path.parts[1:])
    return folder / path


def file_values(cwd: Path, env: Mapping[str, str]) -> list[FoundValues]:
    """The nearest file at or above ``cwd``, then the user's; raises UsageError for one that cannot be read."""
    user_file = user_folder(env) / FILE_NAME
    start = cwd.resolve()
    project = next((path for folder in (start, *start.parents) if (path := folder / FILE_NAME).is_file()), None)
    found = []
    if project is not None and project != user_file.resolve():
        values = _read(project)
        _refuse_foreign(project, values)
        _place_cases(project, values)
        found.append(FoundValues(project, values))
    if user_file.is_file():
        values = _read(user_file)
        _place_cases(user_file, values)
        found.append(FoundValues(user_file, values))
    return found


def environment_values(kind: type[BaseModel], env: Mapping[str, str]) -> EnvironmentValues:
    """The HERMES_DX_* variables as settings; raises UsageError for one in a section that has no such setting.

    Names are the section and the key in capitals: HERMES_DX_LLM_BASE_URL, HERMES_DX_CACHE_DIR.
    Variables outside of the sections belong to other parts of the program and are left alone.
    """
    values: Values = {}
    known = {name: path for path in _paths(kind) for name in [PREFIX + "_".join(path).upper()]} | SHORT_NAMES
    for name, text in env.items():
        if not text:
            continue  # set to nothing is not set, as usual in a shell
        if name in known:
            _put(values, known[name], text)
        elif name.startswith(f"{PREFIX}THRESHOLDS_"):
            _put(values, ("thresholds", name.removeprefix(f"{PREFIX}THRESHOLDS_").lower()), text)
        elif name.startswith((f"{PREFIX}LLM_", f"{PREFIX}BUDGET_")):
            raise UsageError(f"{name} is no setting; there are: {', '.join(sorted(known))}.")
    return EnvironmentValues(values)


def merged(below: Values, above: Mapping[str, object]) -> Values:
    """Two sets of settings as one, section by section; ``above`` wins."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[name] = merged(old, value) if both else value  # type: ignore[arg-type]
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
        raise UsageError(f"{path}: {name} is no setting.")
    return values


def _refuse_foreign(path: Path, values: Values) -> None:
    """A file beside a run may have been written by anybody; it must not choose which of our files is sent."""
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o002:
        raise UsageError(
            f"{path} belongs to somebody else or can be written by everybody, so its settings are not followed; "
            "take ownership of it, or run from another folder."
        )
    section = values.get("llm")
    if isinstance(section, dict) and "api_key_file" in section:
        raise UsageError(
            f"{path} names llm.api_key_file, which only the user's own settings or HERMES_DX_LLM_API_KEY_FILE may do."
        )
    section = values.get("cases")
    if isinstance(section, dict) and "send_private" in section:
        raise UsageError(
            f"{path} sets cases.send_private, which only the user's own settings or HERMES_DX_CASES_SEND_PRIVATE may "
            "do."
        )
    if isinstance(section, dict) and "embedding" in section:
        raise UsageError(
            f"{path} sets cases.embedding, which only the user's own settings or HERMES_DX_CASES_EMBEDDING_* may do: "
            "it says where the words of questions and cases are sent."
        )


def _place_cases(path: Path, values: Values) -> None:
    """A relative folder of cases lies beside the file that names it."""
    section = values.get("cases")
    folder = section.get("private_dir") if isinstance(section, dict) else None
    if isinstance(section, dict) and isinstance(folder, str) and not folder.startswith("~"):
        section["private_dir"] = str(path.parent / folder)


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


def _put(values: Values, path: tuple[str, ...], text: str) -> None:
    for name in path[:-1]:
        inner = values.setdefault(name, {})
        assert isinstance(inner, dict)
        values = inner
    values[path[-1]] = text
