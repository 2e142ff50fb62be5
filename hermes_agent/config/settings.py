"""The settings: what is written in ``hermes-dx.toml``, corrected by the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from hermes_agent.config.credentials import find_key
from hermes_agent.config.sources import absolute, environment_values, file_values, home_folder, merged, user_folder
from tools.errors import UsageError

OPENAI_URL = "https://api.openai.com/v1"

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ProfileSettings(_Section):
    """Corrections to what is known about the endpoint; None leaves the built-in profile."""

    structured: Literal["json_schema", "forced_tool", "json_object", "plain"] | None = None
    tools: bool | None = None
    tool_choice: bool | None = None
    parallel_calls: bool | None = None
    streamed_usage: bool | None = None
    reasoning_echo: bool | None = None
    token_limit: Literal["max_tokens", "max_completion_tokens", "none"] | None = None
    context_window: Count | None = None


class LlmSettings(_Section):
    """Which model, where. Without ``model`` Hermes works without one."""

    base_url: str = OPENAI_URL
    model: str | None = None
    timeout_s: Positive = 60.0
    max_retries: Annotated[int, Field(ge=0, le=10)] = 3
    temperature: NotNegative | None = None
    api_key_file: Path | None = None
    profile: ProfileSettings = ProfileSettings()

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return checked_address(value, "HERMES_DX_API_KEY")


class BudgetSettings(_Section):
    """What one question may cost; prices are per million tokens."""

    max_calls: Count = 12
    max_tokens: Count = 200_000
    max_seconds: Positive = 300.0
    max_cost: Positive | None = None
    prompt_per_million: NotNegative | None = None
    completion_per_million: NotNegative | None = None
    currency: str = "USD"

    @model_validator(mode="after")
    def _cost_needs_prices(self) -> Self:
        if (self.prompt_per_million is None) != (self.completion_per_million is None):
            raise ValueError("prompt_per_million and completion_per_million go together")
        if self.max_cost is not None and self.prompt_per_million is None:
            raise ValueError("max_cost needs prompt_per_million and completion_per_million")
        return self


class EmbeddingSettings(_Section):
    """How recall compares texts: ``hashed`` needs no download and no network, ``minilm`` a folder of ONNX weights.

    ``endpoint`` asks an OpenAI-compatible embeddings endpoint at ``base_url`` for the vectors of ``model``.
    """

    kind: Literal["hashed", "minilm", "endpoint"] = "hashed"
    folder: Path | None = None
    base_url: str | None = None
    model: str | None = None

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return None if value is None else checked_address(value, "HERMES_DX_EMBEDDING_API_KEY")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "minilm" and self.folder is None:
            raise ValueError("minilm needs the folder of its weights")
        if self.kind == "endpoint" and not (self.base_url and self.model):
            raise ValueError("endpoint needs base_url and model")
        return self


class CasesSettings(_Section):
    """A team's own cases; ``send_private`` lets a remote model read them, which it otherwise never does."""

    private_dir: Path | None = None
    send_private: bool = False
    embedding: EmbeddingSettings = EmbeddingSettings()


