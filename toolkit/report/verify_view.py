"""What a verification found, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.text import bytes_text, count, plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolkit.loader.verify import Finding, VerifyResult

__all__ = ["verify_views"]


def verify_views(result: VerifyResult) -> list[RenderableType]:
    """Return one line for each finding, and what was checked."""
    views: list[RenderableType] = [_finding(one) for one in result.findings]
    checked = (
        f"{count(result.shards, 'shard')}, {count(result.samples, 'sample')}, {bytes_text(result.bytes)} "
        f"({result.level}{', decoded' if result.decoded else ''}) in {result.seconds:.2f} s"
    )
    verdict = "ok" if not result.findings else count(len(result.findings), "finding")
    return [*views, f"{verdict}: {checked}, pin {result.pin}"]


def _finding(finding: Finding) -> str:
    where = [finding.shard]
    if finding.row is not None:
        where.append(f"{finding.split or ''} row {finding.row}".strip())
    if finding.key is not None:
        where.append(f"key {finding.key!r}")
    return f"{finding.kind}: {plain(', '.join(where))}: {plain(finding.message)}"
