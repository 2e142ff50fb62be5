"""What NCCL, nccl-tests and the watchdog of PyTorch write."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.sources.job_log.logs import megatron, read
from tools.run.recorded.job_log import NO_HEAD
from tools.sources.job_log.comm_tests import headless_row
from tools.sources.job_log.nccl import NcclReader
from tools.sources.job_log.recognise import holds_records

NCCL = """\
node1:100:110 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
node1:100:110 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
node1:100:110 [0] NCCL INFO NET/IB : No device found.
node1:100:110 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
node1:100:110 [0] NCCL INFO Using network Socket
NCCL version 2.21.5+cuda12.4
node1:100:110 [0] NCCL INFO NCCL_ALGO set by environment to Tree.
node1:100:110 [0] NCCL INFO comm 0xaa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 17000 commId 0x54fe - Init START
node1:100:110 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
[1,1]<stdout>:node2:200:210 [0] NCCL INFO comm 0xbb rank 1 nranks 2 cudaDev 0 busId 65000 commId 0x54fe - Init START
node1:100:110 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels
node1:100:110 [0] NCCL INFO comm 0xaa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 17000 commId 0x54fe - Init COMPLETE
node2:200:210 [0] NCCL INFO comm 0xbb rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 65000 commId 0x54fe - Init COMPLETE
node1:100:111 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
node1:100:111 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
node1:100:111 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] via P2P/CUMEM
"""


def test_a_communicator_is_joined_by_its_id_and_owns_its_connections(tmp_path: Path) -> None:
    nccl = read(tmp_path, NCCL).nccl
    assert [(each.value, each.line) for each in nccl.network] == [("Socket", 5)]
    assert nccl.version is not None
    assert nccl.version.value == "2.21.5+cuda12.4"
    assert {name: (set_.value, set_.line) for name, set_ in nccl.settings.items()} == {"NCCL_ALGO": ("Tree", 7)}
    assert [each.value for each in nccl.gpu_direct_off] == ["HCA 0 'mlx5_0'"]
    assert nccl.hosts == ("node1", "node2")
    (joined,) = nccl.communicators
    assert (joined.key, joined.ranks, joined.size, joined.line) == ("0x54fe", (0, 1), 2, 12)
    assert (joined.channels, joined.channels_line) == (2, 11)
    assert joined.transports == {"NET/Socket": 1, "NET/IB/GDRDMA": 1, "P2P": 1}
    assert joined.transport_lines == {"NET/Socket": 14, "NET/IB/GDRDMA": 15, "P2P": 16}


def test_a_connection_that_both_ends_print_counts_once_and_each_channel_by_itself(tmp_path: Path) -> None:
    """Channels 00 and 01 from 0 to 1, of which the receiving end of 01 alone is in the log, and back on channel 00."""
    info = "node{0}:{0}00:111 [0] NCCL INFO Channel {1}/0 : {2}[0] -> {3}[0] [{4}] via NET/IB/0\n"
    lines = [(1, "00", 0, 1, "send"), (2, "00", 0, 1, "receive"), (2, "01", 0, 1, "receive"), (2, "00", 1, 0, "send")]
    text = NCCL + "".join(info.format(*each) for each in lines)
    (joined,) = read(tmp_path, text).nccl.communicators
    assert joined.transports == {"NET/Socket": 1, "NET/IB/GDRDMA": 1, "P2P": 1, "NET/IB": 3}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=40),
    st.integers(0, 40),
)
def test_a_connection_counts_as_often_as_one_of_its_ends_prints_it(
    ends: list[tuple[int, int, bool]], joined_after: int
) -> None:
    """Of 4 processes, whichever end of 3 connections each prints, and whenever its communicator is complete."""
    reader = NcclReader(0)
    joins = [f"node{rank}:1:1 [0] NCCL INFO comm 0x1 rank {rank} nranks 4 cudaDev 0 commId 0xa" for rank in range(4)]
    lines = [
        f"node{at}:1:1 [0] NCCL INFO Channel {to:02d}/0 : 0[0] -> 1[0] [{'send' if sends else 'receive'}] via NET/IB/0"
        for at, to, sends in ends
    ]
    for line in (
        *(f"{each} - Init START" for each in joins),
        *lines[:joined_after],
        *(f"{each} - Init COMPLETE" for each in joins),
        *lines[joined_after:],
    ):
        reader.take(1, line)
    printed = Counter((to, sends) for _, to, sends in ends)
    (joined,) = reader.facts().communicators
    assert joined.transports == {"NET/IB": sum(max(printed[to, True], printed[to, False]) for to in range(3))}


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (
            "(base) me@node:~/tests$ mpirun -x NCCL_IB_DISABLE=1 -x  NCCL_ALGO=Ring -np 2 ./all_reduce_perf",
            ["1", "Ring"],
        ),
        ("NCCL_IB_DISABLE=1 NCCL_ALGO='Tree' torchrun --nproc_per_node 8 train.py", ["1", "Tree"]),
        ("srun --export=ALL,NCCL_IB_DISABLE=1,NCCL_ALGO=Ring python train.py", ["1", "Ring"]),
        ("mpirun -np 2 env NCCL_ALGO=Tree ./all_reduce_perf NCCL_IB_DISABLE=1", [None, "Tree"]),
        ("root@node:/w# export NCCL_IB_DISABLE=1 NCCL_ALGO && python train.py", ["1", None]),
        ("export NCCL_IB_DISABLE=1; NCCL_ALGO=Ring python3 train.py  # NCCL_ALGO=Tree hangs", ["1", "Ring"]),
        ("python train.py  # set NCCL_IB_DISABLE=1 to avoid hangs", [None, None]),
        ("python train.py NCCL_IB_DISABLE=1", [None, None]),
        ("deepspeed  INFO  NCCL_IB_DISABLE=22,", [None, None]),
        ("NCCL_IB_DISABLE=1&&ls", [None, None]),
        ("export NCCL_IB_DISABLE=1 to avoid hangs, then run", [None, None]),
        ("export NCCL_ALGO=$ALGO", [None, None]),
        ("I tried to export NCCL_IB_DISABLE=1, which changed nothing", [None, None]),
        ("# export NCCL_IB_DISABLE=1", [None, None]),
    ],
)
def test_a_command_sets_variables_and_words_on_them_do_not(tmp_path: Path, command: str, settings: list[str]) -> None:
    found = read(tmp_path, f"{command}\n{TEST}").nccl.settings
    assert [found[name].value if name in found else None for name in ("NCCL_IB_DISABLE", "NCCL_ALGO")] == settings


TEST = """\
# Collective test starting: all_reduce_perf
node1:1:2 [0] NCCL INFO Using network IB
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     8388608       2097152     float     sum      -1    83.33  100.66  100.66      0    80.98  103.59  103.59      0
    16777216       4194304     float     sum      -1node1:1:2 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7
