"""Configuration files, HERMES_DX_* variables and API keys, read without checking the values."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel

from tools.documents import parse_toml
from tools.errors import UsageError

KEY_VARIABLE = "HERMES_DX_API_KEY"
EMBEDDING_KEY_VARIABLE = "HERMES_DX_EMBEDDING_API_KEY"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"  # given to OpenAI alone
MAX_KEY_BYTES = 8192


def find_key(env: Mapping[str, str], base_url: str, key_file: Path | None) -> str | None:
    """Return the key for an endpoint from HERMES_DX_API_KEY, the file or (for OpenAI alone) OPENAI_API_KEY, or None."""
    if key := env.get(KEY_VARIABLE, "").strip():
        return _printable(key, KEY_VARIABLE)
    if key_file is not None:
        return read_key(key_file)
    key = _openai_key(env, base_url)
    return _printable(key, OPENAI_KEY_VARIABLE) if key else None


def find_embedding_key(env: Mapping[str, str], base_url: str) -> str | None:
    """Return the key for an embeddings endpoint, or None."""
    return env.get(EMBEDDING_KEY_VARIABLE, "").strip() or _openai_key(env, base_url) or None


def read_key(path: Path, what: str = "the API key") -> str:
    """Return the key in a private file; ``what`` it holds, for messages."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is no regular file and cannot hold {what}.")
            if status.st_mode & 0o077 or status.st_uid != os.getuid():
                raise UsageError(f"{path} holds {what} but others can get at it; run: chmod 600 {path}")
            text = file.read(MAX_KEY_BYTES + 1).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "it cannot be read") if isinstance(error, OSError) else "it is not plain text"
        raise UsageError(f"{what[:1].upper()}{what[1:]} cannot be read from {path}: {reason}.") from error
    if not text.strip() or len(text) > MAX_KEY_BYTES:
        raise UsageError(f"{path} has to hold {what} and nothing else.")
    return _printable(text.strip(), str(path), what)


def _openai_key(env: Mapping[str, str], base_url: str) -> str:
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    is_openai = parts.scheme == "https" and (host == "openai.com" or host.endswith(".openai.com"))
    return env.get(OPENAI_KEY_VARIABLE, "").strip() if is_openai else ""


def _printable(key: str, where: str, what: str = "the API key") -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        named = f"{what[:1].upper()}{what[1:]}"
        raise UsageError(f"{named} in {where} has blanks or unprintable characters in it; write it again.")
    return key


