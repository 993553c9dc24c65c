"""The JSON Schema of configs, for editors and for CI."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.config.keys import Key

__all__ = ["json_schema"]


def json_schema(keys: Mapping[str, Key]) -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a config with these keys."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "toolkit pack --config",
        "description": "Options of `toolkit pack`; paths are relative to the file.",
        "type": "object",
        "properties": {key.name: {"description": key.help, **key.value.schema()} for key in keys.values()},
        "additionalProperties": False,
    }
