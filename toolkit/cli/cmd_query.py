"""`toolkit query`: ask a dataset in SQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.flags import flag
from toolkit.cli.options import DatasetArgument, DebugOption, JsonOption, QuietOption
from toolkit.cli.output import note, print_document, print_line, print_text, print_views
from toolkit.errors import UsageError
from toolkit.options.values import Choice, Text, Whole

if TYPE_CHECKING:
    from toolkit.checks.query import QueryResult

__all__ = ["query"]

_ON_STDOUT = ("table", "csv", "jsonl")


def query(
    dataset: DatasetArgument,
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL",
            help="One SELECT. Tables are the splits, and `samples`: all of them, with a column `split`.",
        ),
    ],
    output: Annotated[
        str | None,
        flag("--output", "Write the answer into this file, which is replaced.", Text(), short="-o", metavar="FILE"),
    ] = None,
    format: Annotated[
        str | None,
        flag(
            "--format",
            "How the answer is written: a file as its name ends, stdout as a table.",
            Choice(("table", "csv", "jsonl", "arrow", "parquet")),
        ),
    ] = None,
    rows: Annotated[int, flag("--rows", "How many rows a table shows; 0 shows all.", Whole(0))] = 100,
    json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Ask DATASET in SQL: "select label, count(*) as n from train group by label order by n desc"."""
    _check(output, format, json=json)
    from toolkit.checks.query import query as run_query

    answer = run_query(dataset, sql)
    if answer.left_out and not quiet:
        note(f"* leaves out {', '.join(answer.left_out)}: large columns are read when the query names them")
    if output is not None:
        _write(answer, output, format, json=json)
    elif json:
        from toolkit.checks.query_values import json_rows

        facts = {"root": answer.root, "pin": answer.pin, "left_out": answer.left_out, "columns": answer.columns}
        print_document("toolkit.query/1", {**facts, "rows": json_rows(answer.rows())})
    elif format in (None, "table"):
        _show(answer, rows, quiet=quiet)
    else:
        _print(answer, str(format))


def _check(output: str | None, format: str | None, *, json: bool) -> None:
    if output is not None and format == "table":
        raise UsageError("--format table is for stdout: a file is csv, jsonl, arrow or parquet")
    if output is None and json and format is not None:
        raise UsageError("--json and --format contradict each other: --json is one object with all rows")
    if output is None and format not in (None, *_ON_STDOUT):
        raise UsageError(f"--format {format} isn't for stdout: say --output FILE")


def _write(answer: QueryResult, output: str, format: str | None, *, json: bool) -> None:
    nbytes = answer.write(output, format=format)
    if json:
        facts = {"root": answer.root, "pin": answer.pin, "left_out": answer.left_out, "columns": answer.columns}
        print_document("toolkit.query/1", {**facts, "output": output, "bytes": nbytes})
    else:
        print_line(f"{output}: {nbytes:,} bytes")


def _show(answer: QueryResult, most: int, *, quiet: bool) -> None:
    from toolkit.report.query_view import query_views

    found = answer.rows(most + 1 if most else None)
    shown = found[:most] if most else found
    print_views(query_views(answer.columns, shown))
    if len(found) > len(shown) and not quiet:
        note(f"these are the first {most} rows: --rows 0 shows all, --output FILE keeps them")


def _print(answer: QueryResult, format: str) -> None:
    from toolkit.checks.query_output import text_of

    for piece in text_of(answer, format):
        if sys.stdout.isatty():
            print_text(piece.removesuffix("\n"))
        else:  # as it is: a file or a program reads it
            sys.stdout.write(piece)
