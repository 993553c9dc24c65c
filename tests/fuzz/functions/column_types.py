"""Arrow types as text, as a writer's columns= has them: refused, or a type that is written as text and read again."""

from __future__ import annotations

from fuzz.inputs import refused

from toolkit.errors import UsageError
from toolkit.pack.writer.declared import declare, written_as


def fuzz(data: bytes) -> object:
    """Use one input."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        declared = declare("x", text)
    except UsageError as error:
        said = refused(error, "columns.x: ")
        return said[-40:] if "Did you mean" in said else said[:14]
    if declared is None:
        assert text == "scalar"
        return None
    assert declare("x", written_as(declared)) == declared, text
    return declared.kind, declared.type.id, str(declared.type).count("<")


def seeds() -> list[bytes]:
    """Return types of each form, and some that are none."""
    texts = [
        "image",
        "scalar",
        "list<int64>",
        "large_list<item: float32>",
        "list<fixed_size_list<float64, 4>>",
        "fixed_size_binary[16]",
        "timestamp[us]",
        "date32[day]",
        "list<",
        "fixed_size_list<int8, 99999999999999999999>",
        "fixed_size_binary[99999999999]",
        "list<" * 2000 + "int8" + ">" * 2000,
        "null",
        "list<list<>>",
        "struct<a: int8>",
    ]
    return [text.encode() for text in texts]
