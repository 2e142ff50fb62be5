"""Case files read from a folder and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.documents import DepthError, parse_yaml
from tools.errors import InputError

if TYPE_CHECKING:
    from case_library.schema import Case

BUNDLED_CASES = Path(__file__).parent / "cases"
MAX_CASE_BYTES = 64 * 1024
MAX_CASES = 20_000
LONGEST_QUOTE = 300  # characters of a file that an error repeats


class CaseError(InputError):
    """A case file or the folder of cases cannot be used."""


def case_files(folder: Path) -> tuple[Path, ...]:
    """The case files of a folder in name order; raises ``CaseError`` if there is no folder or no case in it."""
    if not folder.is_dir():
        raise CaseError(f"{folder} is not a folder; give the folder that holds the case files (*.yaml).")
    paths = tuple(sorted(folder.glob("*.yaml")))
    if not paths:
        raise CaseError(f"{folder} holds no case file (*.yaml); add one or give another folder.")
    if len(paths) > MAX_CASES:
        raise CaseError(f"{folder} holds {len(paths)} case files, more than the {MAX_CASES} allowed; split the folder.")
    return paths


def read_case_bytes(path: Path) -> bytes:
    """The raw content of a case file; raises ``CaseError`` if it cannot be read or is too large to be a case."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CASE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CaseError(f"{path} cannot be read ({reason}); check the file and its permissions.") from error
    if len(content) > MAX_CASE_BYTES:
        raise CaseError(f"{path} is larger than {MAX_CASE_BYTES // 1024} KiB, too large for a case; shorten it.")
    return content


def parse_case(path: Path, content: bytes) -> Case:
    """One case from the content of its file; raises ``CaseError`` naming the file, the field and the fault."""
    case = validated(read_mapping(path, content), str(path))
    if case.id != path.stem:
        raise CaseError(f"{path}: id {case.id!r} differs from the file name {path.stem!r}; make them the same.")
    return case


def read_mapping(path: Path, content: bytes) -> dict[str, object]:
    """The fields of a YAML file; raises ``CaseError`` when it holds anything else."""
    import yaml

    try:
        data = parse_yaml(content)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise CaseError(f"{path} is not valid YAML{where}; fix the syntax there.") from error
    except DepthError as error:
        raise CaseError(f"{path} is nested too deeply for a case; a case has two levels.") from error
    if not isinstance(data, dict):
        raise CaseError(f"{path} must hold one mapping of case fields; start it with 'id:'.")
    return data


def validated(fields: dict[str, object], where: str) -> Case:
    """The fields as a case; raises ``CaseError`` naming the first field that is missing or wrong."""
    from pydantic import ValidationError

    from case_library.schema import Case

    try:
        return Case.model_validate(fields)
    except ValidationError as error:
        fault, others = error.errors(include_url=False)[0], error.error_count() - 1
        field = f"field {'.'.join(map(str, fault['loc']))[:LONGEST_QUOTE]!r}: " if fault["loc"] else ""
        more = f" (and {others} more)" if others else ""
        message = fault["msg"].removeprefix("Value error, ")
        if len(message) > LONGEST_QUOTE:
            message = f"{message[:LONGEST_QUOTE]}..."
        raise CaseError(f"{where}: {field}{message}{more}; fix the field.") from error


def load_cases(folder: Path = BUNDLED_CASES) -> tuple[Case, ...]:
    """All cases of a folder in id order; raises ``CaseError`` at the first file that is not a case."""
    return tuple(parse_case(path, read_case_bytes(path)) for path in case_files(folder))


@dataclass(frozen=True)
class PrivateCases:
    """The cases of a private folder, each marked private, and one sentence for each file that was left out."""

    cases: tuple[Case, ...] = ()
    left_out: tuple[str, ...] = ()


def private_contents(folder: Path | None) -> dict[Path, bytes]:
    """Return the raw files of a private folder by path, if any; raises ``CaseError`` for one that cannot be read."""
    if folder is None or not folder.is_dir() or not any(folder.glob("*.yaml")):
        return {}
    return {path: read_case_bytes(path) for path in case_files(folder)}


def parse_private(contents: Mapping[Path, bytes], public: Collection[str] = ()) -> PrivateCases:
    """Return the cases of private files; one that is no case, or has a public id, is left out with a sentence."""
    cases: list[Case] = []
    left_out: list[str] = []
    for path, content in contents.items():
        try:
            case = parse_case(path, content)
        except CaseError as error:
            left_out.append(f"{error} The private case is left out.")
            continue
        if case.id in public:
            left_out.append(f"{path}: there is a public case {case.id!r}; rename the private one. It is left out.")
        else:
            cases.append(case.model_copy(update={"private": True}))
    return PrivateCases(tuple(cases), tuple(left_out))


def load_private(folder: Path | None, public: Collection[str] = ()) -> PrivateCases:
    """The cases of a private folder, each marked private; nothing when there is no such folder."""
    return parse_private(private_contents(folder), public)
