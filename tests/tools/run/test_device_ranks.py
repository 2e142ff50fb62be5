"""Sampled devices are joined to ranks by what the files state of both, never by an index alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.analyzers.registry import all_checks
from tools.run.device_ranks import UNKNOWN, ranks_of_devices
from tools.run.model import Run
from tools.sources.load import load_run
from tools.views.profile import Profile

HOSTS = ("node12",) * 4 + ("node13",) * 4
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
STEPS = [f"0: step {step} step time: 800 ms" for step in range(1, 61)]


def joined(
    rank: int, host: str, seen: int, listed: int | None = None, bus: str = "", size: int = 8, at: str = "9f"
) -> str:
    number = "" if listed is None else f" nvmlDev {listed}"
    return (
        f"{rank}: {host}:{4700 + rank}:1 [{seen}] NCCL INFO comm 0x7f{rank:x} rank {rank} nranks {size} cudaDev {seen}"
        f"{number} busId {bus or BUSES[seen]}000 commId 0x{at} - Init COMPLETE"
    )


def of_hosts(hosts: Sequence[str] = HOSTS) -> list[str]:
    """Each host's ranks in order on its devices 0 to 3."""
    return [joined(rank, host, rank % 4, rank % 4) for rank, host in enumerate(hosts)]


def query(devices: int = 4, hot: int = -1, buses: bool = False) -> str:
    """Samples of nvidia-smi; the hot device lowers its clock."""
    lines = ["index, pci.bus_id, utilization.gpu [%], clocks.sm [MHz], clocks_event_reasons.hw_thermal_slowdown"]
    for _ in range(30):
        for device in range(devices):
            bus = f"00000000:{BUSES[device].upper()}:00.0" if buses else "[N/A]"
            state = "1100 MHz, Active" if device == hot else "1700 MHz, Not Active"
            lines.append(f"{device}, {bus}, 98 %, {state}")
    return "\n".join(lines) + "\n"


def run_of(folder: Path, lines: Sequence[str], **samples: str) -> Run:
    (folder / "train.log").write_text("\n".join([*lines, *STEPS]) + "\n")
    for name, text in samples.items():
        (folder / f"{name}.csv").write_text(text)
    return load_run([folder])


def ranks(run: Run) -> dict[tuple[str, int], int]:
    """The rank of each device, by the file of samples."""
    assert run.counters is not None
    files = [each.path for each in run.counters.sources]
    return {(files[file], device): rank for (file, _, device), rank in ranks_of_devices(run).ranks.items()}


def clocks(run: Run) -> tuple[str, tuple[int, ...], list[str]]:
    """The claim on lowered clocks, its ranks, and what speaks against it."""
    (check,) = [each for each in all_checks(Profile(run)) if each.name == "computation.clocks"]
    (finding,) = check.findings
    return finding.claim.template, finding.ranks, [each.template for each in finding.against]


def test_the_number_on_the_machine_counts_and_not_what_a_process_sees(tmp_path: Path) -> None:
    lines = [joined(rank, "node1", 0, 3 - rank, size=4) for rank in range(4)]
    run = run_of(tmp_path, lines, smi=query())
    assert ranks(run) == {("smi.csv", device): 3 - device for device in range(4)}
    assert "by NCCL's lines (device numbers) device 0 is rank 3, device 1 is rank 2" in " ".join(run.notes)


def test_the_slow_device_of_the_second_host_is_rank_6_or_rank_2_as_the_hosts_hold_the_ranks(tmp_path: Path) -> None:
    for place, (hosts, rank) in enumerate(((HOSTS, 6), (HOSTS[::-1], 2))):
        folder = tmp_path / str(place)
        folder.mkdir()
        run = run_of(folder, of_hosts(hosts), gpus_node12=query(), gpus_node13=query(hot=2))
        claim, _, against = clocks(run)
        assert claim.startswith(f"Device 2 of gpus_node13.csv (rank {rank}) lowers its clock for heat")
        assert not [each for each in against if "which rank" in each]
        assert "by its name gpus_node12.csv is taken to be of node12" in " ".join(run.notes)


def test_samples_whose_names_hold_no_host_stay_without_a_rank(tmp_path: Path) -> None:
    claim, own, against = clocks(run := run_of(tmp_path, of_hosts(), a=query(), b=query(hot=2)))
    assert claim.startswith("Device 2 of b.csv lowers")
    assert own == ()
    assert "No file says which rank uses it." in against
    assert UNKNOWN in run.notes


