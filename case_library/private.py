"""A team's own cases: a folder beside the public ones, read with them and marked, never in place of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.library import CaseError, case_files, parse_case, read_case_bytes

if TYPE_CHECKING:
    from case_library.schema import Case


@dataclass(frozen=True)
class PrivateCases:
    """The cases of a private folder, each marked private, and one sentence for each file that was left out."""

    cases: tuple[Case, ...] = ()
    left_out: tuple[str, ...] = ()


def private_contents(folder: Path | None) -> dict[Path, bytes]:
    """The raw case files of a private folder by path; nothing when there is no such folder or no file in it.

    Raises ``CaseError`` when a file cannot be read or there are too many.
    """
    if folder is None or not folder.is_dir() or not any(folder.glob("*.yaml")):
        return {}
    return {path: read_case_bytes(path) for path in case_files(folder)}


def parse_private(contents: Mapping[Path, bytes], public: Collection[str] = ()) -> PrivateCases:
    """The cases of private files. A file that is no case, or has the id of a public one, is left out and said.

    One wrong file of a team must not take the diagnosis of every run with it.
    """
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
            continue
        cases.append(case.model_copy(update={"private": True}))
    return PrivateCases(tuple(cases), tuple(left_out))


def load_private(folder: Path | None, public: Collection[str] = ()) -> PrivateCases:
    """The cases of a private folder, each marked private; nothing when there is no such folder."""
    return parse_private(private_contents(folder), public)
