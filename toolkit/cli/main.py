"""The program `toolkit`: its commands, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from toolkit.cli import (
    cmd_bench,
    cmd_config,
    cmd_doctor,
    cmd_gc,
    cmd_head,
    cmd_index,
    cmd_inspect,
    cmd_pack,
    cmd_query,
    cmd_verify,
)
from toolkit.cli.flags import envvar
from toolkit.cli.options import DebugOption
from toolkit.cli.output import EXIT_CLOSED_PIPE, Mode, print_line, print_text, report_error, silence_stdout, warn
from toolkit.errors import did_you_mean
from toolkit.version import __version__

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="toolkit",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: the boxes cut long names, and a log can't show them
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("pack", cls=cmd_pack.PackCommand)(cmd_pack.pack)
app.command("index", cls=cmd_index.IndexCommand)(cmd_index.index)
app.command("inspect")(cmd_inspect.inspect)
app.command("head")(cmd_head.head)
app.command("query")(cmd_query.query)
app.command("verify")(cmd_verify.verify)
app.command("bench")(cmd_bench.bench)
app.command("gc")(cmd_gc.gc)
app.command("doctor")(cmd_doctor.doctor)

_config = typer.Typer(rich_markup_mode=None)
_config.callback(invoke_without_command=True)(cmd_config.config)
_config.command("schema")(cmd_config.schema)
_config.command("check")(cmd_config.check)
app.add_typer(_config, name="config")


def main() -> None:
    """Run the program with the arguments of the process."""
    # What a command imports stays to its end. By default each 700 new objects are searched for garbage, often with all
    # that were made before: 20 to 35 ms of a short pack.
    gc.set_threshold(20_000, 50, 50)
    # A closed descriptor (`>&-`, some daemons) leaves None: say nothing there, and keep the exit code.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # file names may be any bytes
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run the program with `args`; return its exit code."""
    mode = Mode.read(args, os.environ)
    try:
        try:
            code = _invoke(args, mode)
        except BrokenPipeError:
            raise
        except BaseException as error:
            code = report_error(error, mode)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return EXIT_CLOSED_PIPE
    except OSError as error:  # the disk under a redirected stdout is full
        silence_stdout()
        return report_error(error, Mode(json=False, debug=mode.debug))
    return code


def _invoke(args: Sequence[str], mode: Mode) -> int:
    # Not app(): that would end the process, and turn interrupts and closed pipes into codes of its own.
    command = get_command(app)
    try:
        _warn_of_twins(command, args, os.environ)
        with command.make_context("toolkit", list(args), obj=mode) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return int(ended.exit_code)
    return 0


def _warn_of_twins(command: Any, args: Sequence[str], environ: Mapping[str, str]) -> None:
    """Warn of variables that are nearly the environment twin of a flag: nothing reads them."""
    start = envvar("")
    given = {name.removeprefix(start) for name in environ if name.startswith(start)}
    if not given or {"-q", "--quiet"} & {*args}:
        return
    known = {twin.removeprefix(start) for twin in _twins(command)}
    for name in sorted(given - known):
        near = did_you_mean(start + name, [start + twin for twin in known]) if did_you_mean(name, known) else ""
        if near:  # others may have variables that begin so
            warn(f"{start}{name} is the environment twin of no flag, and is ignored.{near}")


def _twins(command: Any) -> set[str]:
    """Return the environment twins of all flags of a command, and of those below it."""
    below = getattr(command, "commands", {}).values()
    return {param.envvar for param in command.params if param.envvar}.union(*map(_twins, below))


def _print_version(asked: bool) -> None:
    if asked:
        print_line(f"toolkit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def toolkit(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Pack datasets into pinned, verifiable Arrow shards; inspect, verify and benchmark them."""
    if context.invoked_subcommand is None:
        print_text(context.get_help())


if __name__ == "__main__":
    main()
