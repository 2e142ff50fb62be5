"""The structure table counts what it says it counts, and today's code keeps to the bounds of docs/structure.md."""

from __future__ import annotations

from evals.structure import cycles, files_of, folders, read_structure, row, single_importer

TOY = (
    ("tools/__init__.py", ""),
    ("tools/a.py", "from tools import b\n\n\ndef f() -> int:\n    return b.ONE\n"),
    ("tools/b.py", "ONE = 1\n\n\ndef g() -> None:\n    from tools.c import h\n\n    h()\n"),
    ("tools/c.py", "from tools.a import f\nfrom tools.b import ONE\n\n\ndef h() -> int:\n    return f() + ONE\n"),
)


def test_a_late_import_makes_an_importer_and_no_cycle() -> None:
    structure = read_structure(TOY)
    assert structure.importers["tools.b"] == {"tools.a", "tools.c"}
    assert single_importer(structure) == ["tools.a", "tools.c"]
    assert cycles(structure) == []
    assert folders(structure) == {"tools": 3}


def test_modules_that_import_each_other_on_load_are_a_cycle() -> None:
    late_on_top = [(name, text.replace("    from tools.c", "from tools.c", 1)) for name, text in TOY[:2]]
    bound = (*late_on_top, ("tools/b.py", "from tools.c import h\n\nONE = h\n"), TOY[3])
    assert cycles(read_structure(bound)) == [["tools.a", "tools.b", "tools.c"]]


def test_a_row_counts_lines_statements_and_functions() -> None:
    assert row(read_structure(TOY), "tools")[:6] == ("tools", "18", "11", "3", "2", "3 (tools)")


def test_the_code_has_no_import_cycle() -> None:
    assert cycles(read_structure(files_of(None))) == []
