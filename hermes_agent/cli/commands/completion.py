"""Print a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from tools.errors import ExitCode

SHELLS = ("bash", "zsh", "fish")
INSTALL = {
    "bash": 'eval "$(hermes-dx completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(hermes-dx completion zsh)"   in ~/.zshrc',
    "fish": "hermes-dx completion fish > ~/.config/fish/completions/hermes-dx.fish",
}
HELP_CHARS = 80
BASH = """_hermes_dx() {
  local cur="${COMP_WORDS[COMP_CWORD]}" path="" options="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in
@PATHS@
    esac
  done
  case "$path" in
@WORDS@
  esac
  case "$path ${COMP_WORDS[COMP_CWORD - 1]}" in
@VALUES@
  esac
  if [[ "$cur" == -* ]]; then words="$options"; fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _hermes_dx hermes-dx
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True)
class Option:
    """An option: its help, whether a value follows it, and the values there are, none where any may be given."""

    help: str
    takes_value: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Completed:
    """What can follow a command: its options, and its subcommands or the values it takes."""

    path: tuple[str, ...]
    options: dict[str, Option]
    words: dict[str, str]
    subcommands: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell to write for")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(f"{shell:5} {line}" for shell, line in INSTALL.items())


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from hermes_agent.cli.main import build_parser

    found = list(completed(build_parser()))
    print({"bash": bash, "zsh": lambda each: ZSH + bash(each), "fish": fish}[args.shell](found), end="")
    return ExitCode.OK


def completed(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Completed]:
    """Every command below the parser, itself first."""
    options: dict[str, Option] = {}
    words: dict[str, str] = {}
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = list(action.choices.items())
            words |= {each.dest: each.help or "" for each in action._choices_actions}
        elif action.option_strings:
            option = Option(action.help or "", action.nargs != 0, tuple(map(str, action.choices or ())))
            options |= dict.fromkeys((name for name in action.option_strings if name.startswith("--")), option)
        elif action.choices:
            words |= dict.fromkeys(map(str, action.choices), "")
    yield Completed(path, options, words, bool(below))
    for name, each in below:
        yield from completed(each, (*path, name))


def bash(commands: list[Completed]) -> str:
    """A script for bash; names of files complete where nothing else does."""
    paths = [
        f'      "{" ".join(each.path[:-1])} {each.path[-1]}") path="{" ".join(each.path)}" ;;' for each in commands[1:]
    ]
    words = [
        f'    "{" ".join(each.path)}") words="{" ".join(each.words)}"; options="{" ".join(each.options)}" ;;'
        for each in commands
    ]
    values = [
        f'    "{" ".join(each.path)} {name}") words="{" ".join(option.values)}" ;;'
        for each in commands
        for name, option in each.options.items()
        if option.values
    ]
    parts = {"@PATHS@": paths, "@WORDS@": words, "@VALUES@": values}
    return reduce(lambda script, part: script.replace(part, "\n".join(parts[part])), parts, BASH)


def fish(commands: list[Completed]) -> str:
    """Completions for fish, with the help of each."""
    lines = []
    for each in commands:
        here = [f"__fish_seen_subcommand_from {name}" for name in each.path] or ["__fish_use_subcommand"]
        below = (
            f"; and not __fish_seen_subcommand_from {' '.join(each.words)}" if each.subcommands and each.path else ""
        )
        at = f"complete -c hermes-dx -n '{'; and '.join(here)}"
        lines += [
            f"{at}' -l {name[2:]}{_value(option)} -d '{_said(option.help)}'" for name, option in each.options.items()
        ]
        lines += [f"{at}{below}' -f -a {name} -d '{_said(text)}'" for name, text in each.words.items()]
    return "\n".join(lines) + "\n"


def _value(option: Option) -> str:
    """What fish is given on the value of an option: the values there are, or that names of files complete."""
    if option.values:
        return f" -x -a '{' '.join(option.values)}'"
    return " -r" if option.takes_value else ""


def _said(text: str) -> str:
    return text.replace("%%", "%").replace("\\", "").replace("'", "’")[:HELP_CHARS]
