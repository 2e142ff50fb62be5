"""Errors a user can act on, each with the exit code the command line gives it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of ``hermes-dx``."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    INPUT = 3
    INCONCLUSIVE = 4
    REGRESSION = 5
    NOT_COMPARABLE = 6
    INTERRUPTED = 130


class HermesError(Exception):
    """Something a person can mend; the message names the thing, what is wrong and what to do."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(HermesError):
    """The command or question was put in a way that cannot be carried out."""

    exit_code = ExitCode.USAGE


class CutError(UsageError):
    """No question on what is measured has an answer: every trace of the run is cut."""

    exit_code = ExitCode.INPUT


class InputError(HermesError):
    """A file cannot be read, or holds no training run."""

    exit_code = ExitCode.INPUT


class NotComparableError(InputError):
    """Two runs differ in something that makes a comparison meaningless."""

    exit_code = ExitCode.NOT_COMPARABLE


class ModelError(HermesError):
    """The language model's endpoint failed or answered with something unusable."""