class Settings(_Section):
    """Everything a user can set, checked; made with ``Settings.load``."""

    llm: LlmSettings = LlmSettings()
    budget: BudgetSettings = BudgetSettings()
    cases: CasesSettings = CasesSettings()
    cache_dir: Path
    redact: bool | None = None  # None: on for remote endpoints, off on this machine
    thresholds: dict[str, Finite] = {}
    api_key: SecretStr | None = Field(default=None, exclude=True)
    files: tuple[Path, ...] = ()  # what was read, the most specific first
    endpoint_from: str = "default"  # who named the endpoint: a file, a variable or nobody

    @classmethod
    def load(cls, cwd: Path, env: Mapping[str, str]) -> Settings:
        """Settings as seen from a folder; raises UsageError naming the file or variable and what is wrong.

        The environment goes before the ``hermes-dx.toml`` nearest above ``cwd``, and that before the one in
        the user's configuration folder.
        """
        found = file_values(cwd, env)
        values: dict[str, object] = {
            "cache_dir": _default_cache(env),
            "cases": {"private_dir": str(user_folder(env) / "cases")},
        }
        for part in reversed(found):
            values = merged(values, part.values)
            _checked(cls, values, str(part.path))
        overrides = environment_values(cls, env)
        values = merged(values, overrides.values)
        values["files"] = tuple(part.path for part in found)
        values["endpoint_from"] = _endpoint_from(overrides.values, [(str(part.path), part.values) for part in found])
        settings = _checked(cls, values, "the environment (HERMES_DX_*)" if overrides.values else "the settings")
        settings = settings.model_copy(
            update={"cache_dir": absolute(settings.cache_dir, cwd, env), "cases": _placed(settings.cases, cwd, env)}
        )
        if settings.llm.model is None:
            return settings
        named = settings.llm.api_key_file
        key_file = _usual_key_file(env) if named is None else absolute(named, user_folder(env), env)
        key = find_key(env, settings.llm.base_url, key_file)
        return settings if key is None else settings.model_copy(update={"api_key": SecretStr(key)})

    @property
    def is_loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return is_loopback(self.llm.base_url)

    @property
    def redacts(self) -> bool:
        """Whether names are masked before anything is sent."""
        return not self.is_loopback if self.redact is None else self.redact

    @property
    def sends_private_cases(self) -> bool:
        """Whether the model may read a team's own cases: one on this machine always, a remote one only if allowed."""
        return self.is_loopback or self.cases.send_private

    def without_model(self) -> Self:
        """The same settings with no model configured."""
        return self.model_copy(update={"llm": self.llm.model_copy(update={"model": None})})

    def key_text(self) -> str | None:
        """The API key itself; for the client only."""
        return self.api_key.get_secret_value() if self.api_key is not None else None


def checked_address(value: str, key_name: str) -> str:
    """The address of an endpoint without a closing slash; raises ``ValueError`` for one that is none or holds a key."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it has to start with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        raise ValueError(f"it must not hold a user, a password or a query; keys go into {key_name}")
    return value.rstrip("/")


def is_loopback(base_url: str) -> bool:
    """Whether an address stays on this machine; names other than localhost are taken to be remote."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(kind: type[Settings], values: Mapping[str, object], where: str) -> Settings:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{where}: {'; '.join(_faults(error))}.") from error


def _faults(error: ValidationError) -> list[str]:
    """One phrase per fault, without the values: one of them may be a secret."""
    phrases = []
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        name = ".".join(str(part) for part in fault["loc"]) or "the settings"
        unknown = fault["type"] == "extra_forbidden"
        said = fault["msg"].removeprefix("Value error, ")
        phrases.append(f"{name} is no setting" if unknown else f"{name}: {said}")
    return phrases


def _placed(cases: CasesSettings, cwd: Path, env: Mapping[str, str]) -> CasesSettings:
    folder, weights = cases.private_dir, cases.embedding.folder
    changed: dict[str, object] = {}
    if folder is not None:
        changed["private_dir"] = absolute(folder, cwd, env)
    if weights is not None:
        changed["embedding"] = cases.embedding.model_copy(update={"folder": absolute(weights, cwd, env)})
    return cases.model_copy(update=changed)


def _default_cache(env: Mapping[str, str]) -> Path:
    base = Path(env.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else home_folder(env) / ".cache") / "hermes-dx"


def _usual_key_file(env: Mapping[str, str]) -> Path | None:
    path = user_folder(env) / "api-key"
    return path if path.exists() else None


def _endpoint_from(overrides: Mapping[str, object], files: list[tuple[str, Mapping[str, object]]]) -> str:
    for where, values in [("HERMES_DX_LLM_BASE_URL", overrides), *files]:
        section = values.get("llm")
        if isinstance(section, Mapping) and "base_url" in section:
            return where
    return "default"
