"""The JSON Schema of configs, for editors and for CI."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.options.option import Option

__all__ = ["json_schema"]


def json_schema(options: Mapping[str, Option]) -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a config of these options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "toolkit pack --config",
        "description": "Options of `toolkit pack`; paths are relative to the file.",
        "type": "object",
        "properties": {name: {"description": one.help, **one.value.schema()} for name, one in options.items()},
        "additionalProperties": False,
    }
