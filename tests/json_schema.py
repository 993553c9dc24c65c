"""As much of JSON Schema as the project's own schemas use; an unknown word in a schema is an error."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
_NOTES = {"$schema", "title", "description"}


def fits(value: Any, schema: Any) -> bool:
    """Return whether a value is valid under a schema."""
    if isinstance(schema, bool):
        return schema
    return all(_holds(word, said, value, schema) for word, said in schema.items() if word not in _NOTES)


def _holds(word: str, said: Any, value: Any, schema: dict[str, Any]) -> bool:
    match word:
        case "type":
            return isinstance(value, _TYPES[said]) and (said == "boolean" or not isinstance(value, bool))
        case "enum":
            return value in said
        case "minimum":
            return not isinstance(value, int) or value >= said
        case "minLength":
            return not isinstance(value, str) or len(value) >= said
        case "pattern":
            return not isinstance(value, str) or re.search(said, value) is not None
        case "anyOf":
            return any(fits(value, one) for one in said)
        case "items":
            return not isinstance(value, list) or all(fits(item, said) for item in value)
        case "propertyNames":
            return not isinstance(value, dict) or all(fits(name, said) for name in value)
        case "properties":
            return not isinstance(value, dict) or all(fits(value[name], said[name]) for name in value if name in said)
        case "additionalProperties":
            known = schema.get("properties", {})
            return not isinstance(value, dict) or all(fits(value[name], said) for name in value if name not in known)
    raise AssertionError(f"{word} is not checked")
