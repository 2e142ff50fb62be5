"""Which kind of question a sentence is taken for."""

from __future__ import annotations

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import answer_text
from hermes_agent.questions.kinds import ANSWERS, NOT_UNDERSTOOD
from hermes_agent.questions.reading.question import lexicon, normalised, read_question, subject_of
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import EXAMPLES


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


ASKED = {
    "pipeline_schedule": ["how many micro-batches?", "how big is the pipeline bubble", "what with 256 micro-batches?"],
    "other_process": [
        "Which process steals my CPU?", "what is using my cores?", "who hogs the CPU", "which other process is it?",
        "does something else take our cores?",
    ],
    "drift": ["is it getting slower over time?", "do the steps become longer", "is the step time stable over the run"],
    "device_doing": ["What is the GPU doing most of the time?", "what does the device do?"],
    "kind_of_work": [
        "Is this training or inference?", "is this a training", "Is it inference?", "does this trace train",
        "is this trace of a training", "inference or training?",
    ],
    "not_finite": ["why does the loss become nan?", "since when is the loss NaN?", "is the loss infinite"],
    "stage_layers": ["which stage is the heaviest?", "how many layers should I move between the stages?"],
    "timeouts": ["were there NCCL timeouts?", "did a collective time out", "watchdog?"],
    "skipped_steps": ["any NaNs or skipped iterations?", "how many steps were skipped"],
    "critical_path": ["what is on the critical path?", "critical path by family"],
    "start": ["how long does the warm up take?"],
    "low_rate": ["why only 4 TFLOPs per GPU?", "why is the throughput so low"],
    "flop_rate": ["TFLOPs per GPU?", "how many teraflops: tflop/s"],
    "workload": [
        "what would a doubled batch size bring?", "what if I use a larger batch", "would TP=4 help?",
        "should I use more GPUs", "would 16 ranks help",
        "what would tensor parallelism bring", "half the sequence length?",
    ],
    "two_places": ["compare steps 3 and 9", "why is step 5 slower than step 9", "step 3 vs step 9",
        "first step vs last step",
        "what changed at step 3", "compare the first with the last iteration",
        "what is the difference between step 1 and step 2?"],
    "of_length": ["which steps are over 50 ms?", "steps shorter than 2 seconds", "`sgemm` calls under 5 ms"],
    "single_collective": ["which is the longest all-reduce?", "who is the straggler in the third collective"],
    "timeline": ["show me the timeline", "perfetto?", "can I get a flame graph"],
    "event": ["who calls this kernel?", "what did rank 0 do at 5 ms", "which python line launches this kernel",
        "where is `sgemm` called from"],
    "overlap": [
        "overlap of comm and compute", "comm overlap", "how much communication is hidden behind compute",
        "how much of nccl is hidden",
        "is the second all-reduce overlapped with backward?",
    ],
    "phases": ["forward against backward", "compare forward and backward", "backward vs forward time", "fwd",
        "how long is the optimizer"],
    "layers": ["which layer is slow", "slowest modules", "layers?"],
    "code_lines": ["which line of code is slow", "where in my code is the time", "which source line"],
    "worst_shape": ["worst GEMM shape", "which matmul shapes are slow", "slowest matrix shapes"],
    "group_cost": ["TP against DP cost", "what does tensor parallelism cost", "time per process group"],
    "device_gaps": ["list the gaps in step 5", "gaps over 1 ms and what the host did", "largest gaps",
        "show the gaps of rank 0"],
    "settings": ["show me the environment", "what python and torch version", "print the settings",
        "NCCL and OMP settings", "which environment variables are set", "omp variables"],
    "bound": [
        "cpu or gpu bound?", "why is gpu util low", "is the gpu starved?", "is it compute or memory bound",
        "why is my GPU only half busy?", "why is the GPU only at 50 %?", "why isn't my GPU fully used?",
        "why is half of the GPU unused?", "why are my GPUs underutilized?", "my GPU is at 45 % utilization, why?",
    ],
    "longer_steps": ["why do some steps take 15x longer?", "why are a few steps slower"],
    "operation": ["how much time in convolution?", "conv time", "how slow is softmax"],
    "overview": [
        "why is it slow?", "Why is my training so slow", "why", "summary please", "tl;dr", "what's wrong?",
        "What is the bottleneck?", "root cause?", "is it healthy?", "what are the main causes",
        "WHY IS IT SLOWER NOW??", "what limits the step", "what is holding back my training?",
        "what are the steps limited by?",
    ],
    "change": [
        "what should I change first?", "how do I fix it?", "how can I speed this up", "any advice?", "what can we do",
        "recommendations", "how to improve the data loader", "fix it",
        "What would you suggest?", "how do I get rid of gc",
    ],
    "ranks": [
        "which rank is slowest?", "slowest rank", "which gpu is the slow one?", "is rank 0 slow?",
        "who is the slowest worker",
        "which node lags", "why is rank 0 slow", "is rank 0 a straggler?", "are ranks 0 and 1 slow",
        "is one gpu slower than the others",
    ],
    "steps": [
        "which step is slowest?", "are there spikes?", "step 3?", "is the step time steady?", "longest step", "jitter",
        "does the step time drift", "which iterations are slow", "why is step 7 slow", "why are steps 5 and 9 slow?",
    ],
    "breakdown": [
        "What dominates the GPU time?",
        "what share of the step is computation?", "how long do we wait for data in a step?",
        "where does the time go?", "breakdown", "break down rank 0", "breakdown of rank 0 in step 2",
        "where is my time spent",
        "how is the time spent",
    ],
    "what_if": [
        "how long would a step take with the data loader fixed?",
        "what if I fix the data loader?", "how much would it bring to add workers",
        "set num_workers 8, would it help?", "what would fixing gc save",
        "how much faster would it be without gc", "how much would I gain with more workers", "expected speedup",
        "what if rank 0 were as fast as the others", "is it worth fixing?",
    ],
    "suspicion": [
        "could it be the network?", "why not gc?", "is NCCL the bottleneck?",
        "is it the network", "network?", "are tensor cores used?",
        "storage?", "does .item() hurt?", "is the profiler slowing it down?", "maybe it's NCCL",
        "Is CUDA_LAUNCH_BLOCKING on?", "did I leave a debug flag on?", "is anomaly detection on?",
        "is my dataloader too slow", "is the GPU too slow?", "why isn't it memory bound",
        "why not slow_link?", "why is it not slow data loading?", "why isn't it a slow device?",
    ],
    "definition": [
        "what is a straggler?", "what's small_packet", "define host synchronization", "explain pipeline bubbles",
        "what does poor overlap mean", "what is slow_data_processing", "tell me about the gil",
    ],
    "gaps": [
        "what could you not check?", "what couldn't you check", "blind spots?", "what's missing?",
        "what did you not look at",
        "what should I record next", "what can't you answer", "what could not be checked",
    ],
    "comparison": ["compare with the baseline", "what changed?", "is it worse than last week", "compare to baseline"],
    "similar_cases": [
        "similar cases?", "has anyone seen this before", "known issues", "cases like NCCL timeouts",
        "show similar cases",
    ],
    "identifiers": ["show E1", "E1", "what is E1?", "A1", "advice A1", "where does [E2] come from", "show e1"],
    "help": ["help", "what can I ask?", "hello"],
    "certainty": ["how sure are you?", "can I trust this?", "are you sure", "how confident are you in the first cause"],
    "workers": [
        "how many workers should I use?", "number of dataloader workers", "what num_workers should I set",
        "how many dataloader workers do I need",
    ],
    "duration": [
        "how long does a step take?", "step time", "average step time?", "what is the median step time",
        "how slow is a step",
    ],
    "counts": [
        "how many kernels per step?", "kernel count", "kernels longer than 1 ms", "kernel count by rank",
        "how many H2D copies", "memcpy time", "how much time in nccl?", "number of kernel launches",
        "ops over 500 us", "does it use CUDA graphs",
    ],
    "streams": ["which stream is busiest?", "how many streams", "time by stream"],
    "throughput": ["throughput?", "what is the throughput in samples/s?", "steps per second",
        "how many images per second",
        "it/s?"],
    "whole_run": ["how long is an epoch?", "how long will training take", "when is the training done", "eta?",
        "how much does this run cost us"],
    "checkpoints": ["how often is it saved?", "checkpoint interval", "how long does saving take",
        "which steps save a checkpoint"],
    "hosts": ["which ranks are on which host?", "ranks by node"],
    "host_use": ["cpu utilization?", "how busy is the CPU", "how many cores are used"],
    "optimizer": ["which optimizer is used?", "what optimizer is this"],
    "not_recorded": ["what is the gpu temperature?", "power draw", "sm clocks", "whats the loss",
        "how many parameters does the model have", "what dtype do we use"],
    "percentile": ["what is the p99 step time?", "99th percentile", "tail latency?"],
    "flops": ["what is the MFU?", "is MFU low", "flops utilization"],
    "named_work": ["how long does aten::mm take?", "time of `sgemm`", "how often does kernel sgemm run"],
    "kernels": [
        "which kernel takes the most time?", "top kernel", "top 5 kernels", "slowest kernels", "what kernels run",
        "which GPU kernels are the most expensive?",
    ],
    "host_calls": ["top host calls", "which operators take most time", "slowest operator?",
        "what is the host doing", "slowest cuda calls"],
    "collectives": [
        "how long do the all-to-all take?", "which collectives are there", "list all-reduces", "collectives by kind",
        "how many all_gathers per step?", "collectives",
    ],
    "waiting": [
        "why do ranks wait?", "what do the ranks wait for", "why are the GPUs waiting", "who is everybody waiting for",
        "why is rank 0 waiting?",
    ],
    "save_interval": ["how often should I save?", "how often should we checkpoint", "what save interval is best?"],
    "launch_queue": [
        "why is the device idle although work is launched?", "launch queue", "why is the GPU idle", "idle time",
        "how long is the launch queue?",
    ],
    "utilisation": [
        "GPU utilization percent?", "gpu utilisation", "how busy is the GPU", "what is the utilization of the device?",
    ],
    "memory": ["peak memory?", "how much memory is used", "max GPU memory", "memory usage",
        "is memory fragmented", "do we run out of memory"],
    "recording": [
        "What is this trace of?", "what is the recording about",
        "what is this run?", "what batch size and model is this?", "how many ranks", "which hardware",
        "what GPUs are these",
        "how many steps were recorded",
    ],
    "not_understood": ["what is the weather", "sing me a song", "who are you", "1234", "???", "fix everything"],
}  # fmt: skip


