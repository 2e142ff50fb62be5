"""Embeddings by choice: weights in a folder, an endpoint on loopback, and the hashed one when neither can be had."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from case_library.library import BUNDLED_CASES
from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice, EmbeddingError, version
from case_library.retrieval.external_embeddings import ENDPOINT_BATCH as BATCH
from case_library.retrieval.external_embeddings import EndpointEmbedding, MiniLmEmbedding
from case_library.retrieval.recall import CaseIndex, CaseQuery
from tests.case_library.embedding_server import EmbeddingServer, embedding_server
from tests.case_library.own_cases import draft, put
from tests.case_library.toy_weights import toy_weights
from tests.hermes_agent.llm.fake_endpoint import Answer, dripping, raw_server, serving

CHOSEN = ("torchtune-loss-item-sync", "dali-first-epoch-cold-storage", "marin-coordinated-gc")
SYNC = CaseQuery(text="loss.item() synchronizes in every step")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "cases"
    place.mkdir()
    for name in CHOSEN:
        shutil.copy(BUNDLED_CASES / f"{name}.yaml", place)
    return place


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def endpoint(server: EmbeddingServer, **more: object) -> EmbeddingChoice:
    return EmbeddingChoice("endpoint", base_url=server.url, model="small", key="secret-key", **more)  # type: ignore[arg-type]


def test_weights_in_a_folder_give_the_mean_of_the_token_vectors(tmp_path: Path) -> None:
    embedding = MiniLmEmbedding(toy_weights(tmp_path / "weights"))
    loss, item, both, longer = embedding(["loss", "item", "loss item", "loss item checkpoint save epoch"])
    assert [round(float(np.linalg.norm(vector)), 5) for vector in (loss, item, both, longer)] == [1.0] * 4
    table = np.random.default_rng(0).normal(size=(11, 16)).astype(np.float32)
    mean = table[[4, 3]].mean(axis=0)
    assert both == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)  # the padding to the longest counts for nothing


@pytest.mark.parametrize(("lost", "said"), [("tokenizer.json", "no tokenizer.json"), ("onnx/model.onnx", "no onnx/")])
def test_weights_that_lack_a_file_are_refused_by_its_name(tmp_path: Path, lost: str, said: str) -> None:
    weights = toy_weights(tmp_path / "weights")
    (weights / lost).unlink()
    with pytest.raises(EmbeddingError, match=said):
        MiniLmEmbedding(weights)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("onnx/model.onnx", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("onnx/model.onnx", b"no protocol buffer at all", "cannot be loaded"),
        ("tokenizer.json", b"[1, 2", "is not a tokenizer"),
    ],
)
def test_weights_that_are_none_are_one_sentence(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    weights = toy_weights(tmp_path / "weights")
    (weights / name).write_bytes(content)
    with pytest.raises(EmbeddingError, match=said):
        MiniLmEmbedding(weights)


def test_an_index_of_weights_finds_cases_and_other_weights_build_another(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for seed in (0, 1):
        chosen = EmbeddingChoice("minilm", folder=toy_weights(tmp_path / f"weights{seed}", seed))
        with CaseIndex.open(folder, cache, embedding=chosen) as index:
            assert index.notes == ()
            hit = index.search(SYNC).hits[0]
            assert hit.id == "torchtune-loss-item-sync"
            assert "vector 1" in hit.why
        assert len(list((cache / "case-index").iterdir())) == seed + 1


def test_the_version_follows_the_content_of_the_weights(tmp_path: Path) -> None:
    one, same, other = (toy_weights(tmp_path / name, seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    names = [version(EmbeddingChoice("minilm", folder=place)) for place in (one, same, other)]
    assert names[0] == names[1] != names[2]
    assert version(HASHED) not in names


def test_an_endpoint_is_asked_in_batches_with_the_key_and_its_order_is_restored(server: EmbeddingServer) -> None:
    texts = [f"word{number}" for number in range(BATCH + 5)]
    vectors = EndpointEmbedding(endpoint(server))(texts)
    assert [len(request["input"]) for request in server.requests] == [BATCH, 5]
    assert {request["model"] for request in server.requests} == {"small"}
    assert set(server.keys) == {"Bearer secret-key"}
    expected = np.array([server.vector(text) for text in texts])
    assert np.array(vectors) == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True))


def test_an_index_of_an_endpoint_is_built_once_and_then_only_questions_are_sent(
    folder: Path, tmp_path: Path, server: EmbeddingServer
) -> None:
    for sent in (len(CHOSEN) + 1, 1):
        server.texts.clear()
        with CaseIndex.open(folder, tmp_path / "cache", embedding=endpoint(server)) as index:
            assert index.search(SYNC).hits[0].id == "torchtune-loss-item-sync"
            assert index.notes == ()
        assert len(server.texts) == sent


def test_a_teams_own_cases_go_to_an_endpoint_only_if_that_is_allowed(
    folder: Path, tmp_path: Path, server: EmbeddingServer
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    put(own, {"id": "zz-our-backup", "source": {"kind": "internal"}, **draft()})
    seen = CaseQuery(text="Nightly backup halves the speed of ranks on one rack", causes=("cpu_contention",))
    for allowed in (False, True):
        server.texts.clear()
        chosen = endpoint(server, sends_private=allowed)
        with CaseIndex.open(folder, tmp_path / "cache", own, embedding=chosen) as index:
            assert index.search(seen).hits[0].id == "zz-our-backup"
        told = [text for text in server.texts if "compressing backup process" in text]
        assert len(told) == allowed


def test_names_are_masked_before_a_text_leaves(folder: Path, server: EmbeddingServer) -> None:
    chosen = endpoint(server, mask=lambda text: text.replace("node-1147", "host-1"))
    with CaseIndex.open(folder, embedding=chosen) as index:
        index.search(CaseQuery(text="node-1147 waits in loss.item()"))
    assert server.texts[-1] == "host-1 waits in loss.item()"


def test_without_the_endpoint_the_hashed_embedding_stands_in_and_is_said(
    folder: Path, tmp_path: Path, server: EmbeddingServer
) -> None:
    server.status = 401
    with CaseIndex.open(folder, tmp_path / "cache", embedding=endpoint(server)) as index:
        assert index.search(SYNC).hits[0].id == "torchtune-loss-item-sync"
        [note] = index.notes
    assert server.url in note
    assert "AuthenticationError" in note
    assert "hashed embedding is used instead" in note
    assert "secret-key" not in note


def test_an_endpoint_lost_later_leaves_words_and_signals_and_is_said_once(
    folder: Path, tmp_path: Path, server: EmbeddingServer
) -> None:
    with CaseIndex.open(folder, tmp_path / "cache", embedding=endpoint(server)) as index:
        server.broken = True
        for _ in range(2):
            assert index.search(SYNC).hits[0].id == "torchtune-loss-item-sync"
        [note] = index.notes
        assert note.endswith("Cases are ranked without vectors.")


def test_an_endpoint_that_changes_the_size_of_its_vectors_is_noted_and_words_go_on(
    folder: Path, tmp_path: Path, server: EmbeddingServer
) -> None:
    with CaseIndex.open(folder, tmp_path / "cache", embedding=endpoint(server)) as index:
        server.size = 32
        assert index.search(SYNC).hits[0].id == "torchtune-loss-item-sync"
        assert "dimension" in index.notes[0]


def test_the_default_loads_neither_weights_nor_a_client(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from case_library.retrieval.recall import CaseIndex, CaseQuery\n"
        "with CaseIndex.open(Path(sys.argv[1])) as index: index.search(CaseQuery(text='loss.item() every step'))\n"
        "late = {'openai', 'case_library.retrieval.external_embeddings'}\n"
        "print(sorted(late & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_neither_choice_nor_its_text_form_tells_the_key(server: EmbeddingServer) -> None:
    assert "secret-key" not in repr(endpoint(server))
    assert "secret-key" not in version(endpoint(server))


def test_an_embedding_endpoint_is_not_followed_elsewhere_and_not_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "ours")
    packed = gzip.compress(bytes(50 << 20))
    with raw_server(b"Content-Type: application/json\r\nContent-Encoding: gzip\r\n", [packed]) as url:
        tracemalloc.start()
        with pytest.raises(EmbeddingError, match="compressed its answer"):
            EndpointEmbedding(EmbeddingChoice("endpoint", base_url=url, model="m"))(["slow loader"])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16 << 20
    with embedding_server() as other:
        away = Answer(307, document="", headers={"location": f"{other.url}/embeddings"})
        with serving(away) as endpoint, pytest.raises(EmbeddingError, match="gave no vectors"):
            EndpointEmbedding(EmbeddingChoice("endpoint", base_url=endpoint.url, model="m"))(["slow loader"])
        assert other.requests == []
        assert "openai-organization" not in endpoint.headers[0]


JSON = b"Content-Type: application/json\r\n"


def test_deep_vectors_are_an_answer_of_another_form() -> None:
    deep = b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    other_form = pytest.raises(EmbeddingError, match="gave an answer of another form")
    with raw_server(JSON + b"Content-Length: %d\r\n" % len(deep), [deep]) as url, other_form:
        EndpointEmbedding(EmbeddingChoice("endpoint", base_url=url, model="m"))(["a"])


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("case_library.retrieval.external_embeddings.LONGEST_S", 0.3)
    with (
        raw_server(JSON, dripping(b" ", 0.02)) as url,
        pytest.raises(EmbeddingError, match=r"gave no vectors within 0\.3 s"),
    ):
        EndpointEmbedding(EmbeddingChoice("endpoint", base_url=url, model="m"))(["a"])
