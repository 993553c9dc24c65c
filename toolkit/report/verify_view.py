"""What a verification found, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.text import bytes_text, count, plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolkit.loader.verify import VerifyResult

__all__ = ["verify_views"]


def verify_views(result: VerifyResult) -> list[RenderableType]:
    """Return one line for each finding, and what was checked."""
    views: list[RenderableType] = [
        f"{one.kind}: {plain(one.message)}"
        for one in result.findings  # the message names the place
    ]
    checked = (
        f"{count(result.shards, 'shard')}, {count(result.samples, 'sample')}, {bytes_text(result.bytes)} "
        f"({result.level}{', decoded' if result.decoded else ''}) in {result.seconds:.2f} s"
    )
    verdict = "ok" if not result.findings else count(len(result.findings), "finding")
    return [*views, f"{verdict}: {checked}, pin {result.pin}"]
