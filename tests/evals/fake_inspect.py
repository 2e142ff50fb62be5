"""The part of inspect_ai that the adapter uses, so that it is tested where inspect_ai is not installed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any


@dataclass
class State:
    """What a solver changes."""

    sample_id: str
    metadata: dict[str, Any] = field(default_factory=dict)
    output: Any = None


@dataclass
class FakeModel:
    """Gives one text again and again and keeps what it was sent."""

    text: str
    asked: list[Any] = field(default_factory=list)

    async def generate(self, turns: Any, tools: Any, choice: Any, config: Any) -> Any:  # noqa: ANN401
        """One answer with its usage."""
        self.asked.append(turns)
        usage = SimpleNamespace(input_tokens=40, output_tokens=10)
        return SimpleNamespace(completion=self.text, usage=usage, stop_reason="stop")

    def __str__(self) -> str:
        return "fake/model"


def _plain(**_: object) -> Any:  # noqa: ANN401
    return lambda function: function


def _message(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**fields)


def modules(model: FakeModel) -> dict[str, ModuleType]:
    """The modules by name, ready for ``sys.modules``."""
    made = {name: ModuleType(f"inspect_ai{name}") for name in ("", ".dataset", ".solver", ".scorer", ".model")}
    contents: dict[str, dict[str, Any]] = {
        "": {"Task": lambda **fields: SimpleNamespace(**fields)},
        ".dataset": {"Sample": lambda **fields: SimpleNamespace(**fields)},
        ".solver": {"solver": _plain},
        ".scorer": {"scorer": _plain, "mean": lambda: "mean", "stderr": lambda: "stderr", "Score": _message},
        ".model": {
            "get_model": lambda: model,
            "GenerateConfig": _message,
            "ModelOutput": SimpleNamespace(from_content=lambda name, text: SimpleNamespace(completion=text)),
            **dict.fromkeys(("ChatMessageSystem", "ChatMessageUser", "ChatMessageAssistant"), _message),
        },
    }
    for name, members in contents.items():
        for member, value in members.items():
            setattr(made[name], member, value)
    return {module.__name__: module for module in made.values()}
