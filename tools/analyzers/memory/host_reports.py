"""What a machine reports of its memory, file systems and storage at one moment: free, df and tests by fio."""

from __future__ import annotations

from tools.analyzers.support.answers import clean, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.views.counters import CounterView, counter_view
from tools.views.profile import Profile

SHOWN = 4
SWAPPING = "{0} are swapped in and out on average, {1} at most: "
BY_SWAPPING = "memory of processes is moved to a disk and back, and a disk may be busy by that and not by data."
SHARED = "/dev/shm"
IN_SHARED = " Workers of a data loader hand batches over through it."
TEST_ONLY = "It is a test of the storage by itself: what the training reads, and how long it waits, is not in it."


@check(
    *("memory.host_reports", "Memory and file systems of a machine", "Is memory or a file system of the host full?"),
    from_records="samples",
)
def host_memory(profile: Profile) -> Check | None:
    """Swapping, the memory that is available, swap in use, and file systems that are nearly full."""
    view = counter_view(profile)
    if view is None:
        return None
    limits = profile.thresholds
    left, swap = (
        measured(profile, "machine_counter_pct", counter=each, statistic=statistic)
        for each, statistic in (("memory_available_pct", "min"), ("swap_used_pct", "max"))
    )
    full = _full(profile, view, limits["file_system_full_pct"])
    short = left is not None and left.value < limits["host_memory_left_pct"]
    facts = [each for each in (left, swap) if each is not None]
    texts = ["{} of the machine's memory is available"] * (left is not None) + ["{} of its swap is in use"] * (
        swap is not None
    )
    listed = ", ".join(text.format(f"{{{at}}}") for at, text in enumerate(texts))
    said = [say(f"{listed}.", *facts)] if facts else []
    swapped = swapping(profile)
    if short or full or swapped:
        return symptom(*swapped, *said, *full)
    return clean(*said) if said else None


def swapping(profile: Profile) -> list[Sentence]:
    """How much is swapped, where it is more than a few pages now and then."""
    mean, most = (
        measured(profile, "machine_counter_mib_per_s", counter="swapped_bytes_per_s", statistic=each)
        for each in ("mean", "max")
    )
    if mean is None or most is None or mean.value < profile.thresholds["swapped_mib_per_s"]:
        return []
    return [say(SWAPPING + BY_SWAPPING, mean, most)]


def _full(profile: Profile, view: CounterView, limit_pct: float) -> list[Sentence]:
    """The file systems that are nearly full, the fullest first."""
    own = view.machine("disk_used_pct", None)
    own = own[own["part"].str.startswith("/").to_numpy(dtype=bool)]
    parts = own.groupby("part")["value"].max().sort_values(ascending=False, kind="stable")
    said = []
    for part in map(str, parts[parts >= limit_pct].index[:SHOWN]):
        fact = measured(profile, "machine_counter_pct", counter="disk_used_pct", statistic="max", part=part)
        if fact is not None:
            end = IN_SHARED if part == SHARED else ""
            said.append(say(f"The file system {{n0}} is full to {{0}}.{end}", fact, names=(part,)))
    return said


@check(
    *("io.storage_test", "Tests of storage", "What does a test of the storage reach?"),
    from_records="samples",
)
def storage_test(profile: Profile) -> Check | None:
    """Rate, requests and their time of each job of fio."""
    view = counter_view(profile)
    parts = [] if view is None else list(dict.fromkeys(view.machine("tested_storage_bytes_per_s", None)["part"]))
    said = []
    for part in map(str, parts[:SHOWN]):
        facts = [
            fact
            for metric, counter in (
                ("machine_counter_mib_per_s", "tested_storage_bytes_per_s"),
                ("machine_counter_per_s", "tested_requests_per_s"),
                ("machine_counter_ms", "tested_storage_wait_ms"),
            )
            if (fact := measured(profile, metric, counter=counter, part=part)) is not None
        ]
        words = ("{0}", ", that is {1} (requests)", "; a request takes {2}")
        said.append(say(f"The job {{n0}} of fio reaches {''.join(words[: len(facts)])}.", *facts, names=(part,)))
    return symptom(*said, say(TEST_ONLY)) if said else None
