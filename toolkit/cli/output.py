"""Where things are printed: results on stdout, everything else on stderr; and how an error ends the program.

Names of classes, columns and files come from strangers. They are escaped here, and only here.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import typer

from toolkit.errors import ToolkitError, did_you_mean
from toolkit.escapes import json_text, plain
from toolkit.report.documents import document
from toolkit.report.tables import Table, View

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = [
    "Interrupted",
    "Mode",
    "note",
    "print_document",
    "print_json",
    "print_line",
    "print_text",
    "print_views",
    "report_error",
    "warn",
]

EXIT_UNEXPECTED = 1
EXIT_USAGE = 2
EXIT_IO = 5
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141  # 128 + SIGPIPE, as other programs end in `| head`
_FALSE = {"", "0", "false", "f", "no", "n", "off"}
_PLAIN_WIDTH = 1000  # columns of a table that goes into a file or pipe: never cut, never wrapped

# What typer raises for arguments it can't parse, whichever click it carries.
_ParseError: Any = typer.BadParameter.__base__


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what it left behind as the message."""


@dataclass(slots=True)
class Mode:
    """How this run reports: read from the arguments themselves, since errors of parsing are reported too.

    `fixed` names what arguments or environment say; a config may change the rest.
    """

    json: bool
    debug: bool
    fixed: frozenset[str] = frozenset()

    @classmethod
    def read(cls, args: Sequence[str], environ: Mapping[str, str]) -> Mode:
        """Return the mode that the arguments and the environment ask for."""

        def twin(name: str) -> str:
            return environ.get(f"TOOLKIT_{name.upper()}", "")

        def asked(name: str) -> bool:
            return f"--{name}" in args or twin(name).strip().lower() not in _FALSE

        fixed = frozenset(name for name in ("json", "debug") if asked(name) or twin(name))
        return cls(json=asked("json"), debug=asked("debug"), fixed=fixed)

    def configure(self, *, json: bool, debug: bool) -> None:
        """Take what a config says, where neither arguments nor environment say anything."""
        self.json = self.json if "json" in self.fixed else json
        self.debug = self.debug if "debug" in self.fixed else debug


def print_line(text: str) -> None:
    """Print a line of the result; it stays one line, whatever is in it."""
    sys.stdout.write(f"{plain(text)}\n")


def print_text(text: str) -> None:
    """Print a text of several lines."""
    for line in text.split("\n"):
        print_line(line)


def print_json(value: object, *, indent: int | None = None) -> None:
    """Print a value as JSON."""
    print_text(json_text(value, indent=indent))


def print_document(schema: str, value: object) -> None:
    """Print the result as one JSON object."""
    print_line(document(schema, value))


def print_views(views: Sequence[View]) -> None:
    """Print a result for people: tables as wide as the terminal, or as wide as they are when there is none."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    console = Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    # Captured, because rich answers a closed pipe by ending the program.
    with console.capture() as captured:
        for view in views:
            console.print(plain(view) if isinstance(view, str) else _rich_table(view))
    sys.stdout.write(captured.get())


def note(text: str) -> None:
    """Tell the user something that is no result."""
    sys.stderr.write(f"note: {plain(text)}\n")


def warn(text: str) -> None:
    """Tell the user what to look at before the result is used; --quiet doesn't hide it."""
    sys.stderr.write(f"warning: {plain(text)}\n")


def report_error(error: BaseException, mode: Mode) -> int:
    """Print one clear line for `error` on stderr (and a JSON object when asked for); return the exit code."""
    code, text = _explain(error)
    if mode.debug:
        sys.stderr.write(f"{_plain_lines(''.join(traceback.format_exception(error)).rstrip())}\n")
    elif code == EXIT_UNEXPECTED and not isinstance(error, ToolkitError):
        text += "; run again with --debug for the traceback"
    shown = _plain_lines(text)
    sys.stderr.write(f"{shown}\n" if code == EXIT_INTERRUPTED else f"error: {shown}\n")
    if mode.json:
        facts = {"type": _type_name(error), "message": text, "exit_code": code, **_attributes(error)}
        print_document("toolkit.error/1", {"error": facts})
    return code


def silence_stdout() -> None:
    """Let the rest of the output vanish: whoever read it has gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _rich_table(table: Table) -> RichTable:
    from rich.table import Table as RichTable

    result = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, header in enumerate(table.headers):
        # A path or key that doesn't fit goes on in the next line: nothing that someone may copy is cut.
        justify: Literal["left", "right"] = "right" if number in table.right else "left"
        result.add_column(plain(header), justify=justify, overflow="fold")
    for row in table.rows:
        result.add_row(*map(plain, row))
    return result


def _plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def _explain(error: BaseException) -> tuple[int, str]:
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED, str(error) or "interrupted"
    if isinstance(error, ToolkitError):
        return error.exit_code, str(error)
    if isinstance(error, _ParseError):
        return EXIT_USAGE, _usage_text(error)
    if isinstance(error, OSError):
        where = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
        return EXIT_IO, f"{error.strerror or error}{':' if where else ''}{where}"
    first_line = next(iter(str(error).splitlines()), "")
    return EXIT_UNEXPECTED, f"unexpected {type(error).__name__}{': ' if first_line else ''}{first_line}"


def _usage_text(error: Any) -> str:
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities") and context is not None:
        known = [name for param in context.command.params for name in (*param.opts, *param.secondary_opts)]
        text = f"no such option {option}.{did_you_mean(option, known)}"
    else:
        text = " ".join(error.format_message().split())
        text = text if text.endswith((".", "?")) else f"{text}."
    path = context.command_path if context is not None else "toolkit"
    return f"{text} See `{path} --help`."


def _type_name(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted"
    return "UsageError" if isinstance(error, _ParseError) else type(error).__name__


def _attributes(error: BaseException) -> dict[str, str | int | None]:
    """Return what a ToolkitError says for programs: shard, row, key …"""
    if not isinstance(error, ToolkitError):
        return {}
    return {name: value for name, value in vars(error).items() if value is None or isinstance(value, str | int)}
