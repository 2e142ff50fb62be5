"""The watcher in a run folder in which anybody may have put anything."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_agent.monitor.flush import RecordFiles
from hermes_agent.monitor.format import (
    PREAMBLE,
    RAW,
    RECORDS_AT,
    RING_MAGIC,
    STATE,
    STATE_AT,
    STEPS_MAGIC,
    WRITTEN_WORD,
    Description,
    RawStep,
    Workload,
    ring_folders,
)
from hermes_agent.monitor.ring import RingWriter
from hermes_agent.monitor.run_files import captured_bytes
from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.agent import AgentOptions, NodeAgent
from hermes_agent.watch.anomaly import Foreign
from hermes_agent.watch.journal import Journal
from hermes_agent.watch.left_out import MOST, LeftOut
from hermes_agent.watch.ring_reader import LARGEST_PID
from hermes_agent.watch.rings import MOST_LOOKS, CaptureRequests, RequestLimits, RunRings
from tests.hermes_agent.monitor.monitored import options
from tools.sources.monitor.reader import read_monitor


def nobody(_: set[int]) -> tuple[Foreign, ...]:
    return ()


def ring_of(run_folder: Path) -> Path:
    (ring,) = ring_folders(run_folder)[0].glob("*.ring")
    return ring


def left_by_a_killed_rank(run_folder: Path) -> Path:
    """The silent ring of a process that is gone, whose step file lacks its steps."""
    about = Description(7, None, None, "host", LARGEST_PID - 1, 10**18, 64, Workload())
    RecordFiles(run_folder / "monitor", about, 1 << 20).close()
    place = ring_folders(run_folder)[0]
    place.mkdir(parents=True)
    writer = RingWriter(place / f"{about.stem}.ring", about)
    writer.begin(RawStep(-1, -1, *[0] * 12))
    for number in range(3):
        row = RawStep(number, number, (number + 1) * 10**7, *[0] * 11)
        RAW.pack_into(writer.map, RECORDS_AT + number * RAW.size, *row)
        writer.view[WRITTEN_WORD] = number + 1
    writer.beat(10**18, -60 * 10**9)
    writer.close()
    return writer.path


def test_what_a_killed_rank_left_is_taken_over(run_folder: Path) -> None:
    ring = left_by_a_killed_rank(run_folder)
    rings = RunRings(run_folder)
    assert rings.refresh() == ()
    assert rings.left_out.take() == []
    assert not ring.exists()
    assert list(read_monitor(run_folder).steps["wall_ms"]) == [10.0, 10.0, 10.0]


def with_head(data: bytes, old: bytes, new: bytes) -> bytes:
    """The ring or step file with another text in its description."""
    magic, length = PREAMBLE.unpack_from(data)
    head: bytes = data[PREAMBLE.size : PREAMBLE.size + length]
    assert old in head
    changed: bytes = head.replace(old, new)
    more = max(len(changed) - length, 0)  # records stay where they are
    rest: bytes = data[PREAMBLE.size + length + more :]
    return PREAMBLE.pack(magic, len(changed)) + changed + bytes(max(length - len(changed), 0)) + rest


def looked(run_folder: Path, times: int = MOST_LOOKS) -> tuple[NodeAgent, list[str]]:
    """An agent that has looked so often, a second apart, and what it says that it left out."""
    clock = [0.0]
    agent = NodeAgent(run_folder, AgentOptions(foreign=nobody, clock=lambda: clock[0]))
    for _ in range(times):
        agent.poll()
        clock[0] += 3.0
    return agent, agent.left_out.take()


def pid_field(data: bytes) -> bytes:
    """The description's process as it is written there."""
    begin = data.index(b'"pid": ')
    return data[begin : data.index(b",", begin)]


def start_field(data: bytes) -> bytes:
    begin = data.index(b'"start_unix_ns": ')
    return data[begin : data.index(b", ", begin) + 2]


RINGS: dict[str, Callable[[bytes], bytes]] = {
    "absurd pid": lambda data: with_head(data, pid_field(data), b'"pid": 99999999999999999999'),
    "negative pid": lambda data: with_head(data, pid_field(data), b'"pid": -1'),
    "no start": lambda data: with_head(data, start_field(data), b""),
    "start is text": lambda data: with_head(data, start_field(data), b'"start_unix_ns": "now", '),
    "a head longer than the file": lambda data: PREAMBLE.pack(RING_MAGIC, 8000) + data[PREAMBLE.size : 4000],
    "cut within the records": lambda data: data[: RECORDS_AT + 100],
    "cut within the state": lambda data: data[: STATE_AT + 3],
    "empty": lambda data: b"",
    "nested": lambda data: PREAMBLE.pack(RING_MAGIC, 8000) + b"[" * 8000 + data[8012:],
    "not a number": lambda data: with_head(data, b'"capacity": 512', b'"capacity": NaN'),
    "rank of a million millions": lambda data: with_head(data, b'"rank": 0', b'"rank": 1000000000000'),
}


