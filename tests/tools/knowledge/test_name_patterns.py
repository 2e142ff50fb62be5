"""What recorded names stand for."""

from __future__ import annotations

import pytest

from tools.knowledge.name_patterns import patterns


@pytest.mark.parametrize(
    ("name", "compiles"),
    [
        ("torch/_inductor/compile_fx.py(750): compile_fx_inner", True),
        ("torch/_inductor/compile_fx.py(812): _compile_fx_inner", True),
        ("torch/_inductor/graph.py(2300): compile_to_module", True),
        ("torch/_inductor/runtime/triton_heuristics.py(300): precompile", True),
        ("inductor_compile", True),
        ("torch/_inductor/standalone_compile.py(62): __call__", False),
        ("torch/_inductor/compile_fx.py(2735): wrapper", False),
        ("torch/_inductor/runtime/autotune_cache.py(487): end_compile", False),
        ("torch/_inductor/runtime/compile_tasks.py(30): run", False),
    ],
)
def test_running_compiled_code_is_no_compilation(name: str, compiles: bool) -> None:
    assert (patterns()["compilation"].search(name) is not None) == compiles
