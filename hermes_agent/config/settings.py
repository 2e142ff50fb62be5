"""Settings: the values of ``hermes-dx.toml``, overridden by the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice
from hermes_agent.config import sources
from hermes_agent.config.sources import EMBEDDING_KEY_VARIABLE, KEY_VARIABLE, Values
from tools.errors import UsageError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

OPENAI_URL = "https://api.openai.com/v1"
MOST_FAULTS = 5  # of a file that are named
LONGEST_NAME = 100  # characters of a setting that does not exist
DEFAULT_PORTS = {"http": 80, "https": 443}

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _described(text: str) -> Any:  # noqa: ANN401 - a field's default, as pydantic's own Field
    """A setting that is None unless it is set."""
    return Field(None, description=text)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ProfileSettings(_Section):
    """Overrides of the endpoint's capability profile; None keeps the built-in value."""

    structured: Literal["json_schema", "forced_tool", "json_object", "plain"] | None = _described(
        "how structured answers are asked for"
    )
    tools: bool | None = _described("whether the model calls tools")
    tool_choice: bool | None = _described("whether it takes `tool_choice`")
    parallel_calls: bool | None = _described("whether it calls several tools at once")
    streamed_usage: bool | None = _described("whether a stream ends with its number of tokens")
    reasoning_echo: bool | None = _described("whether it wants its reasoning sent back")
    token_limit: Literal["max_tokens", "max_completion_tokens", "none"] | None = _described(
        "the name of the limit on tokens"
    )
    context_window: Count | None = _described("tokens of its context")


class LlmSettings(_Section):
    """The language model and its endpoint; without ``model`` Hermes works without one."""

    base_url: Annotated[str, AfterValidator(lambda url: checked_address(url, KEY_VARIABLE))] = Field(
        OPENAI_URL, description="the OpenAI-compatible endpoint"
    )
    model: str | None = _described("the model's name; without one answers come from templates")
    timeout_s: Positive = Field(60.0, description="longest silence of the endpoint in seconds")
    max_retries: Annotated[int, Field(ge=0, le=10)] = Field(3, description="further tries of a call that failed")
    temperature: NotNegative | None = _described("sampling temperature; not sent unless set")
    api_key_file: Path | None = _described(
        "a file with mode 600 that holds the endpoint's key; `api-key` next to the user's file unless set"
    )
    spans: Literal["off", "on", "content"] = Field(
        "off", description="keep spans of model and tool calls on this machine; `content`: with their texts"
    )
    profile: ProfileSettings = ProfileSettings()


class BudgetSettings(_Section):
    """Limits per question; prices are per million tokens."""

    max_calls: Count = Field(12, description="calls of the model")
    max_tokens: Count = Field(200_000, description="tokens, prompts included")
    max_seconds: Positive = Field(300.0, description="seconds")
    max_cost: Positive | None = _described("money, in `currency`; needs both prices")
    prompt_per_million: NotNegative | None = _described("price of prompt tokens")
    completion_per_million: NotNegative | None = _described("price of the model's tokens")
    currency: str = Field("USD", description="name of the currency, as it is shown")

    @model_validator(mode="after")
    def _cost_needs_prices(self) -> Self:
        if (self.prompt_per_million is None) != (self.completion_per_million is None):
            raise ValueError("prompt_per_million and completion_per_million go together")
        if self.max_cost is not None and self.prompt_per_million is None:
            raise ValueError("max_cost needs prompt_per_million and completion_per_million")
        return self


class EmbeddingSettings(_Section):
    """The embedding of case search: built in, MiniLM weights in a folder, or an OpenAI-compatible endpoint."""

    kind: Literal["hashed", "minilm", "endpoint"] = Field("hashed", description="which embedding")
    folder: Path | None = _described("the folder of MiniLM weights")
    base_url: Annotated[str, AfterValidator(lambda url: checked_address(url, EMBEDDING_KEY_VARIABLE))] | None = (
        _described("the endpoint of embeddings")
    )
    model: str | None = _described("the model at that endpoint")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "minilm" and self.folder is None:
            raise ValueError("minilm needs the folder of its weights")
        if self.kind == "endpoint" and not (self.base_url and self.model):
            raise ValueError("endpoint needs base_url and model")
        return self


