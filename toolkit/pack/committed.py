"""What a note of a commit holds."""

from __future__ import annotations

import msgspec

__all__ = ["Committed"]


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit came to: its pin, the version it was appended to, and by which job from which input.

    `job` and `input` are hashes: of the options, and of the slices as they were listed. Records that were passed over
    lacked a column: a writer's records are these, those added and those rejected.
    """

    pin: str
    base: str | None
    job: str
    input: str
    added: int
    renamed: int
    rejected: int
    passed_over: int = 0
