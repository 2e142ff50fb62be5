"""The slow store keeps what it is given and passes no more bytes than it says."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evals.lab.environment_faults.store import FolderStore, SlowStore, Store, StoreClient, store_of
from tools.errors import InputError

MEGABYTE = bytes(range(250)) * 4_000


def seconds(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def test_what_is_written_and_appended_is_read_again_and_lies_in_the_folder(tmp_path: Path) -> None:
    with SlowStore(mbyte_per_s=500).around(1, tmp_path) as (placement,):
        store = store_of(tmp_path, placement.environment)
        assert isinstance(store, StoreClient)
        store.write("checkpoints/one.pt", MEGABYTE)
        store.append("log.txt", b"a\n")
        store.append("log.txt", b"b\n")
        assert store.read("checkpoints/one.pt") == MEGABYTE
        assert store.read("log.txt") == b"a\nb\n"
    local = store_of(tmp_path, {})
    assert isinstance(local, FolderStore)
    assert local.read("checkpoints/one.pt") == MEGABYTE


def test_bytes_pass_at_the_rate_that_all_clients_share(tmp_path: Path) -> None:
    (tmp_path / "shard").write_bytes(MEGABYTE)
    with SlowStore(mbyte_per_s=10).around(1, tmp_path) as (placement,):
        clients = [store_of(tmp_path, placement.environment) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            together_s = seconds(lambda: list(pool.map(lambda client: client.read("shard"), clients)))
        write_s = seconds(lambda: clients[0].write("state", MEGABYTE))
    assert 0.26 < together_s < 0.9  # 3 MB at 10 MB/s
    assert 0.08 < write_s < 0.5


def test_each_request_waits_for_the_latency(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    with SlowStore(mbyte_per_s=1000, latency_ms=20).around(1, tmp_path) as (placement,):
        store = store_of(tmp_path, placement.environment)
        assert 0.2 < seconds(lambda: [store.read("small") for _ in range(10)]) < 0.8


def test_a_client_works_in_a_loader_worker(tmp_path: Path) -> None:
    (tmp_path / "sample").write_bytes(b"seven")
    with SlowStore(mbyte_per_s=100).around(1, tmp_path) as (placement,):
        store = store_of(tmp_path, placement.environment)
        store.read("sample")
        assert pickle.loads(pickle.dumps(store)).read("sample") == b"seven"
        forked = multiprocessing.get_context("fork")
        result: multiprocessing.Queue[bytes] = forked.Queue()
        worker = forked.Process(target=lambda: result.put(store.read("sample")))
        worker.start()
        assert result.get(timeout=10) == b"seven"
        worker.join()


@pytest.mark.parametrize("name", ["absent", "../outside"])
def test_a_name_the_store_cannot_give_is_an_error_and_the_next_request_works(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    (folder / "present").write_bytes(b"x")
    with SlowStore(mbyte_per_s=100).around(1, folder) as (placement,):
        store: Store = store_of(folder, placement.environment)
        with pytest.raises(InputError, match=name):
            store.read(name)
        assert store.read("present") == b"x"


def test_a_folder_gives_nothing_from_outside_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leads out"):
        FolderStore(tmp_path).read("../x")
