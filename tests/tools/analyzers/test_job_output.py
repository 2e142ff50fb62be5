"""What a job's own output answers: its pipeline schedule, NCCL's network, time-outs, skipped steps, single steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL, TEST, WATCHDOG
from tests.tools.sources.job_log.test_tables import AVERAGES, LIGHTNING, SUMMARY
from tests.tools.sources.kineto_text import span, write_trace
from tools.analyzers.registry import check_of
from tools.findings import Check, Sentence
from tools.judgement.ranking import ranking
from tools.judgement.what_if import answered
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.views.steps.rows import step_rows

LIBRARY_LOG = "communication.library_log"
PIPELINE = """\
using world size: 16, data-parallel-size: 2, tensor-model-parallel size: 1, pipeline-model-parallel size: 8
  global_batch_size ............................... {batch}
  micro_batch_size ................................ 1
"""
STEPS = tuple((step, 1000.0 + step % 2) for step in range(1, 31))


UNDIVIDED = "A stage has no more layers than parts: an interleaved schedule cannot divide it further."


def profile_of(folder: Path, text: str) -> Profile:
    (folder / "job.out").write_text(text)
    return Profile(load_run([folder]))


def answer(profile: Profile, name: str) -> Check:
    found = check_of(profile, name)
    assert found is not None
    return found


def with_timers(forward_ms: float) -> str:
    return "".join(
        megatron(step) + f"time (ms) | forward-compute: {forward_ms} | backward-compute: {forward_ms}\n"
        for step in STEPS
    )


def test_few_micro_batches_leave_a_pipeline_idle(tmp_path: Path) -> None:
    """8 stages, 8 / (1 x 2) = 4 micro-batches: 7 of 11 parts idle; with 32 it would be 7 of 39.

    A micro-batch takes 11/4 parts now and 39/32 with 32 of them: 1 - 156/352 less for as many samples.
    """
    profile = profile_of(tmp_path, PIPELINE.format(batch=8) + megatron(*STEPS))
    (finding,) = answer(profile, "pipeline.schedule").findings
    passing, count, bubble, left, saved, longer_ms, batch, batch_now = (fact.value for fact in finding.claim.facts)
    assert (batch, batch_now) == (64, 8)
    assert longer_ms == pytest.approx(profile.mean_step_ms * 39 / 11)
    assert (passing, count) == (4, 8)
    assert (bubble, left, saved) == pytest.approx((100 * 7 / 11, 100 * 7 / 39, 100 * (1 - 156 / 352)))
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx((1 - 156 / 352) * profile.mean_step_ms)
    assert finding.saving.same_samples
    assert finding.confidence == 0.65  # no timers: nobody saw that the ranks are idle
    assert ranking(profile).causes[0].finding.cause == "pipeline_bubble"


def test_a_what_if_on_the_output_alone_is_that_of_the_diagnosis(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, PIPELINE.format(batch=8) + megatron(*STEPS))
    found = answered(profile, "micro_batches=32")
    assert found.prediction is not None
    assert found.same_samples
    assert found.prediction.step_ms_after == pytest.approx(156 / 352 * profile.mean_step_ms)
    assert found.prediction.low_ms < found.prediction.step_ms_after < found.prediction.high_ms
    slower = answered(profile, "micro_batches=1").prediction
    assert slower is not None
    assert slower.low_ms < slower.step_ms_after < slower.high_ms
    assert slower.step_ms_after > profile.mean_step_ms
    unknown = answered(profile_of(tmp_path, megatron(*STEPS)), "micro_batches=32")
    assert [each.why for each in unknown.refused] == [
        "the job's output does not state its pipeline stages and micro-batches"
    ]


@pytest.mark.parametrize(("forward_ms", "status", "sure"), [(180.0, "found", 0.9), (450.0, "clean", 0.0)])
def test_timers_of_a_rank_confirm_or_refute_the_schedule(
    tmp_path: Path, forward_ms: float, status: str, sure: float
) -> None:
    check = answer(profile_of(tmp_path, PIPELINE.format(batch=8) + with_timers(forward_ms)), "pipeline.schedule")
    assert check.status == status
    assert [finding.confidence for finding in check.findings] == ([pytest.approx(sure, abs=0.06)] if sure else [])


def test_the_range_of_the_gain_ends_where_no_idle_time_is_left(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, PIPELINE.format(batch=8) + megatron(*STEPS))
    alone = ranking(profile).causes[0].alone
    assert alone is not None
    assert alone.speedup < alone.speedup_high <= 11 / 4 + 1e-9


def test_enough_micro_batches_are_clean_and_no_pipeline_is_no_question(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, PIPELINE.format(batch=128) + megatron(*STEPS))
    check = answer(profile, "pipeline.schedule")
    assert check.status == "clean"
    assert check.support[0].facts[2].value == pytest.approx(100 * 7 / 71)
    assert check_of(profile_of(tmp_path, megatron(*STEPS)), "pipeline.schedule") is None


def test_the_206_billion_parameter_log_has_a_pipeline_bubble(traces: Path) -> None:
    path = traces / "logs" / "megatron_gpt2_206B_tp4_pp64.out"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    profile = Profile(load_run([path]))
    ranked = ranking(profile)
    assert ranked.verdict == "problem"
    assert ranked.causes[0].finding.cause == "pipeline_bubble"
    facts = {fact.metric: fact.value for each in ranked.causes[0].finding.details for fact in each.facts}
    assert facts["timed_compute_pct"] == pytest.approx(100 * 4 / 67, abs=1.0)  # timers and schedule agree
    alone = ranked.causes[0].alone
    assert alone is not None
    assert (
        alone.speedup < alone.speedup_high <= 100 / facts["timed_compute_pct"] + 1e-9
    )  # no more than to compute alone
    assert UNDIVIDED in [each.template for each in ranked.causes[0].finding.against]  # 64 layers in 64 stages


def test_sockets_and_a_forced_algorithm_are_found_in_the_library_log(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, NCCL), "communication.library_log")
    assert [(finding.mechanism, finding.confidence) for finding in check.findings] == [
        ("socket_fallback", 0.6),
        ("algorithm_override", 0.5),
    ]
    (count,) = check.findings[0].claim.facts
    assert (count.value, count.selector) == (1, "connections over NET/Socket, line 14")
    assert count.path.endswith("job.out")


def test_a_log_that_ends_before_the_connections_still_shows_the_socket_fall_back(tmp_path: Path) -> None:
    """The reasons are named; on one host sockets carry no collective, so what NCCL chose is said and is no cause."""
    begins = """\
