"""Faults of the host program, its data and its memory."""

from __future__ import annotations

from dataclasses import replace

from evals.synthetic.items import Call, DeviceMemory, Item, Pause, Sync, Work
from evals.synthetic.models import ELEMENTWISE, LOADER, Place, device_us, host_us, insert_spread, jitter

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SHORT_LOADER_US = 350.0
RECORDED_FRAME_US = 0.2  # what a recorded frame costs: a little more than was measured on one machine


def _frames(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, "python_function") for name in names)


_FUNCTIONAL = "torchvision/transforms/functional.py"
TRANSFORMS = _frames("PIL/Image.py(2201): resize", f"{_FUNCTIONAL}(150): to_tensor", f"{_FUNCTIONAL}(350): normalize")
_READ = "<built-in method read of _io.BufferedReader object at 0x"
READS = _frames(f"{_READ}7f>", "<built-in function open>", f"{_READ}7e>")


def _loader(items: list[Item], span: Pause) -> list[Item]:
    return [span if isinstance(item, Pause) and item.name == LOADER else item for item in items]


def _single(items: list[Item], strength: float, place: Place, operators: tuple[str, ...]) -> list[Item]:
    """The training process works on the samples itself, in these operators, or in frames where stacks are recorded."""
    us = jitter(place, strength * device_us(items), 0.1)
    inside = TRANSFORMS if place.spec.stacks else tuple((name, "cpu_op") for name in operators)
    return _loader(items, Pause(SINGLE, us, inside=inside))


def loader_single_process(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The training process fetches and collates each batch itself."""
    return _single(items, strength, place, ("aten::stack", "aten::cat"))


def loader_transform(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The samples of these ranks need much more work; all ranks load in the training process."""
    return _single(items, strength, place, ("aten::div", "aten::sub", "aten::index"))


def loader_short_single(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The ranks that are not hit load in the training process as well, quickly."""
    return _loader(items, Pause(SINGLE, jitter(place, SHORT_LOADER_US, 0.1)))


def loader_workers(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Worker processes cannot keep up: some steps wait long, some little."""
    us = strength * device_us(items) * (0.4 + 1.2 * place.rng.random())
    return _loader(items, Pause(LOADER, us))


def loader_reading(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The training process waits for the storage; frames show it only when stacks are recorded."""
    us = strength * device_us(items) * (0.7 + 0.6 * place.rng.random())
    return _loader(items, Pause(SINGLE, us, inside=READS if place.spec.stacks else ()))


def pageable_copy(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The batch is copied from ordinary memory: the host blocks in the call."""
    return _copy_first(items, strength, place, "Pageable", bytes_per_us=5e3)


def no_prefetch(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A large pinned copy on the compute stream, which nothing hides."""
    return _copy_first(items, strength, place, "Pinned", bytes_per_us=1.2e4)


def _copy_first(items: list[Item], strength: float, place: Place, memory: str, bytes_per_us: float) -> list[Item]:
    us = jitter(place, strength * device_us(items), 0.05)
    name, size = f"Memcpy HtoD ({memory} -> Device)", int(us * bytes_per_us)
    copy = Work(name, us, "gpu_memcpy", "cudaMemcpyAsync", bytes=size, blocking=memory == "Pageable")
    return [items[0], Call("aten::copy_", 12.0, (copy,), around="aten::to"), *items[1:]]


def small_operators(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Many tiny operators all over the step, so many that launching takes longer than computing."""
    names = ("aten::mul_", "aten::lerp_", "aten::addcmul_", "aten::sqrt", "aten::div", "aten::add_", "aten::addcdiv_")
    count = int(((1.0 + strength) * device_us(items) - host_us(items)) / 14.0)
    kernel = Work(ELEMENTWISE.format("BinaryFunctor"), 2.4, blocks=4)
    tiny = [Call(names[at % len(names)], jitter(place, 12.0, 0.2), (kernel,)) for at in range(count)]
    return insert_spread(items, tiny, 7)


def item_calls(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Values are read back all over the step, with some Python after each."""
    count = max(2, int(strength * device_us(items) / 260.0))
    extra: list[Item] = []
    for _ in range(count):
        extra += [Sync(), Pause("", jitter(place, 230.0, 0.2))]
    return insert_spread(items, extra, 2)


def launch_blocking(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Every launch waits for its kernel."""

    def blocking(item: Call) -> Call:
        return replace(item, work=tuple(replace(work, blocking=True) for work in item.work))

    return [blocking(item) if isinstance(item, Call) else item for item in items]


def garbage_collection(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A collection of a large heap at the start of every other step, not the same steps on all ranks."""
    if (place.rank + place.step) % 2:
        return items
    return [items[0], Pause("Python GC", 2 * strength * device_us(items), "python_function"), *items[1:]]


def host_contention(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Another process takes the cores: operators on the host are stretched, some by a whole time slice."""
    wanted = (1.0 + strength) * device_us(items) / host_us(items)
    factors = place.rng.exponential(1.0, len(items)) * (wanted - 1.0) + 1.0
    return [
        replace(item, host_us=item.host_us * float(factor)) if isinstance(item, Call) else item
        for item, factor in zip(items, factors, strict=True)
    ]


def unrecorded_stall(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The host does something the profiler does not see."""
    return [items[0], Pause("", jitter(place, strength * device_us(items), 0.1)), *items[1:]]


def recompilation(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A new input shape has the step compiled again in one step of two."""
    if place.step % 2:
        return items
    return [items[0], Pause("_compile.compile_inner (dynamo_timed)", 2 * strength * device_us(items)), *items[1:]]


def checkpoint(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Every third step copies the parameters to the host and writes them before it goes on."""
    if place.step % 3 != 2:
        return items
    copy = Work(
        "Memcpy DtoH (Device -> Pageable)", 900.0, "gpu_memcpy", "cudaMemcpyAsync", bytes=5_000_000, blocking=True
    )
    copies = [Call("aten::copy_", 12.0, (copy,), around="aten::to") for _ in range(6)]
    frames = (("torch/serialization.py(942): save", "python_function"),) if place.spec.stacks else ()
    name = "train.py(88): save_checkpoint" if place.spec.stacks else ""
    return [*items, *copies, Pause(name, 3 * strength * device_us(items), "python_function", inside=frames)]


def allocator_thrash(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The cache is emptied all the time: frees that wait for the device, then fresh allocations."""
    count = max(2, int(strength * device_us(items) / 900.0))
    extra: list[Item] = []
    for _ in range(count):
        extra += [DeviceMemory("cudaFree", jitter(place, 380.0, 0.2), waits=True)]
        extra += [DeviceMemory("cudaMalloc", jitter(place, 480.0, 0.2))]
    return insert_spread(items, extra, 2)


def profiler_stacks(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Recording every Python frame slows each operator's way through the host, by the cost of so many frames."""
    wanted = (1.0 + strength) * device_us(items) / host_us(items)
    result: list[Item] = []
    for item in items:
        if isinstance(item, Call):
            us = item.host_us * wanted
            count = max(1, int(us / RECORDED_FRAME_US))
            frames = _frames(*(f"model.py({line}): forward" for line in range(count)))
            result.append(Pause("torch/nn/modules/module.py(1751): _call_impl", us, "python_function", frames))
        result.append(item)
    return result