@pytest.mark.parametrize("kind", RINGS)
def test_a_ring_that_cannot_be_one_is_left_out_once_and_the_others_are_watched(run_folder: Path, kind: str) -> None:
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        real = ring_of(run_folder)
        planted = real.with_name("rank00007-1-1.ring")
        planted.write_bytes(RINGS[kind](real.read_bytes()))
        planted.chmod(0o600)
        monitor.step()
        agent, said = looked(run_folder)
        assert agent.snapshot().ranks.keys() == {0}
        assert agent.snapshot().ranks[0].record.step == 0
    assert [sentence for sentence in said if planted.name in sentence] == said
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a loop of links", "a pipe", "a folder", "a device"])
def test_what_is_no_file_at_the_place_of_a_ring_is_left_out_once(run_folder: Path, tmp_path: Path, kind: str) -> None:
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        real = ring_of(run_folder)
        plant(kind, real.with_name("rank00007-1-1.ring"), real)
        monitor.step()
        agent, said = looked(run_folder)
        assert agent.snapshot().ranks.keys() == {0}
    assert said == [f"{real.with_name('rank00007-1-1.ring')}: is no plain file; it was left out"]


def test_a_ring_that_is_cut_while_it_is_watched_ends_the_watching_of_that_rank_only(run_folder: Path) -> None:
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        real = ring_of(run_folder)
        planted = real.with_name("rank00007-1-1.ring")
        data = with_head(real.read_bytes(), b'"rank": 0', b'"rank": 7')
        planted.write_bytes(data)
        planted.chmod(0o600)
        agent, said = looked(run_folder, 1)
        assert said == []
        assert agent._rings.ranks() == (0, 7)
        os.truncate(planted, RECORDS_AT - 4000)  # a mapped one would end the process at the next look
        monitor.step()
        noticed = agent.poll() + agent.poll()
        assert agent.snapshot().ranks.keys() == {0}
        assert agent._rings.ranks() == (0,)
    assert noticed == []
    (sentence,) = [each for each in agent.left_out.take() if "not watched any more" in each]
    assert planted.name in sentence


def test_rings_of_another_user_are_not_trusted(run_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        real = ring_of(run_folder)
        for name, user, mode in (("rank00007-1-1.ring", 4321, 0o600), ("rank00008-1-1.ring", 0, 0o622)):
            planted = real.with_name(name)
            planted.write_bytes(real.read_bytes())
            os.chown(planted, user, -1)
            planted.chmod(mode)
        monitor.step()
        agent, said = looked(run_folder)
        assert agent.snapshot().ranks.keys() == {0}
    assert "rank00007-1-1.ring: belongs to user 4321, not to user 0" in said[0]
    assert "rank00008-1-1.ring: may be written by other users (mode 622)" in said[1]
    assert len(said) == 2


def test_root_watches_the_rings_of_the_user_whose_run_it_is(run_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    user = 4321
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        monitor.step()
        os.chown(run_folder / "monitor", user, -1)
        theirs = ring_folders(run_folder, user)[0]
        theirs.mkdir(mode=0o700, parents=True)
        try:
            ring = ring_of(run_folder).rename(theirs / "rank00000-1-1.ring")
            for path in (theirs.parent, theirs, ring):
                os.chown(path, user, -1)
            agent, said = looked(run_folder, 1)
            assert agent.snapshot().ranks.keys() == {0}
            assert said == []
            os.chown(theirs.parent, 4322, -1)
            _, said = looked(run_folder, 1)
            assert len(said) == 1
            assert f"{theirs.parent}: belongs to user 4322, not to user 0 or 4321" in said[0]
        finally:
            ring.unlink()
            theirs.rmdir()
            theirs.parent.rmdir()


def test_names_of_captures_that_are_none_neither_end_the_watcher_nor_use_up_numbers(run_folder: Path) -> None:
    for name in ("capture-²", "capture-" + "9" * 200, "capture-٣", "capture-0041", "capture--5", "capture-7\n"):
        (run_folder / name).mkdir()
    (run_folder / "capture-0077").symlink_to("/nowhere")
    (run_folder / "capture-0041" / "dangling.gz").symlink_to("/nowhere")
    (run_folder / "capture-0041" / "rank0.gz").write_bytes(b"12345")
    os.mkfifo(run_folder / "capture-0041" / "pipe.gz")
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        assert CaptureRequests(run_folder, rings, RequestLimits()).by_hand([0], 1, 5).request == 42
    assert captured_bytes(run_folder) == 5


def test_no_number_of_a_capture_is_too_large_for_a_request(run_folder: Path) -> None:
    (run_folder / "capture-999999998").mkdir()
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        requests = CaptureRequests(run_folder, rings, RequestLimits())
        assert requests.by_hand([0], 1, 5).request == 999_999_999
        assert requests.by_hand([0], 1, 5).refused == "the numbers of captures are used up"


PLANTED: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda path, elsewhere: path.symlink_to(elsewhere),
    "a link to nothing": lambda path, elsewhere: path.symlink_to(elsewhere.with_name("nothing")),
    "a loop of links": lambda path, elsewhere: path.symlink_to(path.name),
    "a second name": lambda path, elsewhere: path.hardlink_to(elsewhere),
    "a pipe": lambda path, elsewhere: os.mkfifo(path),
    "a folder": lambda path, elsewhere: path.mkdir(),
    "a device": lambda path, elsewhere: os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3)),
}