FILE_NAME = "hermes-dx.toml"
PREFIX = "HERMES_DX_"
MAX_FILE_BYTES = 256 * 1024
SHORT_NAMES = {f"{PREFIX}CASES_DIR": ("cases", "private_dir")}
SECTIONS = (f"{PREFIX}LLM_", f"{PREFIX}BUDGET_", f"{PREFIX}CASES_")
NOT_SETTINGS = (KEY_VARIABLE, EMBEDDING_KEY_VARIABLE, f"{PREFIX}ASCII", f"{PREFIX}RUN_FOLDER")
TYPO = 0.8  # similarity (difflib) from which a variable outside the sections counts as a misspelt setting
# Results of loading, not for the user to set.
DERIVED = frozenset({"api_key", "files", "endpoint_from", "notes", "runs_file", "spans_file"})
_SECRET = re.compile(r"(^|[_-])(api[_-]?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
# Settings that decide where data or keys go: taken from the user's own file or the environment, never from a project's.
USER_ONLY = (
    ("llm", "base_url"),
    ("llm", "api_key_file"),
    ("llm", "spans"),
    ("redact",),
    ("cache_dir",),
    ("cases", "private_dir"),
    ("cases", "send_private"),
    ("cases", "embedding"),
)

Values = dict[str, object]


@dataclass(frozen=True)
class SettingsFile:
    """One configuration file, its values, and the names of settings in it that are not taken from such a file."""

    path: Path
    values: Values
    not_taken: tuple[str, ...] = ()
    is_project: bool = False

    def note(self, own: Path) -> str:
        """Return the sentence about what was not taken, where ``own`` is the user's file; empty where all was."""
        if not self.not_taken:
            return ""
        names = self.not_taken
        listed = f"{', '.join(names[:-1])} and {names[-1]} are" if names[1:] else f"{names[0]} is"
        return (
            f"{self.path}: {listed} not taken from a project file, because such settings decide where data and keys "
            f"go; set them in {own} or in the environment ({PREFIX}*)."
        )


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
    """Return an absolute path: ``~`` is the home, relative paths start at ``folder``."""
    if path.parts[:1] == ("~",):
        return home_folder(env).joinpath(*path.parts[1:])
    return folder / path


def settings_files(cwd: Path, env: Mapping[str, str]) -> list[SettingsFile]:
    """Return the nearest file at or above ``cwd``, then the user's; raises UsageError for one that cannot be read."""
    user_file, start = user_folder(env) / FILE_NAME, cwd.resolve()
    project = next((path for folder in (start, *start.parents) if (path := folder / FILE_NAME).is_file()), None)
    found = []
    if project is not None and project != user_file.resolve():
        _check_owner(project)
        found.append(_of_project(project, _read(project)))
    if user_file.is_file():
        found.append(SettingsFile(user_file, _read(user_file)))
    return found


def environment_values(kind: type[BaseModel], env: Mapping[str, str]) -> Values:
    """Return variables as settings: HERMES_DX_LLM_BASE_URL is llm.base_url; raises UsageError for a misspelt one."""
    values: Values = {}
    known = {f"{PREFIX}{'_'.join(path).upper()}": path for path in _paths(kind)} | SHORT_NAMES
    for name, text in env.items():
        if not text or not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue  # set to nothing is not set, as usual in a shell
        if name in known:
            values = merged(values, _nested(known[name], text))
        elif name.startswith(f"{PREFIX}THRESHOLDS_"):
            values = merged(values, {"thresholds": {name.removeprefix(f"{PREFIX}THRESHOLDS_").lower(): text}})
        elif near := get_close_matches(name, [*known, *NOT_SETTINGS], 1, 0.0 if name.startswith(SECTIONS) else TYPO):
            raise UsageError(f"{name} is not a setting; did you mean {near[0]}?")
    return values


def merged(below: Values, above: Mapping[str, object]) -> Values:
    """Return two sets of settings as one, section by section; ``above`` wins."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        result[name] = merged(old if isinstance(old, dict) else {}, value) if isinstance(value, dict) else value
    return result


def _read(path: Path) -> Values:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes and cannot be a settings file.")
        values = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from error
    for name in _secrets(values, ""):
        raise UsageError(
            f"{path} holds {name[:100]}: keys never go into this file. Remove it and set HERMES_DX_API_KEY, or write "
            f"the key into a file with mode 600 and name that in llm.api_key_file of the user's own settings."
        )
    for name in sorted(DERIVED & set(values)):
        raise UsageError(f"{path}: {name} is not a setting.")
    cases = section(values, "cases")
    if isinstance(folder := cases.get("private_dir"), str) and not folder.startswith("~"):
        cases["private_dir"] = str(path.parent / folder)  # relative to the file that names it
    return values


def section(values: Values, name: str) -> Values:
    """Return a section of the settings; empty where there is none."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def without_model(file: SettingsFile) -> SettingsFile:
    """Return a project's file without its model: with no endpoint of the user's own, that would start sending data."""
    return _without(file, (("llm", "model"),))


def _of_project(path: Path, values: Values) -> SettingsFile:
    """Return the settings of a file that may have come with a run or a repository."""
    return _without(SettingsFile(path, values, is_project=True), USER_ONLY)


def _without(file: SettingsFile, names: tuple[tuple[str, ...], ...]) -> SettingsFile:
    values, left_out = merged({}, file.values), list(file.not_taken)
    for *above, key in names:
        holder = section(values, above[0]) if above else values
        if key in holder:
            del holder[key]
            left_out.append(".".join((*above, key)))
    return replace(file, values=values, not_taken=tuple(left_out))


def _check_owner(path: Path) -> None:
    """Refuse a project's file that somebody else may have written."""
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o002:
        raise UsageError(
            f"{path} belongs to somebody else or can be written by everybody, so its settings are not used; "
            "take ownership of it, or run from another folder."
        )


def trusted_cache(folder: Path | None) -> tuple[Path | None, str]:
    """Return the cache, or None and a sentence where others could plant answers in it."""
    try:
        status = folder.stat() if folder is not None else None
    except OSError:
        return folder, ""  # it will be made, or what is to be stored there is not
    if status is None or (status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o002):
        return folder, ""
    whose = "can be written by everybody" if status.st_mode & 0o002 else "belongs to another user"
    return None, f"The cache {folder} {whose} and is not used; name one of your own in {PREFIX}CACHE_DIR."


def _paths(kind: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _paths(inner, (*above, name))
        elif name != "thresholds" and (above or name not in DERIVED):
            yield (*above, name)


def _secrets(values: Mapping[str, object], above: str) -> Iterator[str]:
    for name, value in values.items():
        if _SECRET.search(name):
            yield f"{above}{name}"
        if isinstance(value, dict):
            yield from _secrets(value, f"{above}{name}.")


def _nested(path: tuple[str, ...], text: str) -> Values:
    return {path[0]: _nested(path[1:], text) if path[1:] else text}
