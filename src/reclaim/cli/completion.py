"""Completion in shells: what they ask for, and how it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict, cast, get_args

from reclaim.cli.exits import DONE
from reclaim.cli.output import Done
from reclaim.errors import InvalidInput

PROGRAM = "reclaim"
VARIABLE = "_RECLAIM_COMPLETE"
"""Set by a shell that asks how a line may go on."""
Shell = Literal["bash", "zsh", "fish"]
SHELLS = get_args(Shell)
INSTALL, SHOW = "--install-completion", "--show-completion"
_ZSH_BINDS = "compdef _reclaim_completion reclaim"
_ZSH_ANSWERS = f"""if [ "$funcstack[1]" = "_reclaim" ]; then
  _reclaim_completion "$@"
else
  {_ZSH_BINDS}
fi"""
"""Zsh loads the file when it is asked for the first time, and that time wants an answer too."""


class CompletionDocument(TypedDict):
    """The script for a shell, or the file that it was installed in."""

    shell: Shell
    path: NotRequired[str]
    """Where it was installed."""
    script: NotRequired[str]


def complete(instruction: str) -> int:
    """Answer a shell; returns the exit code."""
    from typer._completion_classes import completion_init
    from typer.completion import shell_complete

    from reclaim.cli.application import application

    completion_init()
    return shell_complete(application(), {}, PROGRAM, VARIABLE, instruction)


def install_or_show(arguments: Sequence[str]) -> int:
    """Do what the two options say, of which the first argument is one."""
    from typer._completion_shared import get_completion_script, install

    from reclaim.cli.session import output_for

    asked, *rest = [argument for argument in arguments if argument != "--json"]
    if len(rest) > 1:
        raise InvalidInput(f"{asked} takes one shell", hint=f"name {', '.join(SHELLS)}")
    shell = rest[0] if rest else _this_shell()
    if shell not in SHELLS:
        raise InvalidInput(
            f"there is no completion for {shell!r}" if shell else "which shell this is, is unknown",
            hint=f"write {asked} {'|'.join(SHELLS)}",
        )
    output = output_for("--json" in arguments)
    script = get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell)
    if shell == "zsh":
        script = script.replace(_ZSH_BINDS, _ZSH_ANSWERS)
    if asked == SHOW:
        output.answer(Done(script, CompletionDocument(shell=cast(Shell, shell), script=script)))
        return DONE
    _, path = install(shell, PROGRAM, VARIABLE)
    if shell == "zsh":
        path.write_text(script)
    said = f"Installed completion for {shell} in {path}. It works in shells that start from now on."
    output.answer(Done(said, CompletionDocument(shell=cast(Shell, shell), path=str(path))))
    return DONE


def _this_shell() -> str:
    from typer._completion_shared import _get_shell_name

    return _get_shell_name() or ""
