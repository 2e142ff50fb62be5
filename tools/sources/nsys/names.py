"""Names in an Nsight Systems export as the PyTorch profiler writes them, so that patterns of names fit both."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from tools.run.kinds import EventKind

# The library's version that CUPTI puts behind a call, and the default stream that it was compiled for.
CALL_VERSION = re.compile(r"(?:_ptsz|_ptds)?_v\d{4,6}(?:_ptsz|_ptds)?\Z")
# What torch.autograd.profiler.emit_nvtx puts behind the name of an operator (getNvtxStr in PyTorch).
OPERATOR_DETAILS = re.compile(r", (?:stashed )?(?:seq|op_id|sizes|input_op_ids) = ")
SEQUENCE = re.compile(r", seq = (\d{1,18})(?:,|\Z)")
SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids = |\Z)")
LONGEST_SIZES = 4096
OPERATOR_ID, OPERATOR_SEQUENCE = ", op_id = ", ", seq = "
LONGEST_SEQUENCE = 18  # digits, as in SEQUENCE
MOST_KEPT = 1 << 14  # different operators
PROGRAM_RANGE = re.compile(r"(?i)[^\w:]|step|iter|batch|epoch|train|eval|forward|backward|optim|loader|loss")
# Domains in which libraries mark their own calls: no steps and no phases of the program.
LIBRARY_DOMAIN = re.compile(
    r"(?i)(?:nccl|cublas\w*|cudnn\w*|cusolver\w*|cusparse\w*|cufft\w*|curand|cutensor\w*|nvshmem|cccl|thrust|cub|"
    r"libcudf|rapids\w*|openacc|mpi|ucx|tensorrt|dali|nvjpeg\w*|nvtx\w*)\Z"
)
# ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND of the export.
DIRECTIONS = {
    **{1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"},
    **{11: "HtoD", 12: "DtoH", 13: "DtoD"},
}
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device", 6: "Managed"}
# ENUM_CUPTI_SYNC_TYPE, in the words of Kineto.
SYNCHRONIZATIONS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


@dataclass(frozen=True)
class Range:
    """An NVTX range or mark: the kind of event that it stands for, and what its text says of an operator."""

    kind: EventKind
    name: str
    sequence: int = -1
    sizes: str = ""


def call_name(text: str) -> str:
    """The name of a CUDA call without its version: cudaLaunchKernel_v7000 is cudaLaunchKernel."""
    return CALL_VERSION.sub("", text)


def copy_name(direction: int, source: int, target: int) -> str:
    """The name of a copy, such as "Memcpy HtoD (Pageable -> Device)"; without the memories where they are unknown."""
    name = f"Memcpy {DIRECTIONS.get(direction, 'Unknown')}"
    known = source in MEMORY and target in MEMORY
    return f"{name} ({MEMORY[source]} -> {MEMORY[target]})" if known else name


def range_of(text: str, domain: str = "") -> Range:
    """What a range stands for: an operator of PyTorch, a call of a library, or a mark that the program set."""
    head, found, number = text.rpartition(OPERATOR_ID)
    if not found or not number.isdecimal():
        return _range_of(text, domain)
    name, found, sequence = head.rpartition(OPERATOR_SEQUENCE)
    if not found or not sequence.isdecimal() or len(sequence) > LONGEST_SEQUENCE:
        return _numbered(head, domain)
    operator = _numbered(f"{name}{OPERATOR_SEQUENCE}0", domain)
    return operator if operator.sequence < 0 else replace(operator, sequence=int(sequence))


@lru_cache(maxsize=MOST_KEPT)
def _numbered(head: str, domain: str) -> Range:
    """The range of a text that ends with the number of an operator: texts differ in it, and what they stand for not."""
    return _range_of(f"{head}{OPERATOR_ID}0", domain)


def _range_of(text: str, domain: str) -> Range:
    if LIBRARY_DOMAIN.match(domain):
        return Range(EventKind.OPERATOR, text)
    found = OPERATOR_DETAILS.search(text)
    if found is None:
        return Range(EventKind.OPERATOR if text.startswith("aten::") else EventKind.ANNOTATION, text)
    name, details = text[: found.start()], text[found.start() :]
    sequence, sizes = SEQUENCE.search(details), SIZES.search(details[:LONGEST_SIZES])
    # record_function() of a program gets an op_id as operators do, but no place in the backward pass.
    operator = "::" in name or sequence is not None or not PROGRAM_RANGE.search(name)
    return Range(
        EventKind.OPERATOR if operator else EventKind.ANNOTATION,
        name,
        -1 if sequence is None else int(sequence[1]),
        "" if sizes is None else sizes[1],
    )
