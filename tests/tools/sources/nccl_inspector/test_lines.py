"""Files of NCCL Inspector and NCCL RAS: what is read of whole, cut and changed ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collective_lines import inspector_line, ras_answer, ras_lost, ras_rank, world_lines, write_lines
from tools.errors import InputError
from tools.run.recorded.collective_records import CollectiveRecords
from tools.sources.formats import Anchor, FolderFiles
from tools.sources.load import load_run
from tools.sources.nccl_inspector.source import NCCL_INSPECTOR
from tools.sources.nccl_ras.source import NCCL_RAS

LINES = "".join(f"{inspector_line(rank, 100.0 + rank, at)}\n" for at in range(2) for rank in range(2)).encode()
ANSWER = ras_answer([ras_rank(0, 5), ras_rank(1, 6)], [ras_lost(2)]).encode()


def records_of(*paths: Path) -> CollectiveRecords:
    found = load_run(paths).collectives
    assert found is not None
    return found


def test_lines_are_read_with_the_rank_of_each_process_in_the_job(tmp_path: Path) -> None:
    """Process 3 is member 1 of the pair, and rank 3 by the communicator of all four."""
    lines = world_lines({rank: [100.0] for rank in range(4)})
    lines[3].append(inspector_line(1, 50.0, 7, communicator="0x1", ranks=2, process=3))
    run = load_run([write_lines(tmp_path, lines)])
    assert {each.format for each in run.sources} == {"NCCL Inspector"}
    assert run.collectives is not None
    found = run.collectives.inspector
    assert found is not None
    own = found.collectives[found.collectives["communicator"] == "0x1"]
    assert own[["rank", "member", "ranks", "sequence", "bytes", "line"]].to_numpy().tolist() == [
        [3, 1, 2, 7, 4 << 20, 2]
    ]
    assert own["busbw_gb_per_s"].tolist() == pytest.approx([83.88608])  # 4 MiB in 50 us, times 2 (2 - 1) / 2


def test_other_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    good = inspector_line(0, 100.0, 1)
    p2p = good.replace("coll_perf", "p2p_perf")
    path = tmp_path / "node-pid1.log"
    path.write_text("\n".join((good, p2p, "half {", inspector_line(7, 100.0, 2), inspector_line(0, -1.0, 3))))
    run = load_run([path])
    (source,) = run.sources
    assert (source.status, source.events) == ("partial", 1)
    assert "3 lines are no records" in source.note
    assert "1 lines of sends" in source.note


def test_compressed_output_given_by_its_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "node-pid1.log.gz"
    path.write_bytes(gzip.compress(LINES))
    found = records_of(path).inspector
    assert found is not None
    assert len(found.collectives) == 4


def test_answers_are_ordered_by_their_time_and_a_lacking_comma_is_put_in(tmp_path: Path) -> None:
    later = ras_answer([ras_rank(0, 9)], [ras_lost(1)], at="2026-03-01 10:01:00")
    (tmp_path / "a.json").write_text(later.replace('"nvml_dev": 1,', '"nvml_dev": 1'))
    (tmp_path / "b.json").write_text(ras_answer([ras_rank(0, 5)], [ras_lost(1)]))
    found = records_of(tmp_path).ras
    assert found is not None
    assert found.files == ("b.json", "a.json")
    assert [dict(rank.counts or {})["AllReduce"] for each in found.communicators for rank in each.ranks] == [5, 9]
    assert [rank.unresponsive for each in found.communicators for rank in each.missing] == [True, True]


@settings(max_examples=100, deadline=None)
@given(
    whole=st.sampled_from([LINES, ANSWER]),
    at=st.integers(0, min(len(LINES), len(ANSWER)) - 1),
    put=st.binary(max_size=3),
    taken=st.integers(0, 2000),
)
def test_a_changed_or_cut_file_is_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, at: int, put: bytes, taken: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed_lines"
    path.write_bytes(whole[:at] + put + whole[at + taken :])
    wanted = NCCL_INSPECTOR if whole is LINES else NCCL_RAS
    read = wanted.read([FolderFiles(wanted, path.parent, (path,))], Anchor())
    assert (read.collectives is None) == all(each.status == "excluded" for each in read.sources)
    assert all(str(path) in each.note for each in read.sources if each.status == "excluded")


def test_an_answer_that_is_cut_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ras.json"
    path.write_bytes(ANSWER[:-40])
    with pytest.raises(InputError, match=r"ras\.json: cannot be read as JSON: it is cut or damaged"):
        load_run([path])
