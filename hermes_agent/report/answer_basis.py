"""On what the answer rests: which ranks and files were read, which are cut or left out, and what no step covers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hermes_agent.model.display import spans
from tools.findings import Sentence
from tools.judgement.catalog import measure
from tools.judgement.verdict import outside_steps_rank
from tools.run.model import Source, SourceStatus
from tools.views.profile import Profile

PLAIN_REASON = re.compile(r"[\w ,.:;()'/-]{1,200}")  # no place of a sentence, citation, code or line end
FILES_NAMED = 3


def one_of_files(profile: Profile) -> list[Sentence]:
    """Which files' steps are used where others hold steps of the same ranks: they may be of two runs."""
    log = profile.run.job_log
    series = profile.series
    if log is None or not log.unused or series is None or series.origin != "job_log":
        return []
    used, unused = log.used[:FILES_NAMED], log.unused[:FILES_NAMED]
    names = (*used, *unused)
    places = [f"{{n{at}}}" for at in range(len(names))]
    also = " and others" if len(log.used) > FILES_NAMED else ""
    more = f" and {len(log.unused) - FILES_NAMED} more" if len(log.unused) > FILES_NAMED else ""
    left_out = (
        "holds steps of the same ranks and is" if len(log.unused) == 1 else "hold steps of the same ranks and are"
    )
    of, others = ", ".join(places[: len(used)]) + also, ", ".join(places[len(used) :]) + more
    text = f"The steps are those of {of}; {others} {left_out} left out: of two runs `hermes-dx compare FIRST SECOND`"
    text += " shows the difference."
    return [Sentence(text, (), names)]


def outside_steps(profile: Profile) -> list[Sentence]:
    """A large share of the recording that is in none of the inferred steps."""
    rank = outside_steps_rank(profile)
    if rank is None:
        return []
    text = (
        f"Steps are inferred: on rank {rank} {{0}} of the recording is in none of them; no figure per step covers it."
    )
    return [Sentence(text, (measure(profile, "outside_steps_pct", rank=rank),))]


MOST_UNREAD = 3  # traces that could not be read and are named


def screened(profile: Profile) -> list[Sentence]:
    """On how many of how many ranks the answer rests, where not all were read in full."""
    screening = profile.run.screening
    if screening is None:
        return []
    counts = tuple(measure(profile, name) for name in ("summarized_ranks", "traced_ranks", "ranks_read_in_full"))
    text = "This answer rests on {0} of {1} traced ranks, compared by summary; {2} were read in full."
    if screening.found < (profile.run.layout.world_size or 0):
        text += " Other ranks of the job have no trace."
    said = [Sentence(text, counts)]
    if screening.unread:
        names = tuple(each.name for each in screening.unread[:MOST_UNREAD])
        more = len(screening.unread) - len(names)
        listed = ", ".join(f"{{n{place}}}" for place in range(len(names)))
        said.append(Sentence(f"Not read: {listed}{f' and {more} more' if more else ''} (-v says why).", (), names))
    return said


def stands_for(profile: Profile, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """The ranks, in unbroken rows, that these stand for with others like them; empty where it is only these."""
    screening = profile.run.screening
    if screening is None or not ranks:
        return []
    stood = screening.standing_for(ranks, profile.run.rank_numbers)
    return [] if set(stood) == set(ranks) else spans(stood)


MOST_CUT = 3  # cut traces that are named one by one


CUT = (
    "is cut: its events end after {0} of text ({1} events), and whole threads, streams or kinds of events may be "
    "missing."
)
DAMAGED = (
    "is damaged in the middle: {1} events were found in {0} of text, others are missing, and they may be whole "
    "threads, streams or kinds of events."
)


def cut_traces(profile: Profile) -> list[Sentence]:
    """The traces that are cut or damaged, where, and what that means."""
    ranks = sorted({each.rank for each in profile.run.cut})
    if not ranks:
        return []
    shown = {each.rank: each for each in profile.run.cut}
    said = [
        Sentence(
            f"The trace {{n0}} of rank {rank} {DAMAGED if shown[rank].within else CUT}",
            (measure(profile, "cut_trace_text_bytes", rank=rank), measure(profile, "cut_trace_events", rank=rank)),
            (shown[rank].path.name,),
        )
        for rank in ranks[:MOST_CUT]
    ]
    if len(ranks) > MOST_CUT:
        said.append(Sentence(f"The traces of {len(ranks) - MOST_CUT} more ranks are cut or damaged too."))
    rest = " They are left out: nothing is measured on them, and the other ranks are not compared with them."
    if len(ranks) == 1:
        rest = " It is left out: nothing is measured on it, and the other ranks are not compared with it."
    if profile.traced:
        said[-1] = replace(said[-1], template=said[-1].template + rest)
    return said


def partly_read(profile: Profile) -> list[Sentence]:
    """Files that were read in part only or not at all."""
    if profile.run.screening is not None:
        return _about_files(profile, "partial", "Only a part of {n0}%s could be read; the answer rests on that part.")
    return [
        *_about_files(profile, "partial", "Only a part of {n0}%s could be read; the answer rests on that part."),
        *_about_files(profile, "excluded", "{n0}%s could not be used%s; the answer does not cover %s."),
    ]


def _about_files(profile: Profile, status: SourceStatus, text: str) -> list[Sentence]:
    cut = {each.path for each in profile.run.cut}
    found = [source for source in profile.run.sources if source.status == status and source.path not in cut]
    if not found:
        return []
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    reason = _reason(found[0])
    words = (others, f"; the first{reason}" if others and reason else reason, "them" if others else "it")
    return [Sentence(text % words[: text.count("%s")], (), (found[0].path.name,))]


def _reason(source: Source) -> str:
    """Why a file could not be used, where its note can stand within a sentence; the notes have it in any case."""
    words = source.note
    for known in ("left out: ", f"{source.path}: ", f"{source.path.name}: "):
        words = words.removeprefix(known)
    words = f"it {words}" if words.startswith("is ") else words
    return f": {words}" if PLAIN_REASON.fullmatch(words) else ""
