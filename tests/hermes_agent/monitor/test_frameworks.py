"""What torch reports of profilers and compilations."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from hermes_agent.monitor.system import framework_sample


def module(name: str, **names: object) -> ModuleType:
    made = ModuleType(name)
    for each, value in names.items():
        setattr(made, each, value)
    return made


def test_without_torch_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch.autograd.profiler", "torch._dynamo.utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert framework_sample() == {}


def test_a_running_profiler_and_the_time_of_compilations_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = {"_compile.compile_inner": [0.5, 0.25], "build_guards": [0.1]}
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", module("profiler", _is_profiler_enabled=True))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module("utils", compilation_time_metrics=timed))
    assert framework_sample() == {"profiler_active": 1, "compilations": 2, "compile_us": 750_000}
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", module("profiler"))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module("utils", compilation_time_metrics={}))
    assert framework_sample() == {"compilations": 0, "compile_us": 0}
