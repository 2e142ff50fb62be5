"""``hermes-dx completion``: the script for bash is run; those of other shells are run where they are installed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from hermes_agent.cli.commands import completion
from hermes_agent.cli.main import COMMANDS
from tests.hermes_agent.cli.execution import execute

BASH = shutil.which("bash")


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    assert execute(completion, "bash") == 0
    return capsys.readouterr().out


def offered(script: str, line: str) -> set[str]:
    """What bash offers for the last word of a line."""
    assert BASH is not None
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    ask = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _hermes_dx"
    text = f'set -u\ncomplete() {{ :; }}\n{script}\n{ask}\nprintf "%s\\n" "${{COMPREPLY[@]-}}"'
    done = subprocess.run([BASH, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hermes-dx dia", {"diagnose"}),
        ("hermes-dx --debug com", {"compare", "completion"}),
        ("hermes-dx cases s", {"search", "show"}),
        ("hermes-dx completion ", {"bash", "zsh", "fish"}),
        ("hermes-dx diagnose RUN --js", {"--json"}),
        ("hermes-dx compare a b --fail", {"--fail-on-regression"}),
        ("hermes-dx cases search loader --lim", {"--limit"}),
        ("hermes-dx diagnose RUN --picture h", {"heatmap"}),
        ("hermes-dx diagnose ", set[str]()),  # names of files, by bash itself
    ],
)
def test_bash_offers_commands_options_and_values(script: str, line: str, expected: set[str]) -> None:
    assert offered(script, line) == expected


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_bash_offers_every_command(script: str) -> None:
    assert offered(script, "hermes-dx ") == set(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_sound(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    execute(completion, shell)
    text = capsys.readouterr().out
    done = subprocess.run([program, "-n", "/dev/stdin"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hermes-dx dia", {"diagnose"}),
        ("hermes-dx cases s", {"search", "show"}),
        ("hermes-dx diagnose RUN --js", {"--json"}),
        ("hermes-dx diagnose RUN --picture h", {"heatmap"}),
    ],
)
def test_fish_offers_commands_options_and_values(
    line: str, expected: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = shutil.which("fish")
    if program is None:
        pytest.skip("fish is not installed")
    execute(completion, "fish")
    (tmp_path / "hermes-dx.fish").write_text(capsys.readouterr().out)
    ask = f"source hermes-dx.fish; complete -C '{line}'"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [program, "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert {each.partition("\t")[0] for each in done.stdout.splitlines()} == expected


def test_fish_gets_the_help_of_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    execute(completion, "fish")
    lines = capsys.readouterr().out.splitlines()
    here = "complete -c hermes-dx -n '__fish_seen_subcommand_from diagnose'"
    assert f"{here} -l json -d 'print the diagnosis as JSON'" in lines
    assert all(line.count("'") % 2 == 0 for line in lines)