def plant(kind: str, path: Path, elsewhere: Path) -> None:
    try:
        PLANTED[kind](path, elsewhere)
    except PermissionError:
        pytest.skip(f"this user cannot make {kind}")


@pytest.mark.parametrize("kind", PLANTED)
def test_nothing_is_written_through_what_lies_at_the_place_of_the_agents_files(
    run_folder: Path, tmp_path: Path, kind: str
) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("mine\n", encoding="utf-8")
    host = os.uname().nodename
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        records = run_folder / "monitor"
        plant(kind, records / f"anomalies-{host}.jsonl", elsewhere)
        plant(kind, records / f".agent-{host}.json.{os.getpid()}.part", elsewhere)
        clock = [0.0]
        agent = NodeAgent(run_folder, AgentOptions(foreign=nobody, clock=lambda: clock[0]))
        monitor.step()
        agent.poll()
        agent._journal.add({"kind": "change"})
        agent._journal.add({"kind": "change"})
    assert elsewhere.read_text(encoding="utf-8") == "mine\n"
    assert not elsewhere.with_name("nothing").exists()
    said = agent.left_out.take()
    assert sum("anomalies are not written there" in each for each in said) == 1
    summary = records / f"agent-{host}.json"
    assert summary.is_file() != (kind == "a folder")  # a link, a pipe and a device are replaced by a file
    assert not summary.is_symlink()


