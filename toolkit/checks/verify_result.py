"""What a verification found: findings, what was looked at, and what wasn't."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.checks.against.compare import AgainstResult

__all__ = ["Finding", "VerifyResult"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: "integrity" (not the bytes that were packed), "storage" (the file system refuses to read them), "sample"
            (packed so, but it can't be decoded) or "source" (the source has it otherwise).
        message: What is wrong, with the place.
        split, shard: Where; the shard's path inside the dataset.
        place: Which part of the shard: "file", "record batch 2, chunk 5", "sample".
        row, key: The sample, where it is known.
    """

    kind: str
    message: str
    split: str
    shard: str
    place: str
    row: int | None = None
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What was checked and what was found; `findings` is empty when everything that was looked at is as it was packed.

    Attributes:
        level: "full" or "quick".
        not_checked: What this verification did not look at, in words.
        against: How the source differs, where it was given.
    """

    pin: str
    level: str
    decoded: bool
    shards: int
    samples: int
    bytes: int
    seconds: float
    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    against: AgainstResult | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
