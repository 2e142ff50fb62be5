"""API keys: from the environment or from a file that only its owner can read, nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tools.errors import UsageError

KEY_VARIABLE = "HERMES_DX_API_KEY"
EMBEDDING_KEY_VARIABLE = "HERMES_DX_EMBEDDING_API_KEY"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"  # given to OpenAI alone
MAX_KEY_BYTES = 8192


def find_key(env: Mapping[str, str], base_url: str, key_file: Path | None) -> str | None:
    """Return the key for an endpoint, or None; raises UsageError for a file that others can read.

    HERMES_DX_API_KEY goes first, then the file, then OPENAI_API_KEY, which is given to OpenAI alone.
    """
    if key := env.get(KEY_VARIABLE, "").strip():
        return _printable(key, KEY_VARIABLE)
    if key_file is not None:
        return read_key(key_file)
    key = _openai_key(env, base_url)
    return _printable(key, OPENAI_KEY_VARIABLE) if key else None


def find_embedding_key(env: Mapping[str, str], base_url: str) -> str | None:
    """Return the key for an embeddings endpoint, or None."""
    return env.get(EMBEDDING_KEY_VARIABLE, "").strip() or _openai_key(env, base_url) or None


def read_key(path: Path) -> str:
    """Return the key in a private file."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is no regular file and cannot hold the API key.")
            if status.st_mode & 0o077 or status.st_uid != os.getuid():
                raise UsageError(f"{path} holds the API key but others can get at it; run: chmod 600 {path}")
            text = file.read(MAX_KEY_BYTES + 1).decode("ascii")
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise UsageError(f"The API key cannot be read from {path}: {reason}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The API key cannot be read from {path}: it is not plain text.") from error
    if not text.strip() or len(text) > MAX_KEY_BYTES:
        raise UsageError(f"{path} has to hold the API key and nothing else.")
    return _printable(text.strip(), str(path))


def _openai_key(env: Mapping[str, str], base_url: str) -> str:
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    is_openai = parts.scheme == "https" and (host == "openai.com" or host.endswith(".openai.com"))
    return env.get(OPENAI_KEY_VARIABLE, "").strip() if is_openai else ""


def _printable(key: str, where: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"The API key in {where} has blanks or unprintable characters in it; write it again.")
    return key