def test_a_host_is_a_word_of_the_name(tmp_path: Path) -> None:
    run = run_of(tmp_path, of_hosts(("node1",) * 4 + ("node12",) * 4), gpus_node12=query(), gpus_node1=query())
    assert ranks(run)[("gpus_node12.csv", 2)] == 6
    assert ranks(run)[("gpus_node1.csv", 2)] == 2
    folder = tmp_path / "other"
    folder.mkdir()
    assert not ranks(run_of(folder, of_hosts(("node1",) * 8), node12=query(), node1_2=query())).get(("node12.csv", 2))


def test_of_a_log_with_the_lines_of_one_host_alone_unnamed_samples_may_be_of_the_other(tmp_path: Path) -> None:
    assert ranks(run_of(tmp_path, of_hosts()[:4], smi=query())) == {}


@pytest.mark.parametrize("buses", [True, False])
def test_addresses_join_devices_of_a_job_on_a_part_of_a_machine(tmp_path: Path, buses: bool) -> None:
    """CUDA_VISIBLE_DEVICES=4,5,6,7 and an NCCL that states no nvmlDev: what each process sees is no index."""
    lines = [joined(rank, "node1", rank, bus=BUSES[4 + rank], size=4) for rank in range(4)]
    run = run_of(tmp_path, lines, smi=query(8, hot=2, buses=buses))
    assert ranks(run) == ({("smi.csv", 4 + rank): rank for rank in range(4)} if buses else {})
    if buses:
        (check,) = [each for each in all_checks(Profile(run)) if each.name == "computation.clocks"]
        assert not check.findings, "no rank of the job uses device 2"
        assert check.support[0].template == "By NCCL's lines no rank of the job uses device 0, 1, 2, 3."


def test_the_order_of_addresses_is_no_number_of_a_device(tmp_path: Path) -> None:
    """Four ranks and four sampled devices may be two halves of a machine of eight."""
    lines = [joined(rank, "node1", 0, bus=BUSES[3 - rank], size=4) for rank in range(4)]
    assert ranks(run_of(tmp_path, lines, smi=query(buses=False))) == {}


def test_processes_that_pmon_lists_join_the_devices_of_their_host(tmp_path: Path) -> None:
    lines = [joined(rank, host, 0, bus="0") for rank, host in enumerate(HOSTS)]
    head = ["# gpu  pid  type  sm  mem  enc  dec  command", "# Idx    #   C/G   %   %   %   %  name"]
    rows = [f"  {device}  {4704 + device}  C  98  40  -  -  python" for _ in range(5) for device in range(4)]
    run = run_of(tmp_path, lines, gpus_node13=query(hot=2), pmon_node13="\n".join([*head, *rows]) + "\n")
    assert ranks(run) == {("gpus_node13.csv", device): 4 + device for device in range(4)}


def test_a_restart_on_other_devices_leaves_the_ranks_open(tmp_path: Path) -> None:
    again = [joined(rank, host, rank % 4, rank % 4, at="aa") for rank, host in enumerate(HOSTS[::-1])]
    run = run_of(tmp_path, [*of_hosts(), *again], gpus_node12=query(), gpus_node13=query(hot=2))
    assert ranks(run) == {}
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 joined NCCL from several places, as after a restart" in " ".join(run.notes)


def test_ranks_of_a_group_are_not_those_of_the_job(tmp_path: Path) -> None:
    lines = ["world_size: 8", *(joined(rank, "node1", rank, rank, size=4) for rank in range(4))]
    run = run_of(tmp_path, lines, smi=query())
    assert ranks(run) == {}
    assert "of 4 ranks and the job has 8" in " ".join(run.notes)


def test_logs_of_single_ranks_and_folders_of_hosts_are_joined(tmp_path: Path) -> None:
    for rank, line in enumerate(of_hosts()):
        steps = [each.removeprefix("0: ") for each in STEPS]
        (tmp_path / f"rank{rank}.log").write_text("\n".join([line.partition(" ")[2], *steps]) + "\n")
    for host, hot in (("node12", -1), ("node13", 2)):
        (tmp_path / host).mkdir()
        (tmp_path / host / "smi.csv").write_text(query(hot=hot))
    run = load_run([tmp_path])
    assert run.job_log is not None
    assert sorted(run.job_log.steps["rank"].unique()) == list(range(8))
    claim, own, _ = clocks(run)
    assert claim.startswith("Device 2 of node13/smi.csv (rank 6)")
    assert own == (6,)


def test_a_log_without_lines_of_nccl_joins_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, [], smi=query())
    assert ranks(run) == {}
    assert UNKNOWN in run.notes
