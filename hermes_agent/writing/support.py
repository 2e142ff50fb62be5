"""Whether a cited figure is about what the sentence speaks of: a right figure under a wrong name misleads as well.

The family of a figure is told by its metric and arguments; figures of the whole step belong to none and fit anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hermes_agent.questions.subjects import Subject
from hermes_agent.report.diagnosis import EvidenceRecord
from tools.taxonomy import causes, family_of

# Pattern over "metric argument argument ..." -> family. The first that fits counts.
TOPICS: tuple[tuple[str, str], ...] = (
    (r"\bdata_wait\b|^loader_|\bdata_loader\b|^upload_|\breading\b|\bprocessing\b", "io"),
    (r"^(collective|(un)?matched_coll|communication_|exposed_(wait|transfer)|hideable_|wait_|lone_)", "communication"),
    (r"^(bus_bandwidth|message_bytes|mergeable|steps_waited)|\b(exposed|overlapped)_communication\b", "communication"),
    (r"^(memory_|allocation_)|\ballocation\b", "memory"),
    (r"^(launch|empty_queue|blocking_|short_operator|operators_per_step|profil)|\bdispatch\b", "cpu"),
    (
        r"^(kernel_|rank_kernel|matrix_|streaming_|roofline_|device_peak|host_math|device_slow)|\bcompute\b",
        "computation",
    ),
)
PATTERNS = tuple((re.compile(pattern), family) for pattern, family in TOPICS)


def family_of_figure(record: EvidenceRecord) -> str | None:
    """The family a figure belongs to; None where it is of the whole step or cannot be told."""
    cause = record.arguments.get("cause")
    if isinstance(cause, str) and cause in causes():
        return family_of(cause)
    words = " ".join([record.metric, *(str(value) for value in record.arguments.values())])
    return next((family for pattern, family in PATTERNS if pattern.search(words)), None)


def misplaced(subjects: Iterable[Subject], cited: Iterable[EvidenceRecord]) -> str:
    """What is wrong when no cited figure belongs to any family that the sentence speaks of; "" when one does."""
    spoken = {family_of(cause) for subject in subjects for cause in subject.causes}
    if "parallel" in spoken:
        spoken.add("communication")  # overlap is told in figures of what overlaps
    told = {record.id: family_of_figure(record) for record in cited}
    if not spoken or not told or any(family is None or family in spoken for family in told.values()):
        return ""
    figures = ", ".join(f"{name} is about {family}" for name, family in told.items())
    return f"the sentence speaks of {' and '.join(sorted(spoken))}, but {figures}"