OF_OTHER_RUNS = {  # kinds that only runs with the sources that they read are answered by
    "stated_eta": ["the ETA says 37 days, is my training slow?"],
    "experts": ["which expert gets the most tokens?", "how many tokens does each expert get"],
    "hang": [
        "why does NCCL time out?",
        "why does it freeze",
        "which rank is guilty?",
        "who caused the hang?",
        "which rank did not join?",
        "Which rank is missing?",
        "my job is stuck, which rank is it",
    ],
    "save_cost": ["how much longer does a step with a checkpoint take?", "how much slower are steps that save"],
    "slower_cpu": ["is rank 1's CPU slower than rank 0's?", "does rank 1 share its core with something slow?"],
    "rhythm": ["how often does the long step come and how long is it?", "how often do slow steps occur?"],
    "last_call": ["when did rank 3 last make progress", "which was the last collective of rank 3"],
    "two_runs": ["which of the two runs is faster?", "how does it scale to 16 nodes?", "why is multi-gpu slower?"],
    "slower_since": ["since which step is it slower?", "when did it become slower"],
    "awaited": ["which gpu do all the others wait for?", "who are the others waiting for"],
    "evaluations": ["How long do evaluations take?", "is validation slow?", "how often does it evaluate", "eval time?"],
    "saves": ["how long does a checkpoint take?", "do checkpoints cost much?", "how often is it saved?"],
    "one_step": ["what happened at step 500?", "what went wrong in iteration 7"],
    "changed_after": ["what changed after step 300?", "what is different since step 40"],
    "first_step": ["how long did the first step take?", "why are the first steps slow?"],
    "how_steady": ["how stable are the steps?", "are the steps steady?", "does the step time vary"],
    "between_epochs": ["how much time is lost between epochs?"],
    "restarted": ["was the run restarted?", "did it resume"],
    "batch_size": ["what batch size was used?", "how big is the batch size"],
    "precision": ["was bf16 used?", "is mixed precision on?", "which precision is it"],
    "epochs": ["how many epochs were trained?"],
    "devices": ["how many GPUs are used?", "which GPU is it running on?"],
    "sampled_devices": ["which gpu throttles?", "is one gpu different from the others"],
}