class CasesSettings(_Section):
    """A team's own cases; ``send_private`` lets a remote model read them, which it otherwise never does."""

    private_dir: Path | None = _described(
        "the folder of a team's own cases; `cases` next to the user's file unless set"
    )
    send_private: bool = Field(False, description="a remote model may read a team's own cases")
    embedding: EmbeddingSettings = EmbeddingSettings()

    def placed(self, cwd: Path, env: Mapping[str, str]) -> Self:
        """Return the same with absolute paths; relative ones start at ``cwd``."""
        private = self.private_dir and sources.absolute(self.private_dir, cwd, env)
        weights = self.embedding.folder and sources.absolute(self.embedding.folder, cwd, env)
        embedding = self.embedding.model_copy(update={"folder": weights})
        return self.model_copy(update={"private_dir": private, "embedding": embedding})


class Settings(_Section):
    """Everything a user can set, checked; made with ``Settings.load``."""

    llm: LlmSettings = LlmSettings()
    budget: BudgetSettings = BudgetSettings()
    cases: CasesSettings = CasesSettings()
    # None: the folder is not this user's alone to change, so nothing is kept.
    cache_dir: Path | None = Field(
        description="the folder of what can be made again; `~/.cache/hermes-dx` (XDG_CACHE_HOME) unless set"
    )
    redact: bool | None = _described(
        "mask host names, user names, paths and addresses before anything is sent; unless set, for remote endpoints"
    )
    log_pattern: str | None = _described(
        "how step lines of a job's output look where no known program prints them: an RE2 expression with the groups "
        "`step`, `time`, `time_s`, `time_ms`, `samples`, `tokens`"
    )
    thresholds: dict[str, Finite] = Field(
        {}, description="overrides of `tools/knowledge/thresholds.yaml` by name, which gives unit, reason and source"
    )
    api_key: SecretStr | None = Field(default=None, exclude=True)
    files: tuple[Path, ...] = ()  # the files read, the most specific first
    endpoint_from: str = "default"  # the file or variable that named the endpoint
    spans_file: Path | None = None  # in the user's state folder; set with ``llm.spans``
    runs_file: Path | None = None  # of the registered runs, in the user's configuration folder
    notes: tuple[str, ...] = ()  # sentences about settings and keys that were not taken

    @classmethod
    def load(cls, cwd: Path, env: Mapping[str, str]) -> Self:
        """Return the settings for a folder: environment, then the nearest ``hermes-dx.toml`` above, then the user's.

        What decides where data or keys go is not taken from a project's file; ``notes`` names it.
        Raises UsageError with the file or variable and what is wrong.
        """
        user_file = sources.user_folder(env) / sources.FILE_NAME
        overrides = sources.environment_values(cls, env)
        files = sources.settings_files(cwd, env)
        own = next((file.values for file in files if not file.is_project), {})
        if not {"base_url", "model"} & {*sources.section(own, "llm"), *sources.section(overrides, "llm")}:
            files = [sources.without_model(file) if file.is_project else file for file in files]
        values: Values = {
            "cache_dir": str(sources.xdg_folder(env, "XDG_CACHE_HOME", ".cache")),
            "cases": {"private_dir": str(sources.user_folder(env) / "cases")},
        }
        for file in reversed(files):
            values = sources.merged(values, file.values)
            cls._checked(values, str(file.path))
        values = sources.merged(values, overrides)
        values["files"] = tuple(file.path for file in files)
        named = {"HERMES_DX_LLM_BASE_URL": overrides, str(user_file): own}
        naming = (name for name, each in named.items() if "base_url" in sources.section(each, "llm"))
        values["endpoint_from"] = next(naming, "default")
        settings = cls._checked(values, "the environment (HERMES_DX_*)" if overrides else "the settings")
        key, key_note = settings._key(env, own)
        cache, cache_note = sources.trusted_cache(settings.cache_dir and sources.absolute(settings.cache_dir, cwd, env))
        notes = (*(file.note(user_file) for file in files), key_note, cache_note)
        spans = None
        if settings.llm.spans != "off":
            spans = sources.xdg_folder(env, "XDG_STATE_HOME", ".local/state") / "spans.jsonl"
        placed = {"cache_dir": cache, "cases": settings.cases.placed(cwd, env), "spans_file": spans}
        placed["runs_file"] = sources.user_folder(env) / "runs.json"
        return settings.model_copy(update={**placed, "api_key": key, "notes": tuple(filter(None, notes))})

    @classmethod
    def _checked(cls, values: Values, where: str) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = error.errors(include_input=False, include_url=False, include_context=False)
            more = f"; and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
            raise UsageError(f"{where}: {'; '.join(map(_fault, faults[:MOST_FAULTS]))}{more}.") from error

    def _key(self, env: Mapping[str, str], own: Values) -> tuple[SecretStr | None, str]:
        """Return the endpoint's key, and a sentence where a key file is for another endpoint (``own``: user's file)."""
        if self.llm.model is None:
            return None, ""
        folder, named = sources.user_folder(env), self.llm.api_key_file
        path = sources.absolute(named or Path("api-key"), folder, env)
        usable = path if named or path.exists() else None
        configured, note = sources.section(own, "llm").get("base_url"), ""
        elsewhere = isinstance(configured, str) and origin(configured) != origin(self.llm.base_url)
        if usable is not None and elsewhere and not env.get(f"{sources.PREFIX}LLM_API_KEY_FILE"):
            usable = None
            if not env.get(KEY_VARIABLE, "").strip():
                note = (
                    f"The key in {path} is for {configured} and is not sent to {self.llm.base_url}; give the key of "
                    f"that endpoint in {KEY_VARIABLE} or name its file in {sources.PREFIX}LLM_API_KEY_FILE."
                )
        key = sources.find_key(env, self.llm.base_url, usable)
        return (None if key is None else SecretStr(key)), note

    @property
    def is_loopback(self) -> bool:
        """Return whether the endpoint is on this machine."""
        return is_loopback(self.llm.base_url)

    @property
    def redacts(self) -> bool:
        """Return whether names are masked before anything is sent."""
        return self._masks(self.llm.base_url)

    def _masks(self, base_url: str) -> bool:
        return not is_loopback(base_url) if self.redact is None else self.redact

    @property
    def sends_private_cases(self) -> bool:
        """Return whether the model may read a team's own cases: on this machine always, remote only if allowed."""
        return self.is_loopback or self.cases.send_private

    def without_model(self) -> Self:
        """Return the same settings with no model configured."""
        return self.model_copy(update={"llm": self.llm.model_copy(update={"model": None})})

    def key_text(self) -> str | None:
        """Return the API key itself; for the client only."""
        return self.api_key.get_secret_value() if self.api_key is not None else None

    def embedding(self, env: Mapping[str, str], mask: Callable[[str], str]) -> EmbeddingChoice:
        """Return the embedding of case search; a remote endpoint gets names through ``mask``."""
        wanted = self.cases.embedding
        if wanted.kind == "hashed":
            return HASHED
        if wanted.kind == "minilm":
            return EmbeddingChoice("minilm", folder=wanted.folder)
        address = wanted.base_url or ""
        return EmbeddingChoice(
            "endpoint",
            base_url=address,
            model=wanted.model or "",
            key=sources.find_embedding_key(env, address),
            mask=mask if self._masks(address) else None,
            sends_private=is_loopback(address) or self.cases.send_private,
        )


def checked_address(value: str, key_name: str) -> str:
    """Return an endpoint's address without a closing slash; raises ``ValueError`` if it is none or holds a key."""
    parts = urlsplit(value)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.port == 0:  # a wrong port raises ValueError
        raise ValueError("it has to start with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        raise ValueError(f"it must not hold a user, a password or a query; keys go into {key_name}")
    return value.rstrip("/")


def origin(address: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of an address, which together say whose server it is."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def is_loopback(base_url: str) -> bool:
    """Return whether an address stays on this machine; names other than localhost count as remote."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _fault(fault: ErrorDetails) -> str:
    """One phrase, without the value, which may be a secret."""
    name = ".".join(map(str, fault["loc"]))[:LONGEST_NAME] or "the settings"
    unknown = fault["type"] == "extra_forbidden"
    return f"{name} is not a setting" if unknown else f"{name}: {fault['msg'].removeprefix('Value error, ')}"
