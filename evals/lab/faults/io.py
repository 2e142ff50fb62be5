"""The step waits for data."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.environment_faults.processor import BoundCores
from evals.lab.environment_faults.storage import SlowStore
from evals.lab.fault import Fault, Right, Symptom
from evals.lab.scenarios import Data, Packing, Training, World
from evals.lab.variants import told, variants

PACKS: dict[str, tuple[Packing, int, Data]] = {  # how packed, samples in a pack, what the samples are
    "images-strong": ("lzma", 1, Data()),
    "images-mild": ("zlib", 4, Data()),
    "tokens-strong": ("lzma", 64, Data(raw_on=(0, 1), raw_size=500)),
    "tokens-mild": ("lzma", 64, Data(raw_on=(0, 1), raw_size=200)),
    "sounds-strong": ("lzma", 1, Data()),
    "sounds-mild": ("zlib", 4, Data()),
}


def _heavy(training: Training, raw_size: int) -> tuple[World, World]:
    raw = Data(raw_on=(1,), raw_size=raw_size)
    return told(training, data=raw), told(training, data=replace(raw, raw_on=()))


def _few_workers(training: Training, raw_size: int) -> tuple[World, World]:
    raw = Data(raw_on=(0,), raw_size=raw_size)
    slow, fixed = told(training, data=raw), told(training, data=replace(raw, workers=1))
    return replace(slow, ranks=1), replace(fixed, ranks=1)


def _packed(training: Training, pack: tuple[Packing, int, Data]) -> tuple[World, World]:
    kind, samples, data = pack
    packed = replace(data, packing=kind, samples_in_pack=samples, in_files=True)
    return told(training, data=packed), told(training, data=replace(data, in_files=True))


def _throttled(training: Training, store: SlowStore) -> tuple[World, World]:
    usual = told(training, data=Data(in_files=True))
    return replace(usual, surroundings=(store,)), usual


def _bound(training: Training, raw_size: int) -> tuple[World, World]:
    bound = Data(raw_on=(0,), raw_size=raw_size, workers=1)
    around = (BoundCores(ranks=(0,), cores=(0,)),)
    slow = replace(told(training, data=bound), ranks=1, surroundings=around)
    return slow, replace(slow, training=replace(training, data=replace(bound, workers_unbound=True)))


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="heavy_transform",
        cause="slow_data_processing",
        mechanism="heavy_transform",
        ranks=(1,),
        injected="Rank 1 reads raw samples and prepares each inside its single-process DataLoader (images are "
        "denoised, resized and normalised, texts cut into tokens, waveforms turned into spectra); rank 0 reads "
        "prepared ones.",
        fix="Prepare rank 1's samples once before training. Worker processes are no fix: two ranks fill two cores.",
        must_name=("rank 1", "DataLoader"),
        sources=("trace", "monitor"),
        symptoms=(Symptom("straggler", (0,)),),
        not_causes=("slow_link", "network_configuration", "bandwidth_contention", "rdma_retransmission"),
        variants=variants(
            _heavy,
            {
                "images-strong": 320,
                "images-mild": 176,
                "tokens-strong": 20_000,
                "tokens-mild": 9_000,
                "sounds-strong": 120_000,
                "sounds-mild": 40_000,
            },
        ),
    ),
    Fault(
        id="too_few_workers",
        cause="slow_data_processing",
        mechanism="too_few_workers",
        ranks=(0,),
        injected="One rank on two cores prepares raw samples in its own process: num_workers=0.",
        fix="num_workers=1: the second core prepares the next batch while this one is computed.",
        must_name=("DataLoader", "worker"),
        sources=("trace", "monitor"),
        also_right=(Right("slow_data_processing/heavy_transform", "preparing offline removes the same time"),),
        variants=variants(
            _few_workers,
            {
                "images-strong": 288,
                "images-mild": 160,
                "tokens-strong": 16_000,
                "tokens-mild": 8_000,
                "sounds-strong": 100_000,
                "sounds-mild": 40_000,
            },
        ),
    ),
    Fault(
        id="compressed_packs",
        cause="slow_data_processing",
        mechanism="compressed_format",
        ranks=(0, 1),
        injected="Samples lie in compressed packs; to get one sample, its whole pack is unpacked.",
        fix="Store the samples unpacked.",
        must_name=("DataLoader",),
        sources=("trace", "monitor"),
        also_right=(Right("slow_data_processing/heavy_transform", "unpacking is work on each sample"),),
        variants=variants(
            _packed,
            PACKS,
        ),
    ),
    Fault(
        id="throttled_storage",
        cause="slow_data_reading",
        mechanism="",
        ranks=(0, 1),
        injected="Samples are read from a file server with little bandwidth and a delay per request.",
        fix="Read the same samples from the local disk.",
        must_name=("DataLoader",),
        sources=("trace", "monitor"),
        not_causes=("slow_link", "rdma_retransmission"),
        variants=variants(
            _throttled,
            {
                "images-strong": SlowStore(mbyte_per_s=30, latency_ms=1.0),
                "images-mild": SlowStore(mbyte_per_s=200, latency_ms=0.3),
                "tokens-strong": SlowStore(mbyte_per_s=10, latency_ms=5.0),
                "tokens-mild": SlowStore(mbyte_per_s=50, latency_ms=1.5),
                "sounds-strong": SlowStore(mbyte_per_s=20, latency_ms=1.0),
                "sounds-mild": SlowStore(mbyte_per_s=100, latency_ms=0.5),
            },
        ),
    ),
    Fault(
        id="bound_workers",
        cause="slow_data_processing",
        mechanism="process_binding",
        ranks=(0,),
        injected="The training is started bound to one core (taskset); its loader worker inherits that core.",
        fix="Let the worker run on all cores (worker_init_fn), the training stays bound.",
        must_name=("bound", "core"),
        sources=("trace", "monitor"),
        also_right=(Right("cpu_contention/affinity", "the binding makes worker and training share one core"),),
        variants=variants(
            _bound,
            {
                "images-strong": 288,
                "images-mild": 160,
                "tokens-strong": 16_000,
                "tokens-mild": 8_000,
                "sounds-strong": 100_000,
                "sounds-mild": 40_000,
            },
        ),
    ),
)