@pytest.mark.parametrize(
    ("intent", "question"), [(name, text) for name, texts in OF_OTHER_RUNS.items() for text in texts]
)
def test_the_question_is_offered_to_the_kind_that_may_answer_it(intent: str, question: str) -> None:
    assert lexicon().intents[intent].fits(read_question(question).words)


@pytest.mark.parametrize(("intent", "question"), [(name, text) for name, texts in ASKED.items() for text in texts])
def test_the_question_is_taken_for_what_it_means(loader: Discussion, intent: str, question: str) -> None:
    assert answer_text(loader, read_question(question))[0] == intent


def test_every_intent_is_asked_for_in_these_tests() -> None:
    assert set(ANSWERS) == (set(ASKED) | set(OF_OTHER_RUNS)) - {NOT_UNDERSTOOD}


@pytest.mark.parametrize(("example", "name"), EXAMPLES.items())
def test_the_example_that_help_gives_is_understood(loader: Discussion, example: str, name: str) -> None:
    assert answer_text(loader, read_question(example))[0] == name


@pytest.mark.parametrize(
    ("words", "causes", "mechanism"),
    [
        ("the network", "network_configuration", None),
        ("dataloader", "slow_data_processing", None),
        ("GC", "garbage_collection", None),
        ("tensor cores", "underutilization", "no_tensor_core"),
        ("storage", "slow_data_reading", None),
        ("gil_contention", "operator_dispatch", "gil_contention"),
        ("activation checkpointing", "memory_pressure", "recomputation"),
        ("checkpointing", "checkpoint_stall", None),
        ("memory bandwidth", "memory_bound", None),
        ("num_workers", "slow_data_processing", "too_few_workers"),
        ("thermal throttling", "slow_device", None),
        ("rank 2 is a straggler", "straggler", None),
        ("communication", "straggler", None),
        ("torch.compile recompilations", "operator_compilation", None),
    ],
)
def test_usual_names_lead_to_causes_of_the_taxonomy(words: str, causes: str, mechanism: str | None) -> None:
    subject = subject_of(normalised(words))
    assert subject is not None
    assert causes in subject.causes
    assert subject.mechanism == mechanism


