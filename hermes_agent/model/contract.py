"""The JSON schema of the contract, ``docs/diagnosis.schema.json``: ``python -m hermes_agent.model.contract --write``.

It is made from the records, describes all that this version writes, and allows further fields, since later versions of
the same schema number may add some.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

from hermes_agent.model.diagnosis import SCHEMA, Diagnosis
from tools.derived_page import keep
from tools.documents import parse_json

PATH = Path("docs/diagnosis.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MOST_FAULTS = 3  # that a message names
FAULT_CHARS = 300


class _Fault(Protocol):
    json_path: str
    message: str


class _Validator(Protocol):
    def iter_errors(self, instance: object) -> Iterable[_Fault]: ...


def contract() -> dict[str, object]:
    """The schema of ``hermes-dx diagnose --json``."""
    made = Diagnosis.model_json_schema(by_alias=True, mode="serialization")
    for record in (made, *made["$defs"].values()):
        record.pop("additionalProperties", None)
    made["properties"]["schema"]["const"] = SCHEMA
    return {"$schema": DIALECT, **made}


def contract_text() -> str:
    """The schema as it is published."""
    return json.dumps(contract(), indent=1) + "\n"


@cache
def _validator() -> _Validator:
    made: _Validator = import_module("jsonschema").Draft202012Validator(contract())  # comes with chromadb
    return made


def faults(text: str) -> list[str]:
    """What is wrong with a printed diagnosis by the schema, one line each with its place; empty where nothing is."""
    found = _validator().iter_errors(parse_json(text))
    return [f"{error.json_path}: {error.message[:FAULT_CHARS]}" for error in found]


def check_contract(diagnosis: Diagnosis) -> None:
    """Raise ValueError with the first faults where a diagnosis, as it is printed, is not what the schema describes."""
    if wrong := faults(diagnosis.model_dump_json(by_alias=True)):
        raise ValueError(f"the JSON is not what its schema says: {'; '.join(wrong[:MOST_FAULTS])}")


if __name__ == "__main__":
    sys.exit(keep(PATH, contract_text(), sys.argv[1:]))
