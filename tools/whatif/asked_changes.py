"""The closed grammar of what a run may be asked to change: ``bucket_cap_mb=50``, ``rank 3 as fast as the others``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from tools.errors import UsageError

LONGEST_CHANGE = 200  # characters
MOST_CHANGES = 8
NEAREST = 3
LIKE_ENOUGH = 0.4  # of the characters; a smaller likeness is no help
MOST = 1e6  # of a number in a change
NUMBER = r"(?P<number>\d{1,7}(?:\.\d{1,6})?)"
NEGATIVE = re.compile(r"(?<=[=: ])[-\u2212](?=\d)")
NEVER = ("batch_size", "sequence_length", "tensor_parallel", "data_parallel", "pipeline_parallel")
TIMES = NUMBER + r" ?(?:x|times)(?: as fast| faster)?"


@dataclass(frozen=True)
class Form:
    """One sentence of the grammar: how it is written, what it means, and the pattern it has to match as a whole.

    A form with a ``name`` in front of the equals sign takes a whole number from ``least`` on, unless ``fraction``.
    """

    kind: str
    written: str
    meaning: str
    pattern: str
    least: float = 1.0
    fraction: bool = False


@dataclass(frozen=True)
class AskedChange:
    """One change as it was asked: its kind, and the number and name in it (0 and "" where the form has none)."""

    kind: str
    text: str
    number: float = 0.0
    name: str = ""


def _setting(names: str) -> str:
    return rf"(?:--)?(?:{names}) ?(?:=|:| ) ?{NUMBER}"


FORMS = (
    Form(
        *("bucket_cap_mb", "bucket_cap_mb=N", "gradient buckets of N MiB in DistributedDataParallel"),
        _setting("bucket[_-]cap[_-]mb"),
        least=0.0,
        fraction=True,
    ),
    Form("num_workers", "num_workers=N", "N worker processes of the data loader", _setting("num[_-]workers")),
    Form(
        *("micro_batches", "micro_batches=N", "N micro-batches per step of the same batch, in a pipeline"),
        _setting("(?:num[_-])?micro[_-]?batches"),
    ),
    Form(
        *("rank", "rank R as fast as the others", "rank R takes for each part of the step what the others take"),
        r"rank (?P<number>\d{1,7}) (?:is |were |was )?as fast as (?:the )?others?",
        least=0.0,
    ),
    Form(
        *("equal_stages", "equal stages", "all stages of a pipeline compute equally long"),
        r"(?:equal|balanced) (?:pipeline )?stages",
    ),
    Form("data", "no waits for data", "batches are ready when they are asked for", r"no waits?(?:ing)? for data"),
    Form("link", "link Nx", "the link between the ranks has N times the bandwidth", rf"link {TIMES}", 0.0, True),
    Form(
        *("kernels", 'kernels "NAME" Nx', "kernels with NAME in their name run N times as fast"),
        rf"kernels? [\"'](?P<name>[^\"']{{1,120}})[\"'] {TIMES}",
        least=0.0,
        fraction=True,
    ),
    Form("bf16", "bf16", "matrix kernels in bfloat16", r"(?:in )?(?:bf16|bfloat16)"),
    Form(
        *("synchronisation", "without synchronisation", "the host waits for the device in no call inside a step"),
        r"(?:without|no) synchroni[sz]ation",
    ),
    Form(
        *("without", "without CAUSE", "a cause that the diagnosis found is fixed, as CAUSE or CAUSE/MECHANISM"),
        r"without (?P<name>[a-z_0-9]{3,60}(?:/[a-z_0-9]{3,60})?)",
    ),
    *(
        Form(kind, f"{kind}=N", f"another {spoken} (always refused, with what to record)", _setting(kind))
        for kind, spoken in (
            ("batch_size", "batch size"),
            ("sequence_length", "sequence length"),
            ("tensor_parallel", "tensor parallel degree"),
            ("data_parallel", "data parallel degree"),
            ("pipeline_parallel", "number of pipeline stages"),
        )
    ),
)


def asked_change(text: str) -> AskedChange:
    """Read one change; UsageError with the nearest forms where it is none."""
    plain = " ".join(text[: LONGEST_CHANGE + 1].split())
    if len(plain) > LONGEST_CHANGE:
        raise UsageError(f"a change is longer than {LONGEST_CHANGE} characters; several changes are several arguments")
    for form in FORMS:
        if found := re.fullmatch(form.pattern, plain, re.IGNORECASE):
            return _read(form, plain, found)
    positive = NEGATIVE.sub("", plain)
    for form in FORMS if positive != plain else ():
        if re.fullmatch(form.pattern, positive, re.IGNORECASE):
            least = "more than" if form.fraction else "at least"
            raise UsageError(f"{_shown(plain)}: the number must be {least} {form.least:g}")
    raise UsageError(f"no change reads {_shown(plain)}; {_nearest(plain)}")


def asked_changes(texts: Iterable[str]) -> tuple[AskedChange, ...]:
    """Read several changes to be made together; UsageError where there are none, too many, or two of one setting."""
    asked = tuple(asked_change(text) for text in texts)
    if not asked:
        raise UsageError(f"name a change, such as {', '.join(form.written for form in FORMS[:3])}")
    if len(asked) > MOST_CHANGES:
        raise UsageError(f"there are {len(asked)} changes; at most {MOST_CHANGES} can be made together")
    keys = [(each.kind, each.name, each.number if each.kind == "rank" else 0.0) for each in asked]
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise UsageError(
                f"{_shown(asked[at].text)} and {_shown(asked[keys.index(key)].text)} change the same thing"
            )
    return asked


def changes_named_in(text: str) -> tuple[AskedChange, ...]:
    """The changes that a sentence names, as it stands in a question; those never predicted are left out."""
    plain, found = " ".join(text[: 10 * LONGEST_CHANGE].split()), list[tuple[int, AskedChange]]()
    for form in FORMS:
        if form.kind in ("without", *NEVER):
            continue  # a cause has words of its own, and so has another batch size
        for match in re.finditer(rf"(?<![\w\"'])(?:{form.pattern})(?![\w\"'])", plain, re.IGNORECASE):
            try:
                found.append((match.start(), _read(form, match.group(), match)))
            except UsageError:
                continue
    return tuple(change for _, change in sorted(found, key=lambda each: each[0])[:MOST_CHANGES])


def grammar_text() -> str:
    """The forms and what they mean, a line each."""
    width = max(len(form.written) for form in FORMS)
    return "\n".join(f"  {form.written:<{width}}  {form.meaning}" for form in FORMS)


def grammar_schema() -> dict[str, object]:
    """JSON Schema of a change: a string that matches one of the forms (without regard to upper and lower case)."""
    return {
        "type": "string",
        "maxLength": LONGEST_CHANGE,
        "anyOf": [
            {"title": form.written, "description": form.meaning, "pattern": _plain_pattern(form.pattern)}
            for form in FORMS
        ],
    }


def _plain_pattern(pattern: str) -> str:
    """The pattern as JSON Schema (ECMA 262) reads it: without named groups."""
    unnamed = re.sub(r"\(\?P<\w+>", "(", pattern)
    return f"^(?:{unnamed})$"


def _read(form: Form, text: str, found: re.Match[str]) -> AskedChange:
    groups = found.groupdict()
    number = float(groups.get("number") or 0.0)
    if "number" in groups:
        whole = form.fraction or number.is_integer()
        large_enough = number > form.least if form.fraction else number >= form.least
        if not whole or not large_enough or number > MOST:
            least = f"more than {form.least:g}" if form.fraction else f"a whole number from {form.least:g}"
            raise UsageError(f"{_shown(text)}: {number:g} is not {least} to {MOST:g}")
    name = groups.get("name") or ""
    return AskedChange(form.kind, text, number, name if form.kind == "kernels" else name.lower())


def _nearest(text: str) -> str:
    shape = re.sub(r"\d+(\.\d+)?", "N", text.lower())

    def likeness(form: Form) -> float:
        return SequenceMatcher(None, shape, form.written.lower()).ratio()

    near = [form.written for form in sorted(FORMS, key=likeness, reverse=True) if likeness(form) >= LIKE_ENOUGH]
    if near:
        return f"did you mean {' or '.join(near[:NEAREST])}?"
    return f"the forms are {', '.join(form.written for form in FORMS)}"


def _shown(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return f"`{printable if len(printable) <= 60 else printable[:59] + '…'}`"
