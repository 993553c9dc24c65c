"""What a note of a commit holds."""

from __future__ import annotations

import msgspec

__all__ = ["Committed"]


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit came to: its pin, the version it was appended to, and by which job from which input.

    `job` and `input` are hashes: of the options, and of the slices as they were listed.
    """

    pin: str
    base: str | None
    job: str
    input: str
    added: int
    renamed: int
    rejected: int
