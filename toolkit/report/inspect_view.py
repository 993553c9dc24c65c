"""What a dataset holds as tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.tables import Table, View, table
from toolkit.report.text import bytes_text, count, number
from toolkit.report.tokens_view import tokens_views

if TYPE_CHECKING:
    from toolkit.checks.inspect import FirstSample, InspectResult, LabelFacts
    from toolkit.checks.media import MediumFacts, SampleFacts
    from toolkit.checks.references import ReferenceFacts

__all__ = ["inspect_views"]

_SHOWN_EMPTY = 5

UNHASHED_TEXT = "UNHASHED: sizes and times only, nothing was hashed; bytes that change without them are never noticed"


def inspect_views(result: InspectResult) -> list[View]:
    """Return the tables, with an empty line between them."""
    views: list[View] = [
        f"{result.root}@sha256:{result.pin}",
        f"{count(result.samples, 'sample')} in {count(result.shards, 'shard')}, {bytes_text(result.bytes)}, "
        f"format {result.format}",
        *_references(result.references),
        "",
        _columns(result),
        *([f"derived: {', '.join(result.derived)}"] if result.derived else []),
        "",
        _splits(result),
    ]
    of = "" if len(result.chosen) == len(result.splits) else f", split {', '.join(result.chosen)}"
    for column, labels in result.labels.items():
        views += ["", f"classes of {column}{of}: {_classes_text(labels)}", *_classes(labels)]
    for column, facts in result.media.items():
        views += ["", f"{facts.plural} of {column}{of}: {_scanned_text(facts)}", *_media(facts)]
    if result.first:
        views += ["", "first samples", _first(result.first)]
    return [*views, *tokens_views(result.tokens)]


def _references(facts: ReferenceFacts | None) -> list[View]:
    """Say where values lie that the dataset doesn't hold, and what is known of them."""
    if facts is None:
        return []
    held = (
        ""
        if facts.values is None or facts.bytes is None
        else (f": {count(facts.values, 'value')}, {bytes_text(facts.bytes)} that are not stored here")
    )
    views: list[View] = [f"refers to files: {', '.join(facts.columns)}{held}"]
    if not facts.hashed:
        views.append(UNHASHED_TEXT)
    for root in facts.roots:
        where = "nobody says where" if root.path is None else root.path
        views.append(f"root {root.name}: {where}" + ("" if root.followed else f" (NOT FOLLOWED: {root.why})"))
    return views


def _columns(result: InspectResult) -> Table:
    referred = () if result.references is None else result.references.columns
    types = {c.name: "reference" if c.name in referred else c.arrow_type for c in result.columns}
    rows = [
        [c.name, c.kind, types[c.name], c.encoding or "", "" if c.classes is None else f"{c.classes:,}"]
        for c in result.columns
    ]
    return table(["column", "kind", "Arrow type", "encoding", "classes"], rows, right={4})


def _splits(result: InspectResult) -> Table:
    rows = [[name, f"{s.rows:,}", f"{s.shards:,}", bytes_text(s.bytes)] for name, s in result.splits.items()]
    return table(["split", "rows", "shards", "bytes"], rows, right={1, 2, 3})


def _classes_text(labels: LabelFacts) -> str:
    text = f"{labels.classes:,}, {count(labels.missing, 'sample')} without a label"
    if labels.empty:
        names = ", ".join(labels.empty[:_SHOWN_EMPTY])
        more = f" and {len(labels.empty) - _SHOWN_EMPTY:,} more" if len(labels.empty) > _SHOWN_EMPTY else ""
        text += f", {len(labels.empty):,} empty ({names}{more})"
    return text


def _classes(labels: LabelFacts) -> list[View]:
    rows = [[str(one.id), one.name, f"{one.count:,}"] for one in labels.top]
    views: list[View] = [table(["id", "class", "samples"], rows, right={0, 2})] if rows else []
    return [*views, f"… and {labels.more:,} more"] if labels.more else views


def _scanned_text(facts: MediumFacts) -> str:
    if not facts.read:
        return f"{facts.rows:,}, {facts.missing:,} missing; nothing was read of them but their sizes"
    if facts.scanned < facts.rows:
        text = f"{facts.scanned:,} of {facts.rows:,} looked at, evenly spaced: a sample (--scan)"
    else:
        text = f"all {facts.rows:,} looked at"
    marks = [(amount, facts.mark_texts[mark]) for mark, amount in facts.marks.items()]
    for amount, what in ((facts.missing, "missing"), (facts.unreadable, "unreadable"), *marks):
        if amount:
            text += f", {amount:,} {what}"
    return text


def _media(facts: MediumFacts) -> list[View]:
    known = [*facts.numbers.items(), ("bytes", facts.bytes)]
    rows = [[name, *(number(v) for v in (s.min, s.median, s.mean, s.max))] for name, s in known if s is not None]
    views: list[View] = []
    if rows:
        views.append(table(["", "min", "median", "mean", "max"], rows, right={1, 2, 3, 4}))
    total = sum(facts.formats.values())
    if total:
        shares = ", ".join(f"{name} {_percent(n, total)}" for name, n in facts.formats.items())
        views.append(f"formats: {shares}")
    return views


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 1 and share == round(share) else f"{share:.3g} %"


def _first(samples: tuple[FirstSample, ...]) -> Table:
    labels, media = list(samples[0].labels), list(samples[0].media)
    rows = []
    for sample in samples:
        cells = [sample.split, str(sample.row), sample.key]
        cells += [sample.labels[name] or "-" for name in labels]
        cells += [_cell(sample.media[name]) for name in media]
        rows.append(cells)
    return table(["split", "row", "key", *labels, *media], rows, right={1})


def _cell(facts: SampleFacts) -> str:
    if facts.bytes is None:
        return "-"
    if not facts.read:
        return f"not read, {facts.bytes:,} bytes"
    return f"{'no readable header' if facts.header is None else facts.header.text}, {facts.bytes:,} bytes"
