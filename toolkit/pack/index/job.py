"""What an index is asked to do, and what it did: a pack's job and result, with what is its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from toolkit.errors import UsageError
from toolkit.options.option import Option, option, options_of
from toolkit.options.values import Choice
from toolkit.pack.in_place.trust import Trust
from toolkit.pack.job import PackJob, PackResult
from toolkit.sources.options import PlacesWanted, SourceOptions, VerifyImages

__all__ = ["PACK_ONLY", "IndexJob", "IndexResult"]

PACK_ONLY = frozenset(
    {
        "image_encoding",
        "short_side",
        *("tokenizer", "text_column", "eos", "eos_token"),
        *("fetch_urls", "fetch_hosts"),
    }
)
"""Options of a pack that mean nothing here: they change values, or take what lies nowhere."""

_SLICE_SHARDS = {Trust.HASH: 4, Trust.STAT: 256}
"""How many times the shard size a slice takes of the input; see docs/decisions/pack.md."""


@dataclass(frozen=True, kw_only=True)
class IndexJob(PackJob):
    """An index's input, output and options. Checked when made.

    Attributes:
        trust: What stands for the values, which aren't stored.
    """

    trust: Trust = option(
        Choice(Trust),
        "What tells a changed file later: hash reads every file once and keeps sums of its bytes; stat reads none and "
        "keeps sizes and times.",
        Trust.HASH,
        in_journal=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if "-" in self.sources:
            raise UsageError("SOURCE is -: what comes from standard input lies nowhere to be read again: pack it")
        if self.trust is Trust.STAT and self.verify_images is VerifyImages.DECODE:
            raise UsageError("--verify-images decode reads every image, and --trust stat none: leave one of them out")

    @classmethod
    def declared(cls) -> Mapping[str, Option]:
        """Return the options that such a job has, by name."""
        return {name: one for name, one in options_of(IndexJob).items() if name not in PACK_ONLY}

    @property
    def in_place(self) -> Trust:
        """What stands for the values that stay where they are."""
        return self.trust

    @property
    def source_options(self) -> SourceOptions:
        """The options that the source gets."""
        return replace(
            super().source_options,
            slice_bytes=_SLICE_SHARDS[self.trust] * self.shard_size,
            places=PlacesWanted.BESIDE if self.trust is Trust.HASH else PlacesWanted.ONLY,
        )


@dataclass(frozen=True, kw_only=True)
class IndexResult(PackResult):
    """What an index did, as PackResult says it.

    `trust` is what stands for the values, and `roots` are the folders that they lie below, by name.
    """

    trust: str = Trust.HASH.value
    roots: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, packed: PackResult, trust: Trust, roots: Mapping[str, str]) -> IndexResult:
        """Return a pack's result as that of the index that it was."""
        shared = {one.name: getattr(packed, one.name) for one in fields(PackResult)}
        return cls(**shared, trust=trust.value, roots=dict(roots))

    def __repr__(self) -> str:
        unhashed = ", unhashed" if self.trust == Trust.STAT.value else ""
        below = ", ".join(f"{name} {place}" for name, place in self.roots.items())
        text = super().__repr__().replace("PackResult", "IndexResult", 1).removesuffix(">")
        return f"{text}{unhashed}, values below {below}>"
