"""Names that must not leave the machine, masked the same way every time and put back in answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from hermes_agent.llm.model import ChatModel, Message, ModelRequest, Reply
from tools.documents import parse_json

# Hosts that everybody may know: links to documentation stay readable.
PUBLIC_HOSTS = re.compile(
    r"(^|\.)(github\.com|pytorch\.org|nvidia\.com|hiascend\.com|huggingface\.co|perfetto\.dev|python\.org|arxiv\.org)$"
)
# Account names that identify nobody, and would mask ordinary words.
COMMON_USERS = frozenset({"root", "user", "users", "home", "ubuntu", "admin", "data", "runner", "shared", "public"})
SHORTEST_NAME = 3

_MASK_FORM = r"\b(?:host|user|path|url|email)-\d+"
_MASK = re.compile(r"\b(host|user|path|url|email)-\d+")
# Each rule may start only where the characters it begins with start: a scan per word, not per character.
_EMAIL = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_URL = r"(?<![\w+.-])[\w+.-]+://[^\s\"'<>)\]}\\,;]*"
_LIBRARY = re.compile(r"^(.*?/(?:site|dist)-packages)/")
_PATH = (
    r"(?<=\")(?:~|[A-Za-z]:)?[/\\][^\"\n]*(?=\")"  # in quotes, where it may hold blanks
    r"|(?<![\w/.:~\\-])(?:~[\w.-]*)?/[\w.@+~-][^\s\"'<>()\[\]{},;:|]*"
    r"|(?<![\w/])[A-Za-z]:\\[^\s\"'<>|,;]+"
)
_HOME = re.compile(r"(?:/home/|/Users/|/scratch/|\\Users\\)([A-Za-z_][\w.-]*)|(?<![\w/])~([A-Za-z_][\w.-]*)/")
_ADDRESS = (
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}(?![\w:])"
    r"|(?<![\w.-])(?:[A-Za-z0-9-]+\.)+(?:local|internal|lan|intra|corp|cluster|svc|home)(?![\w-])"
    r"|(?<![\w.-])(?:[A-Za-z0-9-]+\.){2,}(?:com|org|net|edu|gov|de|cn|uk|fr|ch|eu|jp|io|ai|cloud)(?![\w-])"
)


class Redactor:
    """Masks host names, user names, paths, URLs and e-mail addresses as ``host-1``, ``user-1``, ``path-1`` ...

    ``hosts`` and ``users`` are names found in the run; addresses, qualified names, e-mail
    addresses, absolute paths and the users in home folders are found by their form. The same name gets the
    same mask for the life of the object. A bare name that neither is known nor has such a form stays.
    """

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self._masks: dict[str, str] = {}
        self._originals: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._pattern = _pattern(r"(?!)")
        self._learn("host", hosts)
        self._learn("user", users)

    def mask(self, text: str) -> str:
        """Return ``text`` with every name replaced by its mask."""
        self._learn("user", (name for match in _HOME.finditer(text) for name in match.groups() if name))
        return self._pattern.sub(self._replacement, text)

    def unmask(self, text: str) -> str:
        """Return ``text`` with every mask of ours replaced by the name behind it; other words stay."""
        return _MASK.sub(lambda found: self._originals.get(found[0], found[0]), text)

    def unmask_json(self, text: str) -> str:
        """Unmask the strings of a JSON text so that it stays JSON; any other text as ``unmask`` does."""
        try:
            return json.dumps(self._unmask_value(parse_json(text)), ensure_ascii=False)
        except ValueError:
            return self.unmask(text)

    def _unmask_value(self, value: object) -> object:
        match value:
            case str():
                return self.unmask(value)
            case list():
                return [self._unmask_value(item) for item in value]
            case dict():
                return {self.unmask(str(key)): self._unmask_value(item) for key, item in value.items()}
        return value

    def _learn(self, kind: str, names: Iterable[str]) -> None:
        fresh = {
            name.lower(): kind
            for name in names
            if len(name) >= SHORTEST_NAME and name.lower() not in COMMON_USERS and name.lower() not in self._names
        }
        if not fresh:
            return
        self._names |= fresh
        ordered = sorted(self._names, key=lambda name: (-len(name), name))
        joined = "|".join(map(re.escape, ordered))
        # PyTorch's handler names traces HOST_PID.TIME.pt.trace.json.
        self._pattern = _pattern(rf"(?<![\w-])(?i:{joined})(?!(?!_\d)[\w-])")

    def _replacement(self, found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0]
        if kind in ("url", "host") and _is_public(text):
            return self._mask_lookalikes(text)
        library = _LIBRARY.match(text) if kind == "path" else None
        if library is not None:
            return self._mask_of("path", library[1]) + self._mask_lookalikes(text[library.end(1) :])
        if kind == "mask":
            return self._mask_lookalikes(text)
        return self._mask_of(self._names[text.lower()] if kind == "name" else kind, text)

    def _mask_lookalikes(self, text: str) -> str:
        """A name that looks like a mask gets one as well, or it would be taken for ours on the way back."""
        return _MASK.sub(lambda found: self._mask_of(found[1], found[0]), text)

    def _mask_of(self, kind: str, name: str) -> str:
        if name not in self._masks:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            mask = f"{kind}-{self._counts[kind]}"
            self._masks[name], self._originals[mask] = mask, name
        return self._masks[name]


def _pattern(names: str) -> re.Pattern[str]:
    """Everything that is masked, in one pass: what one rule has masked, no other looks into."""
    groups = {"url": _URL, "email": _EMAIL, "path": _PATH, "name": names, "host": _ADDRESS, "mask": _MASK_FORM}
    return re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in groups.items()))


def _is_public(text: str) -> bool:
    host = text.partition("://")[2] or text
    host = re.split(r"[/?#]", host, maxsplit=1)[0].rpartition("@")[2].partition(":")[0]
    return PUBLIC_HOSTS.search(host.lower()) is not None


class RedactedModel:
    """Masks what goes out and unmasks what comes back; tool descriptions and schemas are ours and stay."""

    def __init__(self, model: ChatModel, redactor: Redactor) -> None:
        self._model = model
        self._redactor = redactor

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self._model.name

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete."""
        masked = replace(request, messages=tuple(self._masked(message) for message in request.messages))
        reply = self._model.complete(masked, cancelled)
        unmask = self._redactor.unmask if request.response_schema is None else self._redactor.unmask_json
        unmask_json = self._redactor.unmask_json
        calls = tuple(replace(call, arguments_json=unmask_json(call.arguments_json)) for call in reply.calls)
        return replace(reply, text=unmask(reply.text), calls=calls)

    def _masked(self, message: Message) -> Message:
        """Reasoning stays: the model wrote it about masked text and wants it back unchanged."""
        mask = self._redactor.mask
        calls = tuple(replace(call, arguments_json=mask(call.arguments_json)) for call in message.tool_calls)
        return replace(message, content=mask(message.content), tool_calls=calls)