node1:100:110 [0] transport/net_ib.cc:117 NCCL WARN NET/IB : Unable to open device mlx5_0
node1:100:110 [0] NCCL INFO Failed to initialize NET plugin IB
node1:100:110 [0] NCCL INFO Initialized NET plugin Socket
node1:100:110 [0] NCCL INFO Using network Socket
"""
    other = "node2:7:8 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
    check = answer(profile_of(tmp_path, begins + other + "node2:7:8 [0] NCCL INFO Using network Socket\n"), LIBRARY_LOG)
    (finding,) = check.findings
    assert (finding.mechanism, finding.claim.names[:2], finding.confidence) == (
        "socket_fallback",
        ("node1", "node2"),
        0.6,
    )
    assert finding.claim.names[2] == "NET/IB : Unable to open device mlx5_0"
    assert finding.details[0].names == (
        "NET/IB : Unable to open device mlx5_0",
        "Failed to initialize NET plugin IB",
    )
    alone = answer(profile_of(tmp_path, begins), LIBRARY_LOG)
    assert alone.findings == ()
    assert "nothing on a single host" in alone.support[0].template


def test_adapters_without_gpu_direct_are_found_where_ranks_connect_over_them(tmp_path: Path) -> None:
    text = NCCL.replace("/GDRDMA", "").replace("NET/Socket/0", "NET/IB/1").replace("NCCL_ALGO", "NCCL_DEBUG")
    check = answer(profile_of(tmp_path, text), "communication.library_log")
    assert [finding.mechanism for finding in check.findings] == ["no_gpu_direct"]
    direct = NCCL.replace("NET/Socket/0", "NET/IB/1/GDRDMA").replace("NCCL_ALGO", "NCCL_DEBUG")
    clean = answer(profile_of(tmp_path, direct), "communication.library_log")
    assert clean.status == "clean"
    assert [fact.value for fact in clean.support[0].facts] == [2, 1]  # NET/IB/GDRDMA, P2P


def test_a_table_of_nccl_tests_gives_its_bandwidth(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, TEST), "communication.library_log")
    assert [fact.value for fact in check.support[-1].facts] == [116.79, 132.13]


INFO_LINE = "node1:1:2 [0] NCCL INFO Using network IB\n"


@pytest.mark.parametrize(
    ("before", "asks"),
    [
        ("", "the same test with `NCCL_DEBUG=INFO`"),
        ("$ mpirun -x NCCL_DEBUG=INFO -np 2 ./x\n", "all that this test prints"),
    ],
)
def test_lines_of_nccl_are_asked_for_where_they_are_missing(tmp_path: Path, before: str, asks: str) -> None:
    rows = [line for line in TEST.splitlines() if line.startswith("#") or "NCCL" not in line]
    needs = ranking(profile_of(tmp_path, before + "\n".join(rows) + "\n")).needs
    assert needs.startswith(asks)
    assert "NCCL" not in ranking(profile_of(tmp_path, INFO_LINE + TEST)).needs


def test_rows_of_small_messages_show_latency_and_no_bandwidth(tmp_path: Path) -> None:
    head = "# Collective test starting: all_reduce_perf\n#  size  count  type  redop  root  time  algbw  busbw #wrong"
    row = "  1024  256  float  sum  -1  31.50  0.03  0.06  0  30.10  0.03  0.06  0\n"
    check = answer(profile_of(tmp_path, f"{head}  time  algbw  busbw #wrong\n{row}"), "communication.library_log")
    said = check.support[-1]
    assert said.template.startswith("In nccl-tests the largest row is of 1024 bytes: one collective takes {0}")
    assert [fact.value for fact in said.facts] == [pytest.approx(0.0315)]


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("[rank0]:step 3 loss 1\n", "Rank 0 reported none: look there first for what holds the others up."),
        ("", "The log holds nothing of rank 0: read the output of all hosts."),
    ],
)
def test_the_rank_that_reports_no_time_out_is_named(tmp_path: Path, printed: str, said: str) -> None:
    seven = "".join(WATCHDOG.replace("ank7", f"ank{rank}").replace("ank 7", f"ank {rank}") for rank in range(1, 8))
    world = (
        "using world size: 8, data-parallel-size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"
    )
    check = answer(profile_of(tmp_path, world + printed + seven), "communication.timeouts")
    first, missing = check.support
    assert first.template.startswith("Ranks 1, 2, 3, 4, 5, 6, 7 waited {0} for {n0} (sequence number {n1})")
    assert (first.facts[0].value, first.names) == (600_013, ("ALLTOALL", "4486"))
    assert missing.template == said


@pytest.mark.parametrize(("ran_ms", "waits"), [(615_000, [600_013, 615_000]), (600_088, [600_013])])
def test_ranks_that_waited_for_different_times_have_a_range(tmp_path: Path, ran_ms: int, waits: list[int]) -> None:
    """Less than a second apart is not: both are 600 s."""
    other = WATCHDOG.replace("ank7", "ank3").replace("ank 7", "ank 3").replace("600013", str(ran_ms))
    said = answer(profile_of(tmp_path, other + WATCHDOG), "communication.timeouts").support[0]
    assert [fact.value for fact in said.facts] == waits


def test_ranks_in_different_collectives_are_said_to_be(tmp_path: Path) -> None:
    other = WATCHDOG.replace("ank7", "ank3").replace("ank 7", "ank 3").replace("ALLTOALL", "ALLREDUCE")
    check = answer(profile_of(tmp_path, WATCHDOG + other), "communication.timeouts")
    assert check.support[0].names == ("ALLTOALL", "4486", "9")
    assert check.support[1].template.startswith(
        "Rank 3 waited {0} for {n0} (sequence number {n1} of process group {n2})"
    )
    assert "collectives of the same group: the ranks did not call the same ones" in check.support[2].template
    elsewhere = answer(profile_of(tmp_path, WATCHDOG + other.replace("GUID 9", "GUID 4")), "communication.timeouts")
    assert elsewhere.support[1].names == ("ALLREDUCE", "4486", "4")
    assert "Collectives of several process groups wait at once" in elsewhere.support[2].template
    unknown = answer(profile_of(tmp_path, WATCHDOG + other.splitlines()[0] + "\n"), "communication.timeouts")
    assert unknown.support[2].template.startswith("These are collectives of different groups, or")


HEARD = (
    "[rank{0}]:[E603 17:48:02.0 ProcessGroupNCCL.cpp:1400] [PG ID 2 PG GUID {1} Rank {0}] Received a dump signal due to"
    " a collective timeout from rank 7 and we will try our best to dump the debug info. Last enqueued NCCL work: {2},"
    " last completed NCCL work: {2}.\n"
)


def test_a_rank_whose_watchdog_states_fewer_works_of_the_group_is_behind(tmp_path: Path) -> None:
    """4480 works of group 9 where 4486 is waited for; nothing follows from another group, nor from no work at all."""
    check = answer(profile_of(tmp_path, WATCHDOG + HEARD.format(5, 9, 4480)), "communication.timeouts")
    assert [each.template for each in check.support[1:]] == [
        "Rank 5 had enqueued works of this group up to number 4480 only, not 4486: look there first."
    ]
    for group, enqueued in ((4, 4480), (9, -1), (9, 4486)):
        other = answer(profile_of(tmp_path, WATCHDOG + HEARD.format(5, group, enqueued)), "communication.timeouts")
        assert not any("had enqueued" in each.template for each in other.support), (group, enqueued)


def test_a_rank_whose_watchdog_only_names_the_same_work_waits_too(tmp_path: Path) -> None:
    failed = WATCHDOG.splitlines(keepends=True)[1].replace("ank7", "ank2").replace("ank 7", "ank 2")
    check = answer(profile_of(tmp_path, WATCHDOG + failed), "communication.timeouts")
    assert [each.template[:20] for each in check.support] == ["Ranks 2, 7 waited {0"]


@pytest.mark.parametrize(("late", "status"), [(0, "clean"), (1, "found")])
def test_skipped_steps_count_once_the_loss_scale_has_settled(tmp_path: Path, late: int, status: str) -> None:
    """The first five of 30 steps are always skipped, of the later half none or all 15."""
    lines = megatron(*STEPS).splitlines()
    skipped = [
        line.replace("skipped iterations:   0", f"skipped iterations:   {1 if at < 5 else late if at >= 15 else 0}")
        for at, line in enumerate(lines)
    ]
    check = answer(profile_of(tmp_path, "\n".join(skipped)), "computation.skipped_steps")
    assert check.status == status
    values = [fact.value for fact in check.support[0].facts]
    assert values == pytest.approx([100.0] if late else [100 * 5 / 30, 0.0])


RATES = (
    "[2030-04-01 10:00:{0:02d},000] [INFO] [timer.py:264:stop] epoch=0/micro_step={0}/global_step={0}, "
    "RunningAvgSamplesPerSec=31.2, CurrSamplesPerSec=33.0, MemAllocated=10.5GB, MaxMemAllocated=30.2GB\n"
)


def test_skipped_steps_stand_in_another_line_than_the_throughput_of_deepspeed(tmp_path: Path) -> None:
    """Every third step is skipped: 20 of 59."""
    stated = "[2030-04-01 10:00:{0:02d},001] [INFO] [logging.py:96:log_dist] [Rank 0] step={0}, skipped={1}, lr=[0.1]\n"
    profile = profile_of(tmp_path, "".join(RATES.format(at) + stated.format(at, at // 3) for at in range(1, 60)))
    assert measure(profile, "skipped_steps").value == 19
    assert answer(profile, "computation.skipped_steps").status == "found"


def test_steps_that_deepspeed_says_it_skips_are_counted_where_no_line_states_how_many(tmp_path: Path) -> None:
    skips = (
        "[2030-04-01 10:00:00,000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank {} Skipping "
        "step. Attempted loss scale: 65536, reducing to 32768\n"
    )
    lines = [(skips.format(0) + skips.format(8)) * (at % 3 == 0) + RATES.format(at) for at in range(1, 60)]
    profile = profile_of(tmp_path, "".join(lines))
    log = profile.run.job_log
    assert log is not None
    assert log.steps["skipped"].tolist()[:6] == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert measure(profile, "skipped_steps").value == 19
    assert answer(profile, "computation.skipped_steps").status == "found"


@pytest.mark.parametrize("begin", [0, 1000])
def test_a_running_total_of_skipped_steps_is_told_as_such(tmp_path: Path, begin: int) -> None:
    """DeepSpeed states the skipped steps since the job began: 6 up to the first line, 4 in the later half."""
    totals = [6, *(6 + (at >= 8) + 3 * (at >= 10) for at in range(1, 12))]
    lines = [
        f"[2030-04-01 10:{at:02d}:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step={begin + 10 * (at + 1)},"
        f" skipped={total}, lr=[0.001]"
        for at, total in enumerate(totals)
    ]
    profile = profile_of(tmp_path, "\n".join(lines))
    steps = profile.run.job_log.steps if profile.run.job_log else None
    assert steps is not None
    assert steps["skipped"].tolist() == [0.0] * 7 + [1.0, 0.0, 3.0, 0.0]  # the first line has no time: none before it
    assert measure(profile, "skipped_steps").value == 10
    later, whole = (measure(profile, "skipped_steps_pct", settled=settled).value for settled in (1, 0))
    assert (later, whole) == pytest.approx((100 * 4 / 60, 100 * 10 / (begin + 120)))


def test_means_over_ten_steps_do_not_answer_for_single_steps(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, megatron(*((step, 100.0 + step % 30 * 0.1) for step in range(10, 600, 10))))
    for name in ("step_time.fluctuation", "step_time.periodicity", "storage.periodic_stall"):
        check = answer(profile, name)
        assert check.status == "cannot_answer"
        assert check.reason.startswith("not every single step is known")
    assert answer(profile, "step_time.change_point").status == "clean"


def test_a_change_of_level_in_a_log_is_found_at_its_step(tmp_path: Path) -> None:
    steps = ((step, (100.0 if step < 60 else 150.0) + step % 3) for step in range(1, 121))
    check = answer(profile_of(tmp_path, megatron(*steps)), "step_time.change_point")
    assert check.status == "found"
    assert "From step 60 on" in check.support[0].template


def test_a_log_alone_is_never_healthy(tmp_path: Path) -> None:
    assert ranking(profile_of(tmp_path, megatron(*STEPS))).verdict == "inconclusive"


def test_without_a_log_nothing_is_asked(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", [span("aten::mm", 10, 90)])
    profile = Profile(load_run([tmp_path]))
    for name in (
        "pipeline.schedule",
        "communication.library_log",
        "communication.timeouts",
        "computation.skipped_steps",
    ):
        assert check_of(profile, name) is None


def test_steps_of_a_log_are_listed_with_their_lines(tmp_path: Path) -> None:
    rows = step_rows(profile_of(tmp_path, "start\n" + megatron(*STEPS)))
    assert rows[0] == {"step": 4, "rank": 0, "wall_ms": 1000.0, "line": 5}
    assert len(rows) == 27


def test_allocator_flushes_per_step_are_found_and_seldom_ones_are_not(tmp_path: Path) -> None:
    flush = "[WARNING] [stage3.py:2236:step] 2 pytorch allocator cache flushes since last step. this happens\n"
    profile = profile_of(tmp_path, megatron(*STEPS) + flush * 9)
    (finding,) = answer(profile, "memory.output_flushes").findings
    assert finding.claim.facts[0].value == pytest.approx(18 / 30)
    assert finding.claim.facts[0].selector == "9 warnings, lines 31 to 39"
    assert answer(profile_of(tmp_path, megatron(*STEPS) + flush), "memory.output_flushes").status == "clean"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "... gpu/gpu_device.cc:1700] Cannot dlopen some GPU libraries.\nSkipping registering GPU devices...",
            "without",
        ),
        ("W0101 torch/_dynamo/convert_frame.py:12] WON'T CONVERT forward /a/model.py line 3", "run uncompiled"),
        ("[rank1]:[E1 x.cpp:1] [PG ID 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for 600 seconds", "no progress"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. ", "SIGKILL"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. Details are lost", "/dev/shm"),
        ("ERROR: This might be caused by insufficient shared memory (shm).", "/dev/shm"),
        ("[Compiling module jit_step] Very slow compile? If you want to file a bug, run with", "XLA"),
        ("WARNING:tensorflow:Callback method `on_x` is slow compared to the batch time (batch time: 0.1s vs", "Keras"),
    ],
)
def test_further_warnings_are_repeated_with_what_they_mean(tmp_path: Path, line: str, said: str) -> None:
    check = answer(profile_of(tmp_path, megatron(*STEPS) + f"{line}\n" * 2), "step_time.output")
    assert check.status == "found"
    (warned,) = [each for each in check.support if said in each.template]
    assert warned.facts[0].value == 2.0


COMPILED = (
    "The operation took {}s\n\n****\n[Compiling module jit_step] Very slow compile? If you want to file a bug\n****\n"
)
TITLE = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=49, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for "
    "1805607 milliseconds before timing out.\n"
)
MASKED = "[2026-03-13 22:26:02] host-1.example.com:XXXXXX [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed\n"


def test_the_times_that_xla_states_of_slow_compilations_are_summed(tmp_path: Path) -> None:
    """2 min 32.5 s and 1 h 0 min 7.5 s are 3760 s; a time of another operation further up is none of them."""
    text = "The operation took 9.0s\n" + "other\n" * 9 + "[Compiling module a] Very slow compile? If\n"
    check = answer(
        profile_of(tmp_path, text + COMPILED.format("2m32.5") + COMPILED.format("1h0m7.5")), "step_time.output"
    )
    assert [fact.value for said in check.support for fact in said.facts] == [3, pytest.approx(3760.0)]


def test_a_watchdog_s_message_without_a_rank_is_said_where_no_line_names_one(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, TITLE), "step_time.output")
    assert [fact.value for said in check.support for fact in said.facts] == [1, pytest.approx(1805.607)]
    several = answer(profile_of(tmp_path, TITLE * 2), "step_time.output")
    assert [fact.value for said in several.support for fact in said.facts] == [2]
    named = profile_of(tmp_path, WATCHDOG + "\n" + TITLE)
    assert all("without naming" not in said.template for said in answer_or_none(named))


def answer_or_none(profile: Profile) -> list[Sentence]:
    check = check_of(profile, "step_time.output")
    return [] if check is None else list(check.support)


def test_a_warning_of_nccl_from_a_process_whose_number_is_masked_is_read(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, MASKED), "communication.library_warnings")
    assert "ibv_modify_qp" in check.support[0].names[0]


def test_warnings_and_time_outs_behind_a_progress_bar_are_read(tmp_path: Path) -> None:
    """2 and 3 flushes behind updates of a bar and 1 alone, in 3 lines; one step of the bar is known."""
    bar = "epoch 0:  22%|##        | {}/120 [30:23<1:54:12, 72.90s/it]"
    flush = "[WARNING] [stage3.py:1898:step] {} pytorch allocator cache flushes since last step. this happens\n"
    text = bar.format(26) + flush.format(2) + bar.format(27) + flush.format(3) + flush.format(1)
    (finding,) = answer(profile_of(tmp_path, text), "memory.output_flushes").findings
    assert [fact.value for fact in finding.claim.facts] == [6.0, 3.0]
    waited = answer(profile_of(tmp_path, bar.format(28) + WATCHDOG), "communication.timeouts").support[0]
    assert waited.facts[0].value == 600_013


def test_the_table_of_lightning_shows_the_wait_for_data(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, LIGHTNING), "io.output_table")
    assert check.status == "found"
    assert check.support[0].facts[0].value == pytest.approx(100 * 75 / 98.5)


def test_warnings_and_the_summary_of_the_job_are_repeated(tmp_path: Path) -> None:
    summary = "{'train_runtime': 896.0007, 'train_samples_per_second': 1.116, 'train_steps_per_second': 0.009}\n"
    limit = "W0822 torch._dynamo hit config.recompile_limit (8)\n"
    check = answer(profile_of(tmp_path, megatron(*STEPS) + limit + summary), "step_time.output")
    assert check.status == "found"
    assert [fact.value for said in check.support for fact in said.facts] == [1, 896.0007, 1.116]


def test_the_length_of_the_training_is_that_of_the_main_process(tmp_path: Path) -> None:
    ranks = "{'train_runtime': 896.0007, 'train_samples_per_second': 1.116}\n{'train_runtime': 895.9367}\n"
    whole = "[INFO|trainer_pt_utils.py:912] 2021-05-25 07:09:47,832 >>   train_runtime            = 0:14:55.93\n"
    profile = profile_of(tmp_path, megatron(*STEPS) + ranks + whole)
    assert measure(profile, "stated_runtime_s").value == 895.93


def test_a_log_that_ends_in_a_time_out_asks_for_the_flight_recorder(tmp_path: Path) -> None:
    ranked = ranking(profile_of(tmp_path, WATCHDOG))
    assert (ranked.verdict, ranked.why) == ("inconclusive", "a collective timed out, and its log does not show why")
    assert "flight recorder" in ranked.needs


def test_timers_of_the_job_are_shares_of_its_usual_steps(tmp_path: Path) -> None:
    """Steps take 1,000 or 1,001 ms, the first three are warm-up; a save is timed in one step alone."""
    timers = "time (ms) | forward-compute: 300.0 | backward-compute: 600.0 | batch-generator: 50.0 | a_microstep: 9\n"
    ranks = "(min, max) time across ranks (ms):\n    forward-backward ...............: (700.50, 900.50)\n"
    text = "".join(megatron(step) + timers + ranks for step in STEPS) + "time (ms) | save-checkpoint: 5000.0\n"
    check = answer(profile_of(tmp_path, text), "step_time.timers")
    assert check.status == "found"
    shares, data, spread = check.support
    mean_ms = sum(wall_ms for _, wall_ms in STEPS[3:]) / 27
    assert shares.names == ("forward-backward", "backward-compute", "forward-compute", "batch-generator")
    assert [fact.value for fact in shares.facts] == pytest.approx([x / mean_ms * 100 for x in (900.5, 600, 300, 50)])
    assert (*data.names, *spread.names) == ("batch-generator", "forward-backward")
    assert [data.facts[0].value, spread.facts[0].value] == pytest.approx([5000 / mean_ms, 20_000 / mean_ms])
    alike = "".join(megatron(step) + timers.replace("batch-generator: 50.0 | ", "") for step in STEPS)
    assert answer(profile_of(tmp_path, alike), "step_time.timers").status == "clean"


def test_the_lead_of_a_log_with_timers_names_the_largest_one(tmp_path: Path) -> None:
    (lead,) = ranking(profile_of(tmp_path, with_timers(400.0) + megatron((31, 1000.0)))).leads
    mean_ms = sum(wall_ms for _, wall_ms in STEPS[3:]) / 27
    assert lead.claim.names == ("backward-compute",)
    assert lead.claim.facts[1].value == pytest.approx(40_000.0 / mean_ms, rel=0.01)
    (plain,) = ranking(profile_of(tmp_path, megatron(*STEPS))).leads
    assert len(plain.claim.facts) == 1


def test_the_table_of_torch_profiler_names_its_largest_operators(tmp_path: Path) -> None:
    text = AVERAGES.replace("total: 3.4ms", "total: 3.4ms\nSelf CUDA time total: 1.6205s")
    check = answer(profile_of(tmp_path, text + AVERAGES), "computation.output_operators")
    totals, largest = check.support
    assert [fact.value for fact in totals.facts] == pytest.approx([3.4, 1620.5])
    assert largest.names == ("aten::copy_", "aten::mm")
    assert [fact.value for fact in largest.facts] == pytest.approx([100 * 1500 / 1620.5, 100 * 120.5 / 1620.5])


def test_the_communication_log_of_deepspeed_is_summed_up(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, SUMMARY), "communication.output_operations")
    assert [fact.value for said in check.support for fact in said.facts] == pytest.approx([8417.31, 8317.12, 100, 0.19])


def test_a_job_that_ran_out_of_memory_is_said_to_have(tmp_path: Path) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    check = answer(profile_of(tmp_path, megatron(*STEPS) + error), "step_time.output")
    assert check.support[0].template == "The job ran out of device memory: {0}."
    assert check.support[0].facts[0].selector == "warnings, line 31"


def test_long_steps_among_printed_ones_do_not_count_where_one_of_several_is_printed(tmp_path: Path) -> None:
    """Every tenth step is printed, every hundredth also evaluates: a tenth of the lines, a hundredth of the steps."""
    lines = "\n".join(
        f"iter {at}: loss 1.0, time {9000.0 if at % 100 == 0 else 50.0 + at % 30 / 10}ms, mfu 1%"
        for at in range(10, 1010, 10)
    )
    series = profile_of(tmp_path, lines).series
    assert series is not None
    assert series.mean_ms == pytest.approx(51.0, abs=0.5)
    assert "10 printed steps are over 3 times as long" in series.notes[0]
    every = profile_of(tmp_path, lines.replace("0: loss", ": loss")).series
    assert every is not None
    assert every.mean_ms > 900


def test_parts_of_a_step_of_verl_are_its_timers(tmp_path: Path) -> None:
    text = "".join(
        f"step:{at} - actor/entropy:0.3{' - filler/metric:1.25' * 300} - timing_s/gen:20.0 - timing_s/adv:0.1 - "
        f"timing_s/update_actor:15.0 - timing_s/step:40.0 - x:1\n"
        for at in range(1, 21)
    )
    check = answer(profile_of(tmp_path, text), "step_time.timers")
    assert check.support[0].names == ("gen", "update_actor")
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([50.0, 37.5])


def test_a_measured_bandwidth_stands_next_to_a_forced_setting_and_adapters_without_gpu_direct_are_noted(
    tmp_path: Path,
) -> None:
    forced = TEST.replace("Using network IB", "NCCL_TOPO_FILE set by environment to /topo.xml")
    check = answer(profile_of(tmp_path, forced), LIBRARY_LOG)
    assert [finding.mechanism for finding in check.findings] == ["topology_file"]
    assert check.support[-1].facts[0].value == 116.79
    plain = NCCL.replace("/GDRDMA", "").replace("NET/Socket/0", "NET/IB/1").replace("NCCL_ALGO", "NCCL_DEBUG")
    quiet = plain.replace("GPU Direct RDMA Disabled", "GPU Direct RDMA Enabled")
    check = answer(profile_of(tmp_path, quiet), LIBRARY_LOG)
    assert (check.status, check.findings) == ("found", ())
    assert check.support[-1].template == "None of the connections over adapters uses GPUDirect RDMA."


@pytest.mark.parametrize(("count", "status"), [(4, "clean"), (60, "found")])
def test_steps_that_are_all_skipped_are_the_start_of_a_loss_scale_or_one_that_never_settles(
    tmp_path: Path, count: int, status: str
) -> None:
    lines = megatron(*((step, 1000.0) for step in range(1, count + 1))).replace("iterations:   0", "iterations:   1")
    check = answer(profile_of(tmp_path, lines), "computation.skipped_steps")
    assert check.status == status
    assert check.support[0].facts[0].value == 100.0


def test_a_save_next_to_each_long_step_is_the_evidence_for_it(tmp_path: Path) -> None:
    """Every 20th of 140 steps takes 31 s; the log names a save behind each of them."""
    lines = (f"step={at} step_time={31.0 if at % 20 == 0 else 2.0 + at % 3 / 100}s\n" for at in range(1, 141))
    saved = "".join(line + ("Saving checkpoint to /ckpt\n" if at % 20 == 0 else "") for at, line in enumerate(lines, 1))
    (finding,) = answer(profile_of(tmp_path, saved), "storage.periodic_stall").findings
    assert (finding.mechanism, finding.confidence, finding.against) == ("synchronous_save", 0.85, ())
    assert finding.details[0].facts[0].value == 7
    every = saved.replace("Saving checkpoint to /ckpt\n", "").replace("s\n", "s\nsaved checkpoint\n")
    (elsewhere,) = answer(profile_of(tmp_path, every), "storage.periodic_stall").findings
    assert elsewhere.confidence < 0.5


def test_the_limit_of_recompilations_explains_long_steps_before_and_a_level_after(tmp_path: Path) -> None:
    """400 ms with 5 s in every 7th step, then 690 ms for good: no save, and all of it over 400 ms is lost."""
    before = megatron(*((at, 5000.0 if at % 7 == 0 else 400.0 + at % 3) for at in range(1, 30)))
    after = megatron(*((at, 690.0 + at % 3) for at in range(30, 60)))
    limit = "W1122 [0/8] torch._dynamo hit config.recompile_limit (8)\n"
    profile = profile_of(tmp_path, before + limit + after)
    assert answer(profile, "storage.periodic_stall").status == "clean"
    (finding,) = answer(profile, "cpu.operator_compilation").findings
    assert [round(fact.value) for fact in finding.claim.facts[:2]] == [401, 691]
    assert finding.claim.facts[2].value == pytest.approx(profile.mean_step_ms - finding.claim.facts[0].value)
    assert ranking(profile).causes[0].finding.cause == "operator_compilation"


EXHAUSTED = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 "
    "GiB of which 1.20 GiB is free. Process 3311 has 38.10 GiB memory in use. Including non-PyTorch memory, this "
    "process has 39.83 GiB memory in use. Of the allocated memory 30.10 GiB is allocated by PyTorch, and 8.90 GiB is "
    "reserved by PyTorch but unallocated.\n"
)


def test_a_report_of_exhausted_memory_is_read_also_alone(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, EXHAUSTED), "step_time.output")
    found = [(str(fact.arguments[0][1]), round(fact.value, 2)) for said in check.support for fact in said.facts]
    assert found[1:] == [("asked", 2.0), ("free", 1.2), ("total", 79.15), ("others", 38.1), ("unused", 8.9)]


OWN_PROCESS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacty of 23.50 GiB"
    " of which 100.00 MiB is free. Process {processes} memory in use. Of the allocated memory 21.00 GiB is allocated by"
    " PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
)


@pytest.mark.parametrize("processes", ["77 has 23.40 GiB", "77 has 22.90 GiB memory in use. Process 9 has 0.50 GiB"])
def test_a_process_that_cannot_fit_next_to_the_job_is_not_called_another(tmp_path: Path, processes: str) -> None:
    """23.4 and the 22 that PyTorch reserved are 45.4 GiB of a device of 23.5; 21 of 22 GiB are allocated."""
    check = answer(profile_of(tmp_path, OWN_PROCESS.format(processes=processes)), "step_time.output")
    said = {each.template: [fact.value for fact in each.facts] for each in check.support}
    assert not any("Other processes" in text for text in said)
    assert next(facts for text, facts in said.items() if "little is left" in text) == pytest.approx([100 * 21 / 22])


@pytest.mark.parametrize("process", ["123", "XXXX", "<pid>"])
@pytest.mark.parametrize(("free", "others"), [("49.00", []), ("19.40", [30.0])])
def test_processes_are_others_where_their_memory_and_the_jobs_are_both_in_use(
    tmp_path: Path, free: str, others: list[float], process: str
) -> None:
    """Of 79.15 GiB 30.15 are in use, no room for 30 and 29.5; or 59.75 are."""
    report = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 60.00 GiB. GPU 0 has a total capacity of 79.15 "
        f"GiB of which {free} GiB is free. Process {process} has 30.00 GiB memory in use. Of the allocated "
        "memory 29.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.\n"
    )
    said = answer(profile_of(tmp_path, report), "step_time.output").support
    assert [fact.value for each in said if "Other processes" in each.template for fact in each.facts] == others


def test_a_cache_larger_than_what_was_asked_for_lies_in_pieces(tmp_path: Path) -> None:
    """1 GiB is cached and 0.25 were asked for; with 0.1 GiB cached the memory is in use."""
    report = OWN_PROCESS.format(processes="77 has 23.40 GiB")
    said = [each.template for each in answer(profile_of(tmp_path, report), "step_time.output").support]
    assert any("expandable_segments" in text for text in said)
    assert not any("not fragmented" in text for text in said)
    full = report.replace("1.00 GiB is reserved", "0.10 GiB is reserved")
    said = [each.template for each in answer(profile_of(tmp_path, full), "step_time.output").support]
    assert not any("expandable_segments" in text for text in said)
    assert any("not fragmented" in text for text in said)


def test_a_warning_of_the_loader_leads_to_data_and_idle_devices_not_to_computation(tmp_path: Path) -> None:
    warning = (
        "UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in "
        "current system is 2, which is smaller\n"
    )
    head = "timestamp, index, utilization.gpu [%]\n"
    (tmp_path / "gpus.csv").write_text(head + "".join(f"2026/11/23 10:00:0{at}.500, 0, 4 %\n" for at in range(9)))
    (lead,) = ranking(profile_of(tmp_path, warning + megatron(*STEPS))).leads
    causes = [each.cause for each in lead.candidates]
    assert causes[0] == "slow_data_processing"
    assert "compute_bound" not in causes


def test_sockets_that_some_processes_chose_are_found_before_any_connection(tmp_path: Path) -> None:
    for host, network in enumerate(("IB", "Socket")):
        lines = [f"node{host}:1:2 [0] NCCL INFO Using network {network}", *["node: nothing"] * host]
        (tmp_path / f"nccl.node{host}.log").write_text("\n".join(lines) + "\n")
    (finding,) = answer(Profile(load_run([tmp_path])), LIBRARY_LOG).findings
    assert finding.claim.names == ("IB",)
    assert "some processes" in finding.claim.template


RANK_OF_TEST = "#  Rank  {} Group  0 Pid   3591 on   {} device  0 [0x03] NVIDIA A100\n"


@pytest.mark.parametrize(
    ("ranks", "separate"),
    [
        (((0, "host1"), (1, "host1"), (0, "host2"), (1, "host2")), True),
        (((0, "host1"), (1, "host2")), False),
        (((0, "host1"), (1, "host1")), False),
    ],
)
def test_nccl_tests_that_each_count_from_rank_0_on_their_host_are_separate_tests(
    tmp_path: Path, ranks: tuple[tuple[int, str], ...], separate: bool
) -> None:
    text = "".join(RANK_OF_TEST.format(*each) for each in ranks) + TEST
    said = answer(profile_of(tmp_path, text), LIBRARY_LOG).support
    assert any("own rank 0" in each.template for each in said) is separate


@pytest.mark.parametrize(
    ("settings", "mechanisms"),
    [
        ("NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=0 NCCL_DEBUG=WARN NCCL_NET_GDR_LEVEL=5", ["transport_disabled"]),
        ("NCCL_ALGO=Ring", ["algorithm_override"]),
        ("NCCL_IB_DISABLE=0 NCCL_P2P_DISABLE=0", []),
    ],
)
def test_a_switched_off_transport_is_no_forced_algorithm_and_defaults_are_no_finding(
    tmp_path: Path, settings: str, mechanisms: list[str]
) -> None:
    passed = " ".join(f"-x {each}" for each in settings.split())
    check = answer(profile_of(tmp_path, f"$ mpirun -np 2 {passed} ./build/all_reduce_perf -b 8\n{TEST}"), LIBRARY_LOG)
    assert [finding.mechanism for finding in check.findings] == mechanisms


def on_one_host(channels: int, link: str = "NVL", hosts: int = 1, extra: tuple[str, ...] = ()) -> str:
    """NCCL's lines of two devices, with or without the line that states how they are joined."""
    lines = list[str]()
    for rank in range(2):
        head = f"node{rank % hosts}:{100 + rank}:110 [{rank}] NCCL INFO "
        comm = f"comm 0x{rank}a rank {rank} nranks 2 cudaDev {rank} busId 17000 commId 0x5"
        graph = f"Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type {link}/PIX, sameChannels 1"
        lines += [head + each for each in extra]
        lines += [f"{head}{comm} - Init START", *([head + graph] if link else [])]
        lines += [f"{head}Channel 0{at}/0 : {rank}[0] -> {1 - rank}[0] via P2P/IPC" for at in range(channels)]
        lines += [f"{head}{channels} coll channels, 0 nvls channels", f"{head}{comm} - Init COMPLETE"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("link", "sure"), [("NVL", True), ("", False)])
