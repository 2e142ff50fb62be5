"""Collectives wait for a late rank, or the transfer itself is slow."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.fault import Fault, Right
from evals.lab.scenarios import Data, Parallel, Training, World
from evals.lab.variants import told, variants

FAST_MBIT = 4000.0


def _skewed(training: Training, sizes: tuple[int, ...]) -> tuple[World, World]:
    return told(training, data=Data(sizes=sizes, sizes_differ=True)), told(training, data=Data(sizes=sizes))


def _hot(training: Training, share: float) -> tuple[World, World]:
    return told(training, parallel=Parallel(hot_share=share)), told(training)


def _buckets(training: Training, small_parameters: int) -> tuple[World, World]:
    usual = Parallel(small_parameters=small_parameters)
    return told(training, parallel=replace(usual, bucket_mb=0.00001)), told(training, parallel=usual)


def _linked(training: Training, slow: LinkedHosts) -> tuple[World, World]:
    fast = LinkedHosts(FAST_MBIT)
    return replace(told(training), surroundings=(slow,)), replace(told(training), surroundings=(fast,))


def _chosen(training: Training, slow_mbit: float) -> tuple[World, World]:
    wrong = LinkedHosts(FAST_MBIT, slow_rate_mbit=slow_mbit, use="slow")
    right = replace(wrong, use="fast")
    return replace(told(training), surroundings=(wrong,)), replace(told(training), surroundings=(right,))


def _shared(training: Training, rates: tuple[float, float]) -> tuple[World, World]:
    rate, other = rates
    busy, free = LinkedHosts(rate, other_traffic_mbit=other), LinkedHosts(rate)
    return replace(told(training), surroundings=(busy,)), replace(told(training), surroundings=(free,))


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="uneven_sizes",
        cause="data_skew",
        mechanism="",
        ranks=(0, 1),
        injected="Each rank draws the size of its batch (pixels or tokens) by itself, so in each step another one is "
        "late.",
        fix="Both ranks draw the same size in the same step; over the run they see the same sizes.",
        must_name=("size",),
        sources=("trace", "steps", "monitor"),
        steps="those in which the sizes differ",
        statistic="mean",
        same_loss=False,
        also_right=(Right("straggler", "the late rank changes with the sizes"),),
        not_causes=("slow_link", "network_configuration", "bandwidth_contention"),
        variants=variants(
            _skewed,
            {
                "images-strong": (24, 72),
                "images-mild": (32, 40, 48, 56),
                "tokens-strong": (32, 192),
                "tokens-mild": (64, 80, 96, 112, 128),
                "sounds-strong": (80, 240),
                "sounds-mild": (112, 136, 160, 184, 208),
            },
        ),
    ),
    Fault(
        id="hot_experts",
        cause="moe_imbalance",
        mechanism="",
        ranks=(0,),
        injected="The router sends a part of all tokens to the experts of rank 0 in addition to their even share.",
        fix="Balance the experts' load.",
        must_name=("expert",),
        sources=("trace",),
        same_loss=False,
        also_right=(Right("straggler", "rank 0 computes more and the other waits for it"),),
        variants=variants(
            _hot,
            {
                "experts-strong": 1.0,
                "experts-mild": 0.6,
                "experts_wide-strong": 1.0,
                "experts_wide-mild": 0.6,
                "experts_narrow-strong": 1.0,
                "experts_narrow-mild": 0.6,
            },
        ),
    ),
    Fault(
        id="tiny_buckets",
        cause="small_packet",
        mechanism="",
        ranks=(0, 1),
        injected="Every parameter's gradient travels in a message of its own, and many parameters are tiny.",
        fix="Gradient buckets of the usual size.",
        must_name=("bucket", "message"),
        sources=("trace",),
        variants=variants(
            _buckets,
            {
                "images-strong": 200,
                "images-mild": 60,
                "tokens-strong": 200,
                "tokens-mild": 60,
                "sounds-strong": 200,
                "sounds-mild": 80,
            },
        ),
    ),
    Fault(
        id="narrow_link",
        cause="slow_link",
        mechanism="",
        ranks=(0, 1),
        injected="The two ranks are two hosts, joined by a link of little bandwidth.",
        fix="A link of the usual bandwidth.",
        must_name=("link", "bandwidth"),
        sources=("trace", "monitor"),
        also_right=(
            Right("bandwidth_contention", "from inside, a narrow link and one shared with others look alike"),
            Right("network_configuration", "a link below its rate may be a matter of its settings"),
            Right("poor_overlap", "what the slow transfer exposes"),
        ),
        not_causes=("straggler", "small_packet"),
        variants=variants(
            _linked,
            {
                "images-strong": LinkedHosts(200),
                "images-mild": LinkedHosts(500),
                "tokens-strong": LinkedHosts(300),
                "tokens-mild": LinkedHosts(700),
                "sounds-strong": LinkedHosts(200),
                "sounds-mild": LinkedHosts(350),
            },
        ),
    ),
    Fault(
        id="packet_loss",
        cause="slow_link",
        mechanism="",
        ranks=(0, 1),
        injected="A share of the packets between two hosts is lost, and TCP sends them again.",
        fix="A link that loses none.",
        must_name=("retrans",),
        sources=("trace", "monitor"),
        statistic="mean",
        also_right=(
            Right("rdma_retransmission", "the same on another transport: packets are sent again"),
            Right("network_configuration", "loss may come from settings of switch or interface"),
        ),
        not_causes=("straggler", "small_packet"),
        variants=variants(
            _linked,
            {
                "images-strong": LinkedHosts(FAST_MBIT, loss_pct=6.0),
                "images-mild": LinkedHosts(FAST_MBIT, loss_pct=4.5),
                "tokens-strong": LinkedHosts(FAST_MBIT, loss_pct=6.0),
                "tokens-mild": LinkedHosts(FAST_MBIT, loss_pct=4.5),
                "sounds-strong": LinkedHosts(FAST_MBIT, loss_pct=6.0),
                "sounds-mild": LinkedHosts(FAST_MBIT, loss_pct=4.5),
            },
        ),
    ),
    Fault(
        id="wrong_interface",
        cause="network_configuration",
        mechanism="wrong_interface",
        ranks=(0, 1),
        injected="The hosts share a fast and a slow network, and the training is told to take the slow one.",
        fix="Name the fast interface in GLOO_SOCKET_IFNAME.",
        must_name=("interface",),
        sources=("trace", "monitor", "environment"),
        also_right=(Right("slow_link", "the network in use is slow; that a faster one lies idle is the cause"),),
        not_causes=("straggler", "small_packet"),
        variants=variants(
            _chosen,
            {
                "images-strong": 150.0,
                "images-mild": 400.0,
                "tokens-strong": 200.0,
                "tokens-mild": 600.0,
                "sounds-strong": 150.0,
                "sounds-mild": 350.0,
            },
        ),
    ),
    Fault(
        id="shared_link",
        cause="bandwidth_contention",
        mechanism="",
        ranks=(0, 1),
        injected="Another job pushes bytes over the link between the two hosts.",
        fix="Give the jobs separate links or traffic classes.",
        must_name=("bandwidth",),
        sources=("trace", "monitor"),
        statistic="mean",
        also_right=(Right("slow_link", "what is left of the link is slow"),),
        # The link by itself carries a step's gradients in 16 ms (images) or 26 ms (tokens), beside 55 ms of work.
        fixed_verdict="unlabelled",
        not_causes=("straggler", "small_packet"),
        variants=variants(
            _shared,
            {
                "images-strong": (800.0, 750.0),
                "images-mild": (800.0, 500.0),
                "tokens-strong": (900.0, 850.0),
                "tokens-mild": (900.0, 600.0),
                "sounds-strong": (800.0, 750.0),
                "sounds-mild": (800.0, 600.0),
            },
        ),
    ),
)
