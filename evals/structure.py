"""The size and shape of the code, per package: ``python -m evals.structure [--before REVISION] [--write]``.

Counts are physical lines of the product's Python files as git lists them. A module has a single importer when one
other product module imports it, at the top or late; entry points that nothing imports are not counted. A cycle is a
set of modules that import each other when they are loaded.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import median, quantiles

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "structure.md"
PACKAGES = ("tools", "case_library", "prompts", "hermes_agent", "evals")
COLUMNS = "package|lines|statements|modules|single importer|largest folder|file median / p90|function median / p90"


@dataclass(frozen=True)
class Module:
    """One parsed file: its size, what it imports, and the length of each of its functions in lines."""

    name: str
    lines: int
    statements: int
    functions: tuple[int, ...]
    imports: frozenset[str]  # candidates: "a.b" and "a.b.name" for ``from a.b import name``
    imports_on_load: frozenset[str]


@dataclass(frozen=True)
class Structure:
    """All modules of one revision, by name, and who imports whom."""

    modules: Mapping[str, Module]
    importers: Mapping[str, frozenset[str]] = field(default_factory=dict)


def read_structure(files: Iterable[tuple[str, str]]) -> Structure:
    """Return the structure of product files given as (path, text)."""
    modules = {module.name: module for module in (_module(path, text) for path, text in files)}
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for target in _resolved(module.imports, modules) - {module.name}:
            importers[target].add(module.name)
    return Structure(modules, {name: frozenset(those) for name, those in importers.items()})


def _module(path: str, text: str) -> Module:
    tree = ast.parse(text)
    name = ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Module(
        name,
        len(text.splitlines()),
        sum(isinstance(node, ast.stmt) for node in ast.walk(tree)),
        tuple((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions),
        frozenset(_imported(ast.walk(tree))),
        frozenset(_imported(tree.body)),
    )


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _resolved(names: Iterable[str], modules: Mapping[str, Module]) -> set[str]:
    """The modules among the candidates; a package counts only where none of its modules is named."""
    found = {name for name in names if name in modules}
    return {name for name in found if modules[name].lines or not any(other.startswith(f"{name}.") for other in found)}


def single_importer(structure: Structure, package: str = "") -> list[str]:
    """Return the modules that exactly one other product module imports."""
    return sorted(name for name, those in structure.importers.items() if len(those) == 1 and name.startswith(package))


def folders(structure: Structure, package: str = "") -> dict[str, int]:
    """Return the number of modules in each folder, empty ``__init__`` files left out."""
    counts: dict[str, int] = {}
    for module in _of(structure, package):
        if module.lines:
            parent = module.name.rpartition(".")[0]
            counts[parent] = counts.get(parent, 0) + 1
    return counts


def cycles(structure: Structure) -> list[list[str]]:
    """Return the sets of modules that import each other on load, each sorted."""
    names = sorted(structure.modules)
    places = {name: place for place, name in enumerate(names)}
    reached = np.eye(len(names), dtype=bool)
    for row, name in enumerate(names):
        for target in _resolved(structure.modules[name].imports_on_load, structure.modules):
            reached[row, places[target]] = True
    while (further := _by_way_of_one(reached)).sum() > reached.sum():
        reached = further
    rings = {tuple(np.flatnonzero(both)) for both in reached & reached.T if both.sum() > 1}
    return [[names[row] for row in ring] for ring in sorted(rings)]


def _by_way_of_one(reached: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What is reached over one more module, by counts of ways: products of booleans are many times slower."""
    ways = reached.astype(np.float32)
    return ways @ ways > 0


def _of(structure: Structure, package: str) -> list[Module]:
    return [
        each
        for name, each in structure.modules.items()
        if not package or name == package or name.startswith(f"{package}.")
    ]


def row(structure: Structure, package: str) -> Sequence[str]:
    """Return the figures of a package, or of all with an empty name, as text in the order of ``COLUMNS``."""
    modules = [module for module in _of(structure, package) if module.lines]
    prefix = f"{package}." if package else ""
    folder, most = max(folders(structure, package).items(), key=lambda item: item[1])
    return (
        package or "**all**",
        f"{sum(module.lines for module in modules):,}",
        f"{sum(module.statements for module in modules):,}",
        f"{len(modules)}",
        f"{len(single_importer(structure, prefix))}",
        f"{most} ({folder or '.'})",
        _spread([module.lines for module in modules]),
        _spread([length for module in modules for length in module.functions]),
    )


def _spread(sizes: Sequence[int]) -> str:
    spread = [median(sizes), quantiles(sizes, n=10)[-1]] if len(sizes) > 1 else sizes
    return " / ".join(f"{size:.0f}" for size in spread)


def files_of(revision: str | None) -> Iterator[tuple[str, str]]:
    """Yield path and text of the product's Python files in the working tree, or in a revision."""
    if revision is None:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        known = [name for name in listed if name.endswith(".py") and (ROOT / name).is_file()]
        yield from ((name, (ROOT / name).read_text()) for name in known)
        return
    packed = subprocess.run(["git", "archive", revision, *PACKAGES], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                yield member.name, content.read().decode()


def page(structure: Structure, before: Structure | None, revision: str | None) -> str:
    """Return the tables as Markdown, the older revision first."""
    parts = ["# Structure of the code", "", "Made by `python -m evals.structure --before 9b79189 --write`.", ""]
    if before is not None:
        parts += [f"Before ({revision}):", "", *_markdown(before), "", "Now:", ""]
    parts += _markdown(structure)
    rings = cycles(structure)
    named = "; ".join(", ".join(ring) for ring in rings) or "none"
    parts += ["", f"Import cycles on load: {named}.", "", *__doc__.split("\n\n", 1)[1].strip().split("\n")]
    return "\n".join(parts) + "\n"


def _markdown(structure: Structure) -> list[str]:
    rows = [row(structure, package) for package in (*PACKAGES, "")]
    head = COLUMNS.split("|")
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def main() -> None:
    """Print the tables, or write them to docs/structure.md."""
    parser = argparse.ArgumentParser(prog="python -m evals.structure", description=__doc__)
    parser.add_argument("--before", metavar="REVISION", help="a git revision to show above the working tree")
    parser.add_argument("--write", action="store_true", help="write docs/structure.md instead of printing")
    arguments = parser.parse_args()
    before = read_structure(files_of(arguments.before)) if arguments.before else None
    text = page(read_structure(files_of(None)), before, arguments.before)
    if arguments.write:
        PAGE.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
