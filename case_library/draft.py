"""Cases in the making: a draft becomes a checked private case and a file of the user's own folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from case_library.library import CaseError, validated

if TYPE_CHECKING:
    from case_library.schema import Case

Draft = Mapping[str, object]
LONGEST_ID = 60
WIDTH = 110


def private_case(draft: Draft, where: str = "the draft", taken: Collection[str] = ()) -> Case:
    """Return the draft as a private case, its id not among ``taken``; raises ``CaseError`` naming a wrong field."""
    title = draft.get("title")
    fields: dict[str, object] = {"source": {"kind": "internal"}, **draft, "private": True}
    if "id" not in fields and isinstance(title, str):
        fields["id"] = identifier(title, taken)
    return validated(fields, where)


def identifier(title: str, taken: Collection[str] = ()) -> str:
    """An id made from a title: its words in small letters, joined by dashes, with a number where it is taken."""
    words = " ".join(re.findall(r"[a-z0-9]+", title.lower()))
    chosen = shorten(words, LONGEST_ID, placeholder="").replace(" ", "-") or "case"
    tries = (chosen, *(f"{chosen}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in tries if name not in taken)


def objections(case: Case, library: Sequence[Case]) -> tuple[str, ...]:
    """Faults that the check would find in a library with this case in it, as far as they are about the case."""
    from case_library.check import faults_of

    taken = [f"there is a case {case.id!r} already; choose another id." for other in library if other.id == case.id]
    others = [other for other in library if other.id != case.id]
    about = re.compile(rf"(?<![\w-]){re.escape(case.id)}(?![\w-])")
    return (*taken, *(fault for fault in faults_of([*others, case]) if about.search(fault)))


def written(case: Case) -> str:
    """The case as YAML, fields in the order of the schema, empty ones left out."""
    import yaml

    fields = case.model_dump(mode="json", exclude_defaults=True)
    text: str = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text


def store(case: Case, folder: Path) -> Path:
    """Write the case into the folder, made if need be for its owner only; raises ``CaseError`` where it cannot."""
    path = folder / f"{case.id}.yaml"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(written(case))
    except FileExistsError as error:
        raise CaseError(f"{path} exists and is not overwritten; give the case another id.") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CaseError(f"{path} cannot be written ({reason}); choose another folder in cases.private_dir.") from error
    return path
