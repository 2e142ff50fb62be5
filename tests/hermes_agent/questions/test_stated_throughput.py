"""Questions to an output that states throughput and no time of a step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hermes_agent.cli.main import main


@pytest.mark.parametrize(
    "question",
    ["What is the throughput?", "Does it get slower?", "How long is a step?", "From which step on is it slower?"],
)
def test_answers_are_in_throughput_and_never_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    lines = [f"step {at} loss 2.5 {1000.0 if at <= 200 else 700.0 + at % 7:.1f} samples/s" for at in range(1, 401)]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    main(["ask", str(path), question])
    said = " ".join(capsys.readouterr().out.split())
    assert "falls from 1000/s" in said
    assert "at step 201" in said
    assert not re.search(r"\d (?:ms|s)\b", said)
