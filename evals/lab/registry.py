"""Every fault that the lab can record.

To add one, take the file of its family in ``evals/lab/faults`` and append a ``Fault``: a function that makes the slow
and the fixed world of an amount, and the amounts per workload and strength. Where no knob carries it yet, give
``evals/lab/scenarios.py`` a field whose default is the healthy choice and let the program obey it, or write the
environment fault in ``evals/lab/environment_faults``. A fault lives in the data, the model or the environment, never as
a mark in what is recorded. Then ``python -m evals.lab record FAULT`` says whether fixing saves enough for the label to
be true.
"""

from __future__ import annotations

from evals.lab.fault import Fault, Variant
from evals.lab.faults import communication, computation, cpu, gpu, io, memory, parallel, storage
from tools.errors import UsageError

FAULTS: tuple[Fault, ...] = (
    *io.FAULTS,
    *cpu.FAULTS,
    *computation.FAULTS,
    *communication.FAULTS,
    *parallel.FAULTS,
    *memory.FAULTS,
    *storage.FAULTS,
    *gpu.FAULTS,
)


def fault(fault_id: str) -> Fault:
    """The fault of that id."""
    for candidate in FAULTS:
        if candidate.id == fault_id:
            return candidate
    known = ", ".join(candidate.id for candidate in FAULTS)
    raise UsageError(f"the lab has no fault {fault_id!r}; it can record {known}")


def variant(known: Fault, name: str) -> Variant:
    """The fault's variant of that name."""
    found = known.variant(name)
    if found is None:
        names = ", ".join(each.name for each in known.variants)
        raise UsageError(f"{known.id} has no variant {name!r}; it has {names}")
    return found