node1:1:2 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7
    128.3  130.79  130.79      0node1:1:2 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7
    127.0  132.13  132.13    N/A
# Avg bus bandwidth    : 116.79
"""


def test_rows_of_nccl_tests_are_found_where_other_output_tears_them(tmp_path: Path) -> None:
    tests = read(tmp_path, TEST).comm_tests
    assert tests["busbw_gb_per_s"].tolist() == [100.66, 103.59, 130.79, 132.13]
    assert tests["line"].tolist() == [5, 5, 8, 9]
    assert tests["in_place"].tolist() == [False, True, False, True]
    assert set(tests["kind"]) == {"all_reduce_perf"}
    assert tests["busbw_gb_per_s"].mean() == pytest.approx(116.79, abs=0.005)  # as nccl-tests itself computes it


def test_rows_without_their_head_are_known_by_their_figures(tmp_path: Path) -> None:
    rows = """\
   134217728      33554432     float     sum      -1   1342.7   99.96  174.93      0   1339.1  100.23  175.40      0
   268435456      67108864     float     sum      -1   2481.2  108.19  189.33      0   2479.6  108.26  189.45    N/A
# Avg bus bandwidth    : 150.56
"""
    tests = read(tmp_path, f"this is what I get:\n{rows}").comm_tests
    assert tests["busbw_gb_per_s"].tolist() == [174.93, 175.40, 189.33, 189.45]
    assert set(tests["kind"]) == {NO_HEAD}


ROW = "   134217728   33554432   float   sum   -1   1342.7   99.96  174.93   0   1339.1  100.23  175.40   0"


@pytest.mark.parametrize(
    "row",
    [
        ROW.replace("99.96", "49.96"),
        ROW.replace("33554432", "33554431"),
        ROW.replace("174.93", "474.93"),
        ROW.partition("   1339.1")[0],
    ],
)
def test_rows_whose_figures_contradict_each_other_are_no_test(row: str) -> None:
    assert headless_row(ROW)
    assert not headless_row(row)


def test_steps_behind_rows_without_a_head_are_read(tmp_path: Path) -> None:
    steps = "".join(f"step {step} loss 1.0 step_time: 0.5 s\n" for step in range(1, 9))
    log = read(tmp_path, f"{ROW}\n{steps}")
    assert len(log.comm_tests) == 2
    assert len(log.steps) == 8


WATCHDOG = (
    "[rank7]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4486, OpType=ALLTOALL, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600013 milliseconds "
    "before timing out.\n"
    "[rank7]:[E419 10:42:29.1 ProcessGroupNCCL.cpp:1834] [PG ID 2 PG GUID 9 Rank 7] Exception (either an error or "
    "timeout) detected by watchdog at work: 4486, last enqueued NCCL work: 4489, last completed NCCL work: 4485.\n"
)


def test_a_time_out_is_read_with_the_last_works_of_its_rank(tmp_path: Path) -> None:
    (timeout,) = read(tmp_path, WATCHDOG).timeouts
    assert (timeout.rank, timeout.sequence, timeout.operation, timeout.line) == (7, 4486, "ALLTOALL", 1)
    assert (timeout.timeout_ms, timeout.ran_ms, timeout.group) == (600_000, 600_013, "9")
    assert (timeout.last_enqueued, timeout.last_completed) == (4489, 4485)


def test_warnings_are_counted_with_their_first_and_last_line(tmp_path: Path) -> None:
    flushes = "[WARNING] [stage3.py:2236:step] 3 pytorch allocator cache flushes since last step. this happens when\n"
    text = megatron((1, 10.0)) + flushes + "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536\n"
    text += flushes + megatron((2, 10.0))
    found = {each.kind: each for each in read(tmp_path, text).warnings}
    assert (found["allocator_flush"].count, found["allocator_flush"].amount) == (2, 6.0)
    assert (found["allocator_flush"].first_line, found["allocator_flush"].last_line) == (2, 4)
    assert found["fp16_overflow"].count == 1


def test_arguments_of_the_job_are_read_with_their_lines(tmp_path: Path) -> None:
    text = (
        "using world size: 256, data-parallel-size: 1, tensor-model-parallel size: 4, "
        "pipeline-model-parallel size: 64 \n"
        "  global_batch_size ............................... 4\n"
        "[2021-05-25 06:54:51,423] [INFO] [config.py:752:print]   train_batch_size ............. 128\n"
    )
    log = read(tmp_path, text + megatron((1, 10.0), (2, 10.0)))
    assert {name: (log.whole(name), each.line) for name, each in log.settings.items()} == {
        "world_size": (256, 1),
        "data_parallel_size": (1, 1),
        "tensor_model_parallel_size": (4, 1),
        "pipeline_model_parallel_size": (64, 1),
        "global_batch_size": (4, 2),
        "train_batch_size": (128, 3),
    }


def test_watchdogs_of_hccl_and_lines_of_ray_and_torn_ones_are_read(tmp_path: Path) -> None:
    """Ray names the actor, torch_npu the library; a progress bar may run into the line of another rank."""
    hccl = WATCHDOG.replace("NCCL(", "HCCL(").replace("NCCL work", "HCCL work").splitlines(keepends=True)
    bar = "  1%|          | 24/1752 [01:08<1:22:56,  2.88s/it]"
    text = bar + hccl[0] + "\x1b[36m(WorkerDict pid=14, ip=10.0.0.2)\x1b[0m " + hccl[1]
    (timeout,) = read(tmp_path, text).timeouts
    assert (timeout.rank, timeout.sequence, timeout.line, timeout.last_enqueued) == (7, 4486, 1, 4489)


def test_a_rank_of_a_group_is_told_by_its_rank_in_the_job(tmp_path: Path) -> None:
    """In groups of two ranks of sixteen, both lines call theirs rank 1 of its group."""
    groups = WATCHDOG.replace("[Rank 7]", "[Rank 1]").replace("GUID 9 Rank 7", "GUID 9 Rank 1")
    other = groups.replace("[rank7]", "[rank12]").replace("SeqNum=4486", "SeqNum=31").replace("work: 4486", "work: 31")
    found = read(tmp_path, groups + other.replace("ALLTOALL", "ALLREDUCE").replace("GUID 9", "GUID 5")).timeouts
    assert [(each.rank, each.sequence, each.operation, each.group) for each in found] == [
        (7, 4486, "ALLTOALL", "9"),
        (12, 31, "ALLREDUCE", "5"),
    ]


def test_ranks_that_report_only_their_last_works_are_kept(tmp_path: Path) -> None:
    """Both forms of the line: of a rank whose collective failed, and of one that heard of another's time-out."""
    failed = (
        "[rank4]:[E603 17:48:01.0 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 9 Rank 4]  failure detected by watchdog"
        " at work sequence id: 4486 PG status: last enqueued work: 4488, last completed work: 4485\n"
    )
    heard = (
        "[rank5]:[E603 17:48:02.0 ProcessGroupNCCL.cpp:1400] [PG ID 0 PG GUID 9 Rank 5] Received a dump signal due to a"
        " collective timeout from rank 7 and we will try our best to dump the debug info. Last enqueued NCCL work:"
        " 4480, last completed NCCL work: 4480.This is most likely caused by incorrect usages of collectives\n"
    )
    log = read(tmp_path, WATCHDOG + failed + heard)
    assert [(each.rank, each.at, each.enqueued, each.completed, each.line) for each in log.statuses] == [
        (4, 4486, 4488, 4485, 3),
        (5, None, 4480, 4480, 4),
    ]
    assert [each.rank for each in log.timeouts] == [7]


