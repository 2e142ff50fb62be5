"""Which recorded settings are shown as secrets."""

from __future__ import annotations

import pytest

from tools.run.secrets import HIDDEN, without_secrets


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "hub-token", "auth.token", "wandb/api.key", "aws-secret-access-key", "db password", "API_KEY"]
)
def test_secrets_are_hidden_however_the_parts_of_the_name_are_joined(name: str) -> None:
    assert without_secrets({name: "s3cr3t"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "num_key_value_heads", "tokens-per-s", "model.key_dim"])
def test_other_settings_stay(name: str) -> None:
    assert without_secrets({name: "8"}) == {name: "8"}


def test_user_and_password_of_an_address_are_hidden() -> None:
    found = without_secrets({"HTTPS_PROXY": "http://me:s3/cr@t@proxy:8080"})
    assert found == {"HTTPS_PROXY": f"http://{HIDDEN}@proxy:8080"}
