"""Names of devices, frameworks and models that a text brings up without having been told of them."""

from __future__ import annotations

import re

# Known by name in any spelling; others are told by how they are written.
KNOWN = re.compile(
    r"\b(llama\w*|mistral\w*|mixtral|gpt\w*|bert|roberta|t5|resnet\w*|vit|qwen\w*|deepseek\w*|gemma|falcon|dlrm|"
    r"deepspeed|fsdp\w*|ddp|megatron\w*|horovod|colossal\w*|lightning|accelerate|hugging ?face|tensorflow|keras|jax|"
    r"pytorch|mxnet|paddle\w*|mindspore|vllm|xla|triton|slurm|kubernetes|ray|nvidia|amd|intel|ascend|tesla|hopper|"
    r"ampere|volta|blackwell|geforce|rtx|quadro|nvlink|nvswitch|infiniband|roce|imagenet|cifar|coco|lustre|nfs|docker)\b",
    re.IGNORECASE,
)
MODEL_NUMBER = re.compile(r"\b(?=\w*[A-Za-z])(?=\w*\d)[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*\b")
INNER_CAPITAL = re.compile(r"\b[A-Za-z]+[a-z][A-Z]\w*\b|\b[A-Z]{2,}[a-z]\w*\b|\b[A-Z]{2,}[0-9]*\b")
CAPITAL = re.compile(r"(?<=[a-z,;:0-9%\])] )(?<!\. )[A-Z][a-z]+\b")
ORDINARY = """
    GPU GPUs CPU CPUs IO API OS RAM ID IDs OK US SM SMs GB MB KB TB FLOP FLOPs JSON Python p95 fp64 fp32 fp16 bf16 fp8
    tf32 int8 float64 float32 float16 bfloat16 h2d d2h I The A An It Its This That In On At Of And Or But If When While
    As So To For With Without By From Not No Yes However Therefore Because Each Every All Both First Second Third Then
    Also Next Only Rank Ranks Step Steps Whether You Your We They There These Those What Which Where Why How After
    Before Since During Loading Load Set Use Raise Try
"""
UNIT = re.compile(r"^[EAC]\d+$|^\d+(ns|us|ms|s|x|B|GB|MB|kB|KB|TB|GiB|MiB|k|K|M|G|D|d|st|nd|rd|th)$")
SPLIT = re.compile(r"[^a-z0-9]+")


def unknown_names(prose: str, known: str) -> list[str]:
    """Names in the prose that do not stand in ``known``, each once; capitals do not matter."""
    told = f" {' '.join(SPLIT.split(known.lower()))} "
    found = [
        match.group() for pattern in (KNOWN, MODEL_NUMBER, INNER_CAPITAL, CAPITAL) for match in pattern.finditer(prose)
    ]
    names = [name for name in dict.fromkeys(found) if name not in ORDINARY and not UNIT.match(name)]
    return [name for name in names if f" {' '.join(SPLIT.split(name.lower())).strip()} " not in told]
