"""Names stay on the machine and come back in the answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.llm.model import Message, ModelRequest, Reply, ResponseSchema, ToolCall
from hermes_agent.llm.redact import RedactedModel, Redactor
from tests.hermes_agent.llm.scripted import ScriptedModel

PIECES = st.sampled_from(
    [
        "/home/alice/train.py",
        "alice",
        "node17",
        "host-1",
        "path-2",
        "bob@lab.example",
        "10.0.0.7",
        "gpu3.cluster.local",
        "https://git.corp.example/x",
        "https://pytorch.org/docs",
        '"/data/my files/a.csv"',
        "~/runs/1",
        "C:\\Users\\carol\\x.py",
        "aten::add",
        "tokens/s",
        "12.5 ms",
        "[E3]",
        " ",
        "\n",
        "-",
        "x",
        "1",
        ".",
        ":",
        "é",
        "/",
        "(",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


def test_the_same_name_gets_the_same_mask_in_every_text() -> None:
    redactor = Redactor(hosts=["node17"])
    first = redactor.mask("node17 waits for 10.0.0.7 (node17)")
    assert first == "host-1 waits for host-2 (host-1)"
    assert redactor.mask("again node17") == "again host-1"


def test_a_home_folder_gives_its_user_away_everywhere() -> None:
    masked = Redactor().mask("started by alice in /home/alice/code/train.py(120): main")
    assert masked == "started by user-1 in path-1(120): main"


def test_library_paths_keep_the_part_that_everybody_knows() -> None:
    redactor = Redactor()
    masked = redactor.mask("/home/alice/.venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py(630)")
    assert masked == "path-1/torch/utils/data/dataloader.py(630)"
    assert redactor.unmask("see path-1/torch/x.py").startswith("see /home/alice/.venv/lib/python3.11/site-packages/")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail bob@lab.example now", "mail email-1 now"),
        ("clone https://git.corp.example/team/x now", "clone url-1 now"),
        ("see https://pytorch.org/docs/stable/data.html", "see https://pytorch.org/docs/stable/data.html"),
        ('{"file": "/data/my files/a.csv"}', '{"file": "path-1"}'),
        ("on gpu3.cluster.local", "on host-1"),
        ("on login.hpc.example.edu", "on host-1"),
        ("peer fe80:0:0:0:1:2:3:4 is late", "peer host-1 is late"),
        ("bucket s3://mine/run", "bucket url-1"),
        ("torch.nn.functional.linear and aten::add.out", "torch.nn.functional.linear and aten::add.out"),
        ("1,200 tokens/s at 12.5 ms, 3/4 of steps", "1,200 tokens/s at 12.5 ms, 3/4 of steps"),
        ("root and data and user", "root and data and user"),
    ],
)
def test_what_is_masked_and_what_is_not(text: str, masked: str) -> None:
    redactor = Redactor(users=["root", "data", "user"])
    assert redactor.mask(text) == masked
    assert redactor.unmask(masked) == text


def test_a_name_that_looks_like_a_mask_is_not_confused_with_one() -> None:
    redactor = Redactor(hosts=["node17"])
    text = "node17 waits for host-1"
    masked = redactor.mask(text)
    assert "node17" not in masked
    assert redactor.unmask(masked) == text


@given(TEXTS)
def test_unmasking_undoes_masking(text: str) -> None:
    redactor = Redactor(hosts=["node17"], users=["dave"])
    assert redactor.unmask(redactor.mask(text)) == text


def test_a_redacted_model_sees_masks_and_answers_with_names() -> None:
    inner = ScriptedModel([Reply("host-1 is late", (ToolCall("a1", "read", '{"file": "path-1"}'),))])
    model = RedactedModel(inner, Redactor(hosts=["node17"]))
    asked = ModelRequest((Message("user", 'why is node17 late? see "/data/my \\"x"'), Message("tool", "alice@x.org")))
    reply = model.complete(asked, lambda: False)
    sent = " ".join(message.content for message in inner.requests[0].messages)
    assert "node17" not in sent
    assert "alice" not in sent
    assert reply.text == "node17 is late"
    assert json.loads(reply.calls[0].arguments_json)["file"].startswith("/data/my")


def test_a_mask_at_the_very_end_of_an_answer_is_unmasked() -> None:
    model = RedactedModel(ScriptedModel(["The late one is host-1"]), Redactor(hosts=["node17"]))
    reply = model.complete(ModelRequest((Message("user", "node17?"),)), lambda: False)
    assert reply.text == "The late one is node17"


def test_the_names_in_a_structured_answer_leave_it_json() -> None:
    redactor = Redactor()
    masked = redactor.mask('see "C:\\Users\\x y\\run"')
    model = RedactedModel(ScriptedModel([json.dumps({"file": masked.split('"')[1]})]), redactor)
    asked = ModelRequest((Message("user", "where?"),), response_schema=ResponseSchema("place", {}))
    assert json.loads(model.complete(asked, lambda: False).text) == {"file": "C:\\Users\\x y\\run"}


def test_a_mask_inside_of_a_word_is_none() -> None:
    redactor = Redactor(hosts=["node17"])
    redactor.mask("node17")
    assert redactor.unmask("ahost-1 host-1") == "ahost-1 node17"


def test_the_host_in_the_name_of_a_trace_file_is_masked() -> None:
    redactor = Redactor(["node17"])
    masked = redactor.mask("`node17_100.1700000000.pt.trace.json.gz` of node17, not node17_x or my_node17")
    assert masked == "`host-1_100.1700000000.pt.trace.json.gz` of host-1, not node17_x or my_node17"
    assert redactor.unmask(masked).startswith("`node17_100.1700000000.pt")
