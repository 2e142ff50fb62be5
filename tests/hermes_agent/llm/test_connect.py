"""From settings to a model, and what is loaded on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import BudgetExceeded
from hermes_agent.llm.capabilities import Capabilities, profile_for
from hermes_agent.llm.endpoint import capabilities_of, connect, new_budget
from hermes_agent.llm.model import Message, ModelRequest, Usage
from tests.hermes_agent.llm.fake_endpoint import said, serving


def settings_for(tmp_path: Path, **env: str) -> Settings:
    return Settings.load(tmp_path, {"HOME": str(tmp_path), **env})


def test_without_a_model_there_is_none(tmp_path: Path) -> None:
    assert connect(settings_for(tmp_path)) is None


@pytest.mark.parametrize(("redact", "sent"), [("true", "is host-1 slow?"), ("", "is node17 slow?")])
def test_names_are_masked_on_the_wire_when_the_settings_say_so(tmp_path: Path, redact: str, sent: str) -> None:
    with serving(said("host-1 is.")) as endpoint:
        settings = settings_for(
            tmp_path,
            HERMES_DX_LLM_BASE_URL=endpoint.url,
            HERMES_DX_LLM_MODEL="tiny",
            HERMES_DX_API_KEY="s3cret",
            HERMES_DX_REDACT=redact,
        )
        model = connect(settings, hosts=["node17"])
        assert model is not None
        reply = model.complete(ModelRequest((Message("user", "is node17 slow?"),)), lambda: False)
    assert endpoint.bodies[0]["messages"][0]["content"] == sent
    assert endpoint.headers[0]["authorization"] == "Bearer s3cret"
    assert reply.text == ("node17 is." if redact else "host-1 is.")


def test_the_profile_is_built_in_and_corrected_by_the_user(tmp_path: Path) -> None:
    deepseek = profile_for("https://api.deepseek.com/v1", "deepseek-chat")
    assert (deepseek.structured, deepseek.reasoning_echo) == ("json_object", True)
    assert profile_for("https://api.openai.com/v1", "gpt-5-mini").token_limit == "max_completion_tokens"
    assert profile_for("https://api.openai.com/v1", "gpt-5-mini").temperature is False
    assert profile_for("https://api.openai.com/v1", "gpt-4.1").temperature is True
    assert profile_for("http://openai.com.evil.example/v1", "x") == Capabilities()
    settings = settings_for(
        tmp_path,
        HERMES_DX_LLM_BASE_URL="https://api.deepseek.com/v1",
        HERMES_DX_LLM_PROFILE_STRUCTURED="plain",
        HERMES_DX_LLM_PROFILE_CONTEXT_WINDOW="8192",
    )
    corrected = capabilities_of(settings)
    assert (corrected.structured, corrected.reasoning_echo, corrected.context_window) == ("plain", True, 8192)


def test_the_budget_follows_the_settings(tmp_path: Path) -> None:
    settings = settings_for(
        tmp_path,
        HERMES_DX_BUDGET_MAX_COST="0.001",
        HERMES_DX_BUDGET_PROMPT_PER_MILLION="1",
        HERMES_DX_BUDGET_COMPLETION_PER_MILLION="4",
        HERMES_DX_BUDGET_CURRENCY="EUR",
    )
    with pytest.raises(BudgetExceeded, match=r"0\.0050 of 0\.001 EUR"):
        new_budget(settings).spend(Usage(1000, 1000))


def test_importing_the_adapter_loads_no_client_and_no_network() -> None:
    modules = [
        "hermes_agent.config.settings",
        "hermes_agent.llm.endpoint",
        "hermes_agent.llm.tool_loop",
        "prompts.load",
    ]
    code = f"import sys, {', '.join(modules)}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert set(modules) <= loaded
    assert loaded.isdisjoint({"openai", "httpx", "httpx2", "langgraph", "numpy", "pandas", "http.server", "textual"})