@pytest.mark.parametrize("kind", PLANTED)
def test_what_a_killed_rank_left_is_not_taken_over_into_what_lies_at_the_place_of_its_file(
    run_folder: Path, tmp_path: Path, kind: str
) -> None:
    ring = left_by_a_killed_rank(run_folder)
    (file,) = (run_folder / "monitor").glob("*.steps")
    elsewhere = file.rename(tmp_path / "elsewhere.steps")
    before = elsewhere.read_bytes()
    plant(kind, file, elsewhere)
    rings = RunRings(run_folder)
    assert rings.refresh() == ()
    assert elsewhere.read_bytes() == before
    assert ring.exists()
    assert len(rings.left_out.take()) == 1


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(PREAMBLE.pack(STEPS_MAGIC, 0xFFFFFFFF), id="endless"),
        pytest.param(PREAMBLE.pack(STEPS_MAGIC, 8000), id="longer than the file"),
        pytest.param(PREAMBLE.pack(STEPS_MAGIC, 2) + b"{}", id="empty"),
        pytest.param(b"HDX", id="cut"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_a_step_file_with_another_head_is_left_as_it_is(run_folder: Path, head: bytes) -> None:
    ring = left_by_a_killed_rank(run_folder)
    (file,) = (run_folder / "monitor").glob("*.steps")
    file.write_bytes(head)
    rings = RunRings(run_folder)
    assert rings.refresh() == ()
    assert file.read_bytes() == head
    assert ring.exists()


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a loop of links", "a pipe"])
def test_a_records_folder_that_is_none_is_not_followed_by_training_or_watcher(
    run_folder: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plant(kind, run_folder / "monitor", elsewhere)
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        assert not monitor.on
    assert "is a link or no folder" in capsys.readouterr().err
    agent, said = looked(run_folder)
    assert agent.poll() == []
    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "nothing").exists()
    assert len(said) == len(set(said)) > 0


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a loop of links", "a pipe"])
def test_a_capture_goes_through_no_link(run_folder: Path, tmp_path: Path, kind: str) -> None:
    from hermes_agent.monitor.format import Answer
    from hermes_agent.monitor.ring import CaptureRequest

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plant(kind, run_folder / "capture-0001", elsewhere)
    (run_folder / "capture-0002").mkdir()
    trace = run_folder / "capture-0002" / "rank0.pt.trace.json.gz"
    plant(kind, trace, elsewhere)
    plant(kind, trace.with_name("rank0.pt.trace.json.part"), elsewhere)
    plant(kind, trace.with_name("rank0.pt.trace.json.packed"), elsewhere)
    plant(kind, trace.with_name(f".{trace.name}.{os.getpid()}.part"), elsewhere)
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        rings = RunRings(run_folder)
        rings.refresh()
        answers = []
        for number in (1, 2):
            rings.ask(0, CaptureRequest(number, 1))
            for _ in range(3):
                monitor.step()
            monitor._captures.finish(10.0)
            answers.append(rings.answer(0)[:2])
            monitor.step()
    assert answers == [(1, Answer.FAILED), (2, Answer.WRITTEN)]
    assert list(elsewhere.iterdir()) == []
    assert trace.is_file()
    assert not trace.is_symlink()
    assert trace.read_text(encoding="utf-8") == "5"


def test_a_folder_of_very_many_files_is_looked_at_in_part_and_said_so(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_agent.monitor import run_files

    monkeypatch.setattr(run_files, "MOST_ENTRIES", 20)
    (run_folder / "monitor").mkdir()
    for number in range(30):
        (run_folder / "monitor" / f"rank{number}.ring").touch()
    agent, said = looked(run_folder)
    assert sum("holds more than" in each for each in said) == 2  # of rings, and of other machines' agents
    assert len(agent._rings._bad) in (19, 20)  # one of them may be the agent's own file


def test_names_that_are_no_text_are_named_and_survived(run_folder: Path) -> None:
    (run_folder / "monitor").mkdir()
    for name in (b"rank\xff\xfe.ring", b"agent-\xff.json", b"anomalies-\xff.jsonl", b"rank\n\x1b[31m.ring"):
        (run_folder / "monitor" / os.fsdecode(name)).write_bytes(b"?")
    _, said = looked(run_folder)
    assert len([each for each in said if ".ring" in each]) == 2


def test_numbers_that_no_training_has_are_no_steps(run_folder: Path) -> None:
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        monitor.step()
        ring = ring_of(run_folder)
        data = bytearray(ring.read_bytes())
        planted = ring.with_name("rank00007-1-1.ring")
        state = list(STATE.unpack_from(data, STATE_AT))
        state[0] = (1 << 64) - 1
        STATE.pack_into(data, STATE_AT, *state)
        planted.write_bytes(with_head(bytes(data), b'"rank": 0', b'"rank": 7'))
        planted.chmod(0o600)
        backwards = ring.with_name("rank00008-1-1.ring")
        state[0] = 5
        STATE.pack_into(data, STATE_AT, *state)
        for slot in range(5):  # clocks that go back, steps of 2^63
            row = struct.pack("<16q", slot, (1 << 63) - 1, -(1 << 62) * (slot % 2), *[-(1 << 63)] * 13)
            data[RECORDS_AT + slot * 128 : RECORDS_AT + slot * 128 + 128] = row
        backwards.write_bytes(with_head(bytes(data), b'"rank": 0', b'"rank": 8'))
        backwards.chmod(0o600)
        agent, said = looked(run_folder)
        assert agent.snapshot().ranks.keys() == {0}
    assert len([each for each in said if "18446744073709551615 steps" in each]) == 1


def test_what_was_left_out_is_said_once_and_not_without_end() -> None:
    left_out = LeftOut()
    for number in range(1000):
        left_out.add(f"file {number}")
        left_out.add("the same")
    said = left_out.take()
    assert said.count("the same") == 1
    assert len(said) == MOST + 1
    assert said[-1] == "more was left out than is listed here"
    left_out.add("file 3")
    assert left_out.take() == []


def test_a_journal_that_a_killed_agent_left_within_a_line_goes_on_in_a_new_one(run_folder: Path) -> None:
    path = run_folder / "anomalies-x.jsonl"
    path.write_text('{"kind": "change"}\n{"kind": "dr', encoding="utf-8")
    left_out = LeftOut()
    journal = Journal(path, left_out)
    journal.add({"kind": "spike"})
    journal.add({"kind": "hang"})
    assert path.read_text(encoding="utf-8").splitlines() == [
        '{"kind": "change"}',
        '{"kind": "dr',
        '{"kind": "spike"}',
        '{"kind": "hang"}',
    ]
    os.truncate(path, 16 << 20)
    journal.add({"kind": "drift"})
    journal.add({"kind": "drift"})
    assert path.stat().st_size == 16 << 20
    assert left_out.take() == [f"{path} is as large as allowed; further anomalies are not written there"]


def test_an_unreadable_folder_is_said_once(run_folder: Path) -> None:
    (run_folder / "monitor").mkdir()
    (run_folder / "monitor").chmod(0)
    try:
        if os.access(run_folder / "monitor", os.R_OK):
            pytest.skip("this user may read everything")
        _, said = looked(run_folder)
    finally:
        (run_folder / "monitor").chmod(0o700)
    assert any("cannot be listed" in each for each in said)
    assert len(said) == len(set(said))
