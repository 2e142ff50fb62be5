"""Sentence vectors from MiniLM weights in a local folder, or from an endpoint; nothing is downloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from case_library.retrieval.embedding_choice import EmbeddingChoice, EmbeddingError
from case_library.retrieval.hashed_embedding import Vector, unit_vectors
from tools.documents import parse_json

if TYPE_CHECKING:
    from openai import OpenAI
    from tokenizers import Tokenizer

WEIGHTS = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx")
TOKENIZER = "tokenizer.json"
MAX_TOKENS = 256  # what MiniLM was trained on; the rest of a longer text is cut
MAX_TOKENIZER_BYTES = 64 * 1024 * 1024
MINILM_BATCH = 32
POINTER = b"version https://git-lfs"
THREADS = 2
Result = TypeVar("Result")

ENDPOINT_BATCH = 64
MAX_LETTERS = 8000  # of one text; what is longer is cut
TIMEOUT_S = 20.0  # of silence
LONGEST_S = 60.0  # of one answer: a server may send a byte now and then without end
RETRIES = 1


class _Batched:
    """Texts to vectors of length 1, some at once; ``_vectors`` raises ``EmbeddingError`` where there are none."""

    batch: int

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector of length 1 per text; raises ``EmbeddingError``."""
        starts = range(0, len(input), self.batch)
        return [row for start in starts for row in unit_vectors(self._vectors(list(input[start : start + self.batch])))]

    def _vectors(self, texts: list[str]) -> Vector:
        raise NotImplementedError


class _Input(Protocol):
    name: str


class _Session(Protocol):
    """The part of onnxruntime that is used here; the package has no types."""

    def get_inputs(self) -> list[_Input]: ...

    def run(self, names: None, feed: dict[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]: ...


class MiniLmEmbedding(_Batched):
    """Mean of the token vectors, as the sentence-transformers models of this family are used."""

    batch = MINILM_BATCH

    def __init__(self, folder: Path | None) -> None:
        weights, tokenizer = weight_files(folder)
        self._session = _session(weights)
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        self._tokenizer = _tokenizer(tokenizer)

    def _vectors(self, texts: list[str]) -> Vector:
        encoded = self._tokenizer.encode_batch(texts)
        parts = {
            "input_ids": np.array([each.ids for each in encoded], dtype=np.int64),
            "attention_mask": np.array([each.attention_mask for each in encoded], dtype=np.int64),
            "token_type_ids": np.array([each.type_ids for each in encoded], dtype=np.int64),
        }
        missing = [name for name in self._inputs if name not in parts]
        if missing:
            raise EmbeddingError(f"The weights ask for the input {missing[0]!r}, which a sentence model does not have.")
        output = np.asarray(self._session.run(None, {name: parts[name] for name in self._inputs})[0], dtype=np.float32)
        if output.ndim == 2:  # the weights do the pooling themselves
            return output
        mask = parts["attention_mask"][:, :, None].astype(np.float32)
        mean: Vector = (output * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1.0)
        return mean


def weight_files(folder: Path | None) -> tuple[Path, Path]:
    """The weights and the tokenizer of a folder; raises ``EmbeddingError`` naming what is missing."""
    if folder is None or not folder.is_dir():
        raise EmbeddingError(f"{folder} is not a folder with MiniLM weights; set cases.embedding.folder to one.")
    weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if weights is None or not (folder / TOKENIZER).is_file():
        lacking = TOKENIZER if weights else WEIGHTS[0]
        raise EmbeddingError(f"{folder} has no {lacking}; put the ONNX weights and the tokenizer of the model there.")
    with weights.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise EmbeddingError(f"{weights} is a pointer of Git LFS, not the weights; run git lfs pull.")
    return weights, folder / TOKENIZER


def _session(weights: Path) -> _Session:
    try:
        import onnxruntime  # type: ignore[import-untyped]
        from onnxruntime.capi import onnxruntime_pybind11_state as faults  # type: ignore[import-untyped]
    except ImportError as error:
        raise EmbeddingError("MiniLM needs the package onnxruntime; install it.") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    try:
        session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    except (faults.Fail, faults.InvalidArgument, faults.InvalidGraph, faults.InvalidProtobuf) as error:
        raise EmbeddingError(f"{weights} cannot be loaded as ONNX weights; fetch the file again.") from error
    return cast("_Session", session)


def _tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    if path.stat().st_size > MAX_TOKENIZER_BYTES:
        raise EmbeddingError(f"{path} is too large for a tokenizer; fetch the file again.")
    try:
        text = path.read_text(encoding="utf-8")
        if "model" not in parse_json(text):
            raise ValueError
    except (OSError, ValueError, TypeError) as error:
        raise EmbeddingError(f"{path} is not a tokenizer; fetch the file again.") from error
    tokenizer = Tokenizer.from_str(text)
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()
    return tokenizer


class EndpointEmbedding(_Batched):
    """Vectors of ``choice.model`` from an OpenAI-compatible endpoint at ``choice.base_url``; names are masked."""

    batch = ENDPOINT_BATCH

    def __init__(self, choice: EmbeddingChoice) -> None:
        self._choice = choice
        self._client: OpenAI | None = None

    def _vectors(self, texts: list[str]) -> Vector:
        from openai import OpenAIError

        from case_library.endpoint_client import endpoint_client

        choice, mask = self._choice, self._choice.mask
        where = f"The embedding endpoint {choice.base_url}"
        self._client = self._client or endpoint_client(
            choice.base_url, choice.key, timeout_s=TIMEOUT_S, retries=RETRIES, proxies=True, fault=EmbeddingError
        )
        outward = [(mask(text) if mask else text)[:MAX_LETTERS] or " " for text in texts]
        create = self._client.embeddings.create
        try:
            answer = _within(LONGEST_S, lambda: create(model=choice.model, input=outward, encoding_format="float"))
            rows = [entry.embedding for entry in sorted(answer.data, key=lambda entry: entry.index)]
            vectors = np.array(rows, dtype=np.float32)
        except OpenAIError as error:
            if isinstance(error.__cause__, EmbeddingError):
                raise error.__cause__ from None
            raise EmbeddingError(f"{where} gave no vectors ({type(error).__name__}); check the settings.") from error
        except TimeoutError as error:
            self._client.close()  # which ends the thread that still reads
            self._client = None
            raise EmbeddingError(f"{where} gave no vectors within {LONGEST_S:g} s; check that it is up.") from error
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise EmbeddingError(f"{where} gave an answer of another form; check that it serves embeddings.") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise EmbeddingError(f"{where} gave {vectors.shape} numbers for {len(texts)} texts; check the model.")
        return vectors


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """The result of a call, made in a thread of its own; raises its error, or TimeoutError when it takes longer."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:  # whatever it is belongs to the thread that asked, where it is raised again
            outcome.set_exception(error)

    threading.Thread(target=run, name="hermes-embedding", daemon=True).start()
    return outcome.result(seconds)
