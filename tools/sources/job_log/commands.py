"""The variables of NCCL that a command in a job's output sets for the job, or passes on to its processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile

LONGEST_COMMAND = 4096  # characters
PROMPT = re.compile(r"\s{0,20}(?:\(\S{1,40}\) )?(?:\S{1,80}@\S{0,200}[$#%>]\s{0,3}|[$%>]\s{0,3}|\+ )?")
COMMENT = re.compile(r"(?:\A|\s)#")
SEPARATOR = re.compile(r"&&|[;|&]")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,60}=\S{0,200}\Z")
EXPORTED = re.compile(r"[A-Za-z_]\w{0,60}(?:=\S{0,200})?\Z")
OF_NCCL = re.compile(r"(NCCL_[A-Z][A-Z0-9_]{1,60})=([^$`]{1,200})\Z")  # the value of another variable is not known
BEFORE_PROGRAM = ("sudo", "exec", "time")
LAUNCHERS = ("mpirun", "mpiexec", "srun", "horovodrun")  # that pass variables on by an option
PROGRAM = re.compile(r"(?:torchrun|deepspeed|accelerate|python[\d.]{0,5}|env|export)\Z")
PASSES_ON = ("-x", "-env", "--env", "-genv")
EXPORT_OPTION = "--export="  # of srun, with a list


def variables_set(text: str) -> Iterator[tuple[str, str]]:
    """Names of NCCL and their values, as assignments before, of or passed on by the commands of a line."""
    if "NCCL_" not in text:
        return
    whole = COMMENT.split(text[:LONGEST_COMMAND], maxsplit=1)[0]
    for command in SEPARATOR.split(PROMPT.sub("", whole, count=1)):
        for word in _assigned([each.strip("'\"") for each in command.split() if each != "\\"]):
            if found := OF_NCCL.match(word):
                yield found[1], found[2].strip("'\"")


def _assigned(words: list[str]) -> Iterator[str]:
    """The assignments that hold for the program of one command, none where it starts no program."""
    while words and words[0] in BEFORE_PROGRAM:
        words = words[1:]
    before = list(takewhile(ASSIGNMENT.match, words))
    program, arguments = "".join(words[len(before) :][:1]).rpartition("/")[2], words[len(before) + 1 :]
    if program not in LAUNCHERS and not PROGRAM.match(program):
        return
    yield from before
    if program == "export":
        yield from arguments if all(map(EXPORTED.match, arguments)) else ()
    elif program == "env":
        yield from takewhile(ASSIGNMENT.match, arguments)
    elif program in LAUNCHERS:
        yield from _passed_on(arguments)


def _passed_on(arguments: list[str]) -> Iterator[str]:
    for option, value in pairwise(arguments):
        if option in PASSES_ON:
            yield value
    for word in arguments:
        if word.startswith(EXPORT_OPTION):
            yield from word.removeprefix(EXPORT_OPTION).split(",")
    if "env" in arguments:
        yield from takewhile(ASSIGNMENT.match, arguments[arguments.index("env") + 1 :])
