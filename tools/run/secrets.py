"""Recorded settings without secrets: what a run holds is shown to people, sent to chats and to models."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "(secret)"
# HF_TOKEN, AWS_SECRET_ACCESS_KEY, --hub-token, auth.token; not TOKENIZERS_PARALLELISM, not num_key_value_heads.
NAME = re.compile(
    r"(?:^|[^A-Z])(?:(?:[A-Z]*TOKEN|[A-Z]*SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|ACCESS.KEY)(?:[^A-Z]|$)"
    r"|[A-Z]*KEY$)",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"""(://)[^\s'"]*(?=@)""")  # a password may hold / and @


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, the values of secrets and the user and password in an address replaced by ``(secret)``."""
    return {
        name: HIDDEN if NAME.search(name) else IN_ADDRESS.sub(rf"\1{HIDDEN}", value) for name, value in settings.items()
    }
