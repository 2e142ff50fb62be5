"""NCCL's output of all files of a job as that of one: with ``NCCL_DEBUG_FILE`` each process writes its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tools.run.recorded.job_log import Cited, Communicator, Connected, NcclFacts, RankPlace

COMM_ID = "0x"  # how a key begins that is a commId: the same one in all processes


def joined_nccl(files: Sequence[NcclFacts]) -> NcclFacts:
    """The facts of all files: each setting, network and reason once, communicators with the connections of all."""
    return NcclFacts(
        version=next((each.version for each in files if each.version is not None), None),
        network=_once(each.network for each in files),
        interfaces=_once(each.interfaces for each in files),
        settings={name: value for each in reversed(files) for name, value in each.settings.items()},
        gpu_direct_off=_once(each.gpu_direct_off for each in files),
        gpu_direct_on=_once(each.gpu_direct_on for each in files),
        fallbacks=_once(each.fallbacks for each in files),
        unread_topology=_once(each.unread_topology for each in files),
        path_bandwidths=_once(each.path_bandwidths for each in files),
        hosts=tuple(dict.fromkeys(host for each in files for host in each.hosts)),
        lines=sum(each.lines for each in files),
        communicators=tuple(map(_joined, _by_key(each.communicators for each in files))),
        places=_of_largest([place for each in files for place in each.places]),
        warnings=tuple(warning for each in files for warning in each.warnings),
        unjoined=next(map(_joined, _by_key(() if each.unjoined is None else (each.unjoined,) for each in files)), None),
    )


def _once(files: Iterable[tuple[Cited, ...]]) -> tuple[Cited, ...]:
    """Each value with the first file and line that states it."""
    found: dict[str, Cited] = {}
    for own in files:
        for each in own:
            found.setdefault(each.value, each)
    return tuple(found.values())


def _by_key(files: Iterable[tuple[Communicator, ...]]) -> list[list[Communicator]]:
    found: dict[str, list[Communicator]] = {}
    for own in files:
        for each in own:
            found.setdefault(each.key, []).append(each)
    return list(found.values())


def _joined(parts: list[Communicator]) -> Communicator:
    """One communicator of what each file holds of it."""
    first = parts[0]
    fewest = min(parts, key=lambda each: (each.channels is None, each.channels or 0))
    return replace(
        first,
        ranks=tuple(sorted({rank for each in parts for rank in each.ranks})),
        channels=fewest.channels,
        channels_line=fewest.channels_line,
        channels_file=fewest.channels_file,
        connections=_connections(parts),
        init_s=max((each.init_s for each in parts if each.init_s is not None), default=None),
        links=frozenset[str]().union(*(each.links for each in parts)),
        processes=frozenset[tuple[str, str, str]]().union(*(each.processes for each in parts)),
        open_ends={},
    )


def _connections(parts: list[Communicator]) -> tuple[Connected, ...]:
    """The connections of each file, of each how many are counted already.

    These are the other ends of such that an earlier file holds. Files of the same processes, as a copy or the output of
    all ranks next to one file of each, hold the same connections.
    """
    members, counted = set[object](), dict[str, int]()
    open_ends: dict[str, dict[int, int]] = {}
    found = []
    for part in sorted(parts, key=lambda each: -len(_members(each))):  # the file with the most processes first
        again = not members.isdisjoint(_members(part))
        for each in part.connections:
            kind = each.transport
            if again:
                known = min(each.count, counted.get(kind, 0))
            else:
                known = _paired(open_ends.setdefault(kind, {}), part.open_ends.get(kind, {}))
            counted[kind] = counted.get(kind, 0) + each.count - known
            found.append(replace(each, known=known))
        members |= _members(part)
    return tuple(sorted(found, key=lambda each: each.file))


def _members(part: Communicator) -> set[object]:
    """What shows that two files are of the same processes: ranks are those of one communicator only with its commId."""
    return set(part.ranks if part.key.startswith(COMM_ID) and part.ranks else part.processes)


def _paired(known: dict[int, int], own: dict[int, int]) -> int:
    """How many of a file's open ends are of connections with an end in earlier files; the others are kept."""
    paired = 0
    for connection, lines in own.items():
        before = known.pop(connection, 0)
        if before + lines:
            known[connection] = before + lines
        paired += min(abs(before), abs(lines)) if before * lines < 0 else 0
    return paired


def _of_largest(places: Sequence[RankPlace]) -> tuple[RankPlace, ...]:
    """The members of the largest communicators: ranks of smaller ones are not those of the job."""
    largest = max((each.size for each in places), default=0)
    return tuple(dict.fromkeys(each for each in places if each.size == largest))