def test_ranks_steps_and_ids_are_read_from_the_question() -> None:
    question = read_question("Compare rank 3 and GPU 1 in step 12, see [E7]")
    assert (question.ranks, question.steps, question.ids) == ((3, 1), (12,), ("E7",))


@pytest.mark.parametrize(
    ("text", "ranks", "steps"),
    [
        ("why are steps 5 and 9 slow?", (), (5, 9)),
        ("steps 5, 9 and 12", (), (5, 9, 12)),
        ("compare steps 3 to 6", (), (3, 4, 5, 6)),
        ("are ranks 1, 2 or 3 late in step 4", (1, 2, 3), (4,)),
        ("rank 3 step 7", (3,), (7,)),
        ("are ranks 0 to 31 slow?", tuple(range(32)), ()),
        ("ranks 3-5, GPU1", (3, 4, 5, 1), ()),
        ("steps 7 to 5", (), (5, 6, 7)),
        ("set num_workers 8", (), ()),
        ("is dataloader worker 3 slow", (), ()),
        ("is worker 3 slow", (3,), ()),
        ("would batch 64 help", (), ()),
        ("is a step 64 ms long", (), ()),
        ("rank 2 takes 64 ms in step 5, 7 ms more", (2,), (5,)),
    ],
)
def test_lists_and_ranges_of_ranks_and_steps_are_read(text: str, ranks: object, steps: object) -> None:
    question = read_question(text)
    assert (question.ranks, question.steps) == (ranks, steps)


def test_all_causes_that_a_question_names_are_read_in_their_order() -> None:
    question = read_question("how much faster if I fixed both the loader and the small operators?")
    assert [subject.title for subject in question.subjects] == ["data input", "many small operators"]
    assert question.subject == question.subjects[1]


def test_a_range_names_no_more_steps_than_an_answer_can_hold() -> None:
    assert len(read_question("steps 1 to 999999999").steps) == 64


def test_an_endless_question_is_cut() -> None:
    assert len(read_question("why " * 100_000).text) <= 2000
