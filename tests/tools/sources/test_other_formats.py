"""Files of other profilers are refused by what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.errors import InputError
from tools.sources.load import load_run


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("e.json", b'{\n "schema": "1.0.1", "pid": 5, "nodes": [{"id": 2}]}', "ExecutionTraceObserver"),
        ("c.json", b'{"workload_graph": [{"Id": 216}]}', "Chakra graph as JSON"),
        ("c.et", b"^\x12\x10\n\x06schema\xea\x01\x051.0.1\x12\t\n\x03pidh\xa6\xff\x06", "hermes-dx replay FILE.et"),
        ("i.json", b'[\n {"cols": [{"id": "stepnum"}], "rows": []}]', "TensorBoard profile tool"),
        ("o.json", b'{"byCategory": {"name": "byCategory"}}', "profile plugin"),
        ("f.json", b'{"FLOPs": 329612.4, "FLOPS": 4897.6}', "MindSpore"),
        ("n.json", b'{"nodes": [1], "links": []}', "has no traceEvents"),
    ],
)
def test_the_sentence_names_the_format_and_what_to_give(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        load_run([path])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