def test_two_channels_between_devices_of_one_host_are_few_and_less_surely_where_nvlink_is_not_stated(
    tmp_path: Path, link: str, sure: bool
) -> None:
    (finding,) = answer(profile_of(tmp_path, on_one_host(2, link)), LIBRARY_LOG).findings
    assert (finding.cause, finding.mechanism, finding.saving) == ("network_configuration", None, None)
    assert [fact.value for fact in finding.claim.facts] == [2.0]
    assert (finding.confidence >= 0.5) == sure
    assert ("usual over PCIe" in finding.claim.template) != sure


def test_a_limit_on_channels_is_named_with_the_few_channels_and_once(tmp_path: Path) -> None:
    text = on_one_host(1, extra=("NCCL_MAX_NCHANNELS set by environment to 1.",))
    (finding,) = answer(profile_of(tmp_path, text), LIBRARY_LOG).findings
    assert (finding.mechanism, finding.claim.names) == ("algorithm_override", ("NCCL_MAX_NCHANNELS",))


@pytest.mark.parametrize(("channels", "link", "hosts"), [(4, "NVL", 1), (2, "PHB", 1), (2, "NVL", 2)])
def test_more_channels_and_two_over_pcie_or_between_hosts_are_usual(
    tmp_path: Path, channels: int, link: str, hosts: int
) -> None:
    assert not answer(profile_of(tmp_path, on_one_host(channels, link, hosts)), LIBRARY_LOG).findings


@pytest.mark.parametrize("kind", ["INFO ", "graph/xml.cc:635 NCCL WARN "])
def test_a_topology_file_that_cannot_be_opened_is_stated(tmp_path: Path, kind: str) -> None:
    head = "node0:1:2 [0] " + ("NCCL " if kind == "INFO " else "")
    lines = (
        f"{head}{kind}Could not open XML topology file /etc/nope.xml : No such file or directory",
        "node0:1:2 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/nope.xml",
    )
    (finding,) = answer(profile_of(tmp_path, "\n".join(lines) + "\n"), LIBRARY_LOG).findings
    assert (finding.mechanism, finding.claim.names) == ("topology_file", ("/etc/nope.xml",))


def test_sockets_are_stated_with_the_first_adapter_that_could_not_be_used(tmp_path: Path) -> None:
    (finding, _) = answer(profile_of(tmp_path, NCCL.replace("NET/IB/0/GDRDMA", "P2P/IPC")), LIBRARY_LOG).findings
    assert "before that it reports {n0}" in finding.claim.template
    assert finding.claim.names == ("NET/IB : No device found",)
