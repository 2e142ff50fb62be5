"""Small files of run trackers and monitoring: W&B run files, TensorBoard event files, a Prometheus range export."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping

from tools.sources.tensorboard.events import masked_crc

Field = tuple[int, int | bytes | float]
BLOCK_BYTES = 1 << 15


def message(*values: Field) -> bytes:
    """A protocol buffer of fields: whole numbers, bytes, or doubles."""
    found = b""
    for name, value in values:
        if isinstance(value, bytes):
            found += _varint(name << 3 | 2) + _varint(len(value)) + value
        elif isinstance(value, float):
            found += _varint(name << 3 | 1) + struct.pack("<d", value)
        else:
            found += _varint(name << 3) + _varint(value)
    return found


def _varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def wandb_file(records: Iterable[bytes]) -> bytes:
    """A W&B run file: its header and a LevelDB log of the records."""
    found = b":W&B\xe1\xbe\x00"
    for record in records:
        first = True
        while first or record:
            room = BLOCK_BYTES - len(found) % BLOCK_BYTES
            if room < 7:
                found += bytes(room)
                room = BLOCK_BYTES
            data, record = record[: room - 7], record[room - 7 :]
            kind = 1 if first and not record else 2 if first else 3 if record else 4
            checksum = zlib.crc32(data, zlib.crc32(bytes([kind])))
            found += struct.pack("<IHB", checksum, len(data), kind) + data
            first = False
    return found


def _items(name: int, values: Mapping[str, object], nested: bool = False) -> list[Field]:
    key = 2 if nested else 1
    return [(name, message((key, each.encode()), (16, json.dumps(value).encode()))) for each, value in values.items()]


def history(values: Mapping[str, object], nested: bool = False) -> bytes:
    """A record of what a training logs."""
    return message((2, message(*_items(1, values, nested))))


def samples(at_s: float, values: Mapping[str, object]) -> bytes:
    """A record of system metrics."""
    moment = message((1, int(at_s)), (2, int(at_s % 1 * 1e9)))
    return message((7, message((2, moment), *_items(3, values))))


def output(text: str) -> bytes:
    """A record of captured output."""
    return message((13, message((1, 1), (3, text.encode()))))


def config(values: Mapping[str, object], host: str = "") -> bytes:
    """A record of the run with its configuration."""
    return message((17, message((1, b"abc"), (4, message(*_items(1, values))), (13, host.encode()))))


def wandb_run() -> bytes:
    """A run of two devices and thirty steps of 500 ms."""
    records = [config({"micro_batch_size": 4, "seq_length": 2048}, "node-3")]
    for step in range(30):
        at_s = 1.7e9 + 0.5 * step
        records.append(history({"train/loss": 2.0, "train/global_step": step, "_timestamp": at_s, "_step": step}))
        records.append(output(f"\r {step}/30 [00:{step:02d}<00:10, 1.9it/s]"))
        busy = {f"gpu.{device}.{name}": 90.0 + device for device in range(2) for name in ("gpu", "powerWatts", "temp")}
        records.append(samples(at_s, {**busy, "cpu.0.cpu_percent": 10.0, "cpu.1.cpu_percent": 30.0, "network.sent": 7}))
    return wandb_file(records)


def tfrecord(data: bytes) -> bytes:
    """A record of TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def event(wall_s: float, step: int, values: Mapping[str, float], tensor: bool = False) -> bytes:
    """A record with scalars, as simple values or as tensors."""
    found: list[Field] = [(1, wall_s), (2, step)]
    for tag, value in values.items():
        data = struct.pack("<f", value)
        if tensor:
            content = message((1, tag.encode()), (8, message((1, 1), (4, data))))
        else:
            content = message((1, tag.encode())) + _varint(2 << 3 | 5) + data
        found.append((5, message((1, content))))
    return tfrecord(message(*found))


def event_file() -> bytes:
    """An event file with the step time of Megatron-LM."""
    events = [event(1.7e9 + step, step, {"iteration-time": 0.25, "lm loss": 3.0}) for step in range(1, 20)]
    return tfrecord(message((1, 1.7e9), (3, b"brain.Event:2"))) + b"".join(events)


def range_export() -> bytes:
    """Utilization and temperature of two devices on two hosts, every 15 s."""
    result = [
        {
            "metric": {"__name__": name, "gpu": str(device), "Hostname": host, "modelName": "NVIDIA H100 80GB HBM3"},
            "values": [[1.7e9 + 15 * at, str(base + device)] for at in range(12)],
        }
        for name, base in (("DCGM_FI_DEV_GPU_UTIL", 96), ("DCGM_FI_DEV_GPU_TEMP", 60))
        for host in ("node-1", "node-2")
        for device in range(2)
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def trainer_state() -> bytes:
    """The state of a training of 200 steps that has ended."""
    losses = [{"epoch": step / 200, "loss": 2.0, "step": step} for step in range(10, 201, 10)]
    summary = {"step": 200, "train_runtime": 112.0, "train_samples_per_second": 914.3}
    return json.dumps({"best_metric": None, "global_step": 200, "log_history": [*losses, summary]}, indent=2).encode()
