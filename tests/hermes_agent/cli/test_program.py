"""The program as a process: its streams, interrupts, and packages of the same names as ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.main import foreign_packages, main
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import span, write_trace

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = [sys.executable, "-c", "import sys; from hermes_agent.cli.main import main; sys.exit(main())"]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    own = {"PYTHONPATH": str(REPOSITORY), "HERMES_DX_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    return {"PATH": os.environ["PATH"], **own, **more}


def recorded(tmp_path: Path) -> Path:
    steps = [span(f"ProfilerStep#{n}", 1000 * n, 900, "user_annotation") for n in range(4)]
    work = [span("aten::größer", 1000 * n + 10, 800) for n in range(4)]
    return write_trace(tmp_path / "rank0.json", [*steps, *work])


def test_a_foreign_package_in_front_of_ours_is_named_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("raise ImportError('the decoy was imported')")
    path = f"{tmp_path}{os.pathsep}{REPOSITORY}"

    done = subprocess.run(
        [*PROGRAM, "demo"],
        cwd=tmp_path,
        env=environment(tmp_path, PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"'tools' ({tmp_path / 'tools' / '__init__.py'})" in done.stderr


def test_our_own_packages_are_not_foreign() -> None:
    assert foreign_packages() == ""


def diagnosed(trace: Path, cache: Path) -> Path:
    """The trace, with its diagnosis in the cache, so that a process that asks for it starts fast."""
    diagnose(Request((trace,), cache_dir=cache), ignore)
    return trace


def test_a_stream_that_lacks_characters_gets_their_codes_and_json_stays_json(tmp_path: Path, index_only: Path) -> None:
    trace = diagnosed(recorded(tmp_path), index_only)
    told = environment(tmp_path, PYTHONIOENCODING="ascii")

    text = subprocess.run([*PROGRAM, "diagnose", str(trace)], env=told, capture_output=True, check=False)
    record = subprocess.run([*PROGRAM, "diagnose", "--json", str(trace)], env=told, capture_output=True, check=False)

    assert (text.returncode, record.returncode) == (0, 0)
    assert rb"rank0.json \u00b7 1 rank" in text.stdout
    assert json.loads(record.stdout)["run"]["ranks"] == [0]


def test_closed_streams_are_no_reason_to_fail(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -c "from hermes_agent.cli.main import main; raise SystemExit(main())"'

    done = subprocess.run(
        f"{command} steps {recorded(tmp_path)} >&- 2>&-; echo $?",
        shell=True,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "0\n"


def test_an_interrupt_ends_the_program_with_130_and_one_line_whatever_its_threads_do(tmp_path: Path) -> None:
    busy = (
        "import threading, time; from hermes_agent.cli.terminal import leave_at_once; leave_at_once(); "
        "threading.Thread(target=time.sleep, args=(60,)).start(); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", busy], env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert said == b"hermes-dx: interrupted\n"


def test_an_error_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = main(["steps", str(tmp_path / "\x1b[31mred\udcff")])

    said = capsys.readouterr().err
    assert code == 3
    assert said.removesuffix("\n").isprintable()
    assert "there is no such file" in said
