"""`toolkit config`: the schema of YAML configs, and what one comes to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from toolkit.cli.config_options import effective_options, keys_of, take_config, take_settings
from toolkit.cli.flags import flag
from toolkit.cli.options import DebugOption
from toolkit.cli.output import print_document, print_json, print_text
from toolkit.pack.make import make_job

__all__ = ["check", "config", "schema"]


def config(context: typer.Context) -> None:
    """Check YAML configs of `toolkit pack`, and print their schema."""
    if context.invoked_subcommand is None:
        print_text(context.get_help())


def schema(context: typer.Context, debug: DebugOption = False) -> None:
    """Print the JSON Schema (draft 2020-12) of configs, as editors and CI read it."""
    from toolkit.options.schema import json_schema

    print_json(json_schema(keys_of(_pack_command(context))), indent=2)


def check(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML config.", show_default=False)],
    settings: Annotated[
        list[str] | None, flag("--set", "Another value for a key, as its flag takes it.", metavar="KEY=VALUE")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Check a config; print the options that `toolkit pack --config FILE` would have here, as JSON.

    Nothing is read but FILE, and SOURCE need not be there; so what only its content tells is not checked.
    """
    command = _pack_command(context)
    packing = typer.Context(command, info_name="pack")
    take_config(packing, file)
    take_settings(packing, settings or [])
    values, origins = effective_options(packing)
    make_job([values["source"] or "SOURCE", values["dataset"] or "DATASET"], values, reads=False)
    options = {key: option.value.plain(values[key]) for key, option in keys_of(command).items()}
    print_document("toolkit.config/1", {"config": file, "options": options, "from": origins})


def _pack_command(context: typer.Context) -> Any:
    root: Any = context.find_root().command
    return root.commands["pack"]