OLD_TESTS = """\
# nThread 8 nGpus 1 minBytes 64 maxBytes 8388608 step: 2(factor) warmup iters: 2 iters: 5 validation: 0
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          64            16     float     sum    46.99    0.00    0.00    N/A
     8388608       2097152     float     sum    11517   93.23  163.16    N/A    178.0   47.13   82.47    N/A
# Avg bus bandwidth    : 49.1
"""


def test_rows_of_nccl_tests_without_a_root_keep_whole_times_and_the_whole_of_others(tmp_path: Path) -> None:
    tests = read(tmp_path, OLD_TESTS).comm_tests
    assert tests["time_us"].tolist() == [46.99, 11517.0, 178.0]
    assert tests["in_place"].tolist() == [False, False, True]
    assert tests["busbw_gb_per_s"].tolist() == [0.0, 163.16, 82.47]


@pytest.mark.parametrize("columns", ["", "root", "redop root"])
def test_the_columns_before_the_time_are_those_that_the_head_names(tmp_path: Path, columns: str) -> None:
    head = f"#  out-of-place  in-place\n#  size  count  type  {columns}  time  algbw  busbw  error  time\n"
    before = columns.replace("redop", "sum").replace("root", "0")
    row = f"  1024  256  float  {before}  119  8.6  8.6  0  120  8.5  8.5  0\n"
    assert read(tmp_path, head + row).comm_tests["time_us"].tolist() == [119.0, 120.0]


