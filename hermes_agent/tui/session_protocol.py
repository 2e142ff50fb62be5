"""What the chat needs from the rest: a session to talk to, and ways to open one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hermes_agent.locations.places import Place
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit
    from hermes_agent.session import Answer, Shown


class ChatSession(Protocol):
    """One run under discussion; every method works for a while and is called from one thread at a time."""

    def diagnose(self, emit: Emit) -> Diagnosis:
        """The diagnosis of the run."""

    def ask(self, question: str, emit: Emit, cancelled: Callable[[], bool]) -> Answer:
        """An answer to free text about the run."""

    def show(self, identifier: str) -> Shown:
        """What stands behind ``E7``, ``C2`` or ``A1``, measured again where it is a figure."""

    def close(self) -> None:
        """Gives back what was opened."""


@dataclass(frozen=True)
class Openings:
    """The ways to a session. They import what is heavy, so the chat calls them in its worker only.

    ``given`` is the run named on the command line, ``model`` the configured language model's name.
    """

    path: Callable[[tuple[Place, ...]], ChatSession]
    demo: Callable[[], ChatSession]
    given: Callable[[], ChatSession] | None = None
    given_title: str = ""
    model: str | None = None
