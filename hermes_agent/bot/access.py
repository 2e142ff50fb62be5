"""Who may ask, and how often."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from hermes_agent.bot.platform import Incoming

MOST_USERS = 10_000  # whose questions are counted; the one that asked longest ago is forgotten


@dataclass(frozen=True)
class Access:
    """Ids of teams, channels and users that may ask. A list that names anything denies everything else.

    Without any list nobody may ask, unless ``everyone``.
    """

    teams: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    everyone: bool = False

    @classmethod
    def of(cls, teams: Iterable[str], channels: Iterable[str], users: Iterable[str], everyone: bool) -> Access:
        """The lists as given on a command line."""
        return cls(frozenset(teams), frozenset(channels), frozenset(users), everyone)

    @property
    def open(self) -> bool:
        """Whether no list restricts anything."""
        return not (self.teams or self.channels or self.users)

    def allows(self, event: Incoming) -> bool:
        """Return whether the event may be acted on: every list that is given has to name it."""
        if self.open:
            return self.everyone
        return (
            (not self.teams or (bool(event.teams) and self.teams.issuperset(event.teams)))
            and (not self.channels or event.place.channel in self.channels)
            and (not self.users or event.user in self.users)
        )


class Budget:
    """At most ``most`` questions and clicks of a user within ``seconds``; times are those of one running clock."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._warned: dict[str, float] = {}

    def take(self, user: str, now: float) -> bool:
        """Count one; False where the user has none left."""
        times = self._times.setdefault(user, deque())
        self._times.move_to_end(user)
        while times and now - times[0] >= self.seconds:
            times.popleft()
        if len(times) >= self.most:
            return False
        times.append(now)
        while len(self._times) > MOST_USERS:
            gone, _ = self._times.popitem(last=False)
            self._warned.pop(gone, None)
        return True

    def warn(self, user: str, now: float) -> str:
        """One sentence for a user who has none left, "" where it was said since the last question that passed."""
        times = self._times[user]
        if self._warned.get(user, -1.0) >= times[-1]:
            return ""
        self._warned[user] = now
        wait = max(int(times[0] + self.seconds - now), 0) // 60 + 1
        minutes = "a minute" if wait == 1 else f"{wait} minutes"
        within = f"{self.most} times within {self.seconds / 60:.0f} minutes"
        return f"You asked {within}, the most allowed; ask again in {minutes}."