def test_a_test_under_mpirun_whose_head_is_cut_is_read(tmp_path: Path) -> None:
    mark = "[1,0]<stdout>:"
    lines = ["# Collective test starting: all_reduce_perf_mpi", "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152"]
    lines.append(
        "     2097152        524288     float     sum      -1     4370    0.48    0.48       0  4368.39  0.48  0.48  0"
    )
    text = "".join(f"{mark}{line}\n" for line in lines)
    assert holds_records((text.encode(),))
    tests = read(tmp_path, text).comm_tests
    assert tests["time_us"].tolist() == [4370.0, 4368.39]
    assert set(tests["kind"]) == {"all_reduce_perf"}


def test_a_topology_that_nccl_prints_states_the_bandwidth_of_paths_and_its_host(tmp_path: Path) -> None:
    text = "".join(
        f"node-{at}:40{at}:50{at} [4] NCCL INFO === System : {word} {bw} totalBw 24.0 ===\n"
        for at, word, bw in ((1, "maxBw", "7.0"), (2, "maxWidth", "12.0"))
    )
    assert holds_records((text.encode(),))
    facts = read(tmp_path, text).nccl
    assert [(each.value, each.line) for each in facts.path_bandwidths] == [("7.0", 1), ("12.0", 2)]
    assert facts.hosts == ("node-1", "node-2")
