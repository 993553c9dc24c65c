"""`toolkit config`: the schema of YAML configs, and what one comes to."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from toolkit.cli.config_options import effective_options, keys_of, take_config, take_settings
from toolkit.cli.options import DebugOption, envvar
from toolkit.cli.output import print_document, print_line
from toolkit.format.encodings import ImageEncoding
from toolkit.pack.job import PackJob

__all__ = ["check", "config", "schema"]


def config(context: typer.Context) -> None:
    """Check YAML configs of `toolkit pack`, and print their schema."""
    if context.invoked_subcommand is None:
        text = context.get_help()
        print_line(text)


def schema(context: typer.Context, debug: DebugOption = False) -> None:
    """Print the JSON Schema (draft 2020-12) of configs, as editors and CI read it."""
    from toolkit.config.schema import json_schema

    print_line(json.dumps(json_schema(keys_of(_pack_command(context))), indent=2, ensure_ascii=False))


def check(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML config.", show_default=False)],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", envvar=envvar("--set"), metavar="KEY=VALUE", help="Another value for a key, as its flag takes it."
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Check a config; print the options that `toolkit pack --config FILE` would have here, as JSON.

    Nothing is read but FILE: SOURCE need not be there.
    """
    command = _pack_command(context)
    packing = typer.Context(command, info_name="pack")
    take_config(packing, file)
    take_settings(packing, settings or [])
    options, origins = effective_options(packing)
    PackJob(
        source=options["source"] or "",
        dataset=options["dataset"] or "",
        shard_bytes=options["shard_size"],
        jobs=options["jobs"],
        limit=options["limit"],
        max_rejects=options["max_rejects"],
        image_encoding=ImageEncoding.parse(options["image_encoding"]),
        short_side=options["short_side"],
    )
    print_document("toolkit.config/1", {"config": file, "options": options, "from": origins})


def _pack_command(context: typer.Context) -> Any:
    root: Any = context.find_root().command
    return root.commands["pack"]
