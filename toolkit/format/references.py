"""Columns whose values stay where they lie: rows of (root, path, offset, length), with the sums of the bytes there.

The Python that says the same as reading value i of such a column, without a check:
    with open(os.path.join(roots[root[i]], path[i]), "rb") as file:
        file.seek(offset[i]); value = file.read(length[i])
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

__all__ = [
    "REFERENCES",
    "REFERENCE_TYPE",
    "ROOT_NAMES",
    "UNHASHED",
    "UNSEEN",
    "is_reference",
    "path_fault",
    "root_names",
]

REFERENCES = "references"
"""What a manifest requires when a column holds references."""

UNHASHED = "unhashed"
"""What it requires besides when they, and the samples, have no sums: sizes and times of the files stand for them."""

ROOT_NAMES = "roots"
"""The option of a manifest that has the names of all roots that its references have."""

UNSEEN = "verify_images"
"""The option of a manifest that is "off" where values without sums need not begin as what they are called."""

REFERENCE_TYPE = pa.struct(
    [
        ("root", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("name", pa.string()),
        ("crc32c", pa.binary()),
    ]
)
"""`name` is the `path` of the struct that a pack stores, and so part of the digest; `crc32c` has a little-endian uint32
for each 16 KiB of the value, from its first byte; null in what is unhashed."""


def is_reference(dtype: pa.DataType) -> bool:
    """Tell whether a column of that stored type holds references."""
    return bool(dtype == REFERENCE_TYPE)


def path_fault(path: str) -> str | None:
    """Say why `path` is none below a root, or None."""
    if not path or path.startswith("/") or "\0" in path:
        return "it is no path below a root"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it has an empty part, '.' or '..'"
    return None


def root_names(options: Mapping[str, object]) -> list[str]:
    """Return the names of the roots, of a manifest's options; none of a manifest that doesn't say."""
    names = options.get(ROOT_NAMES)
    return [str(name) for name in names] if isinstance(names, list) else []
