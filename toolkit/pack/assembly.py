"""Make one version of what the slices came to: the tables, and the manifest that names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toolkit.format.commit import Transaction
from toolkit.format.manifest import LabelCounts, Manifest, Split
from toolkit.format.schema import FORMAT_VERSION
from toolkit.format.tables import encode_label_table, encode_schema_table
from toolkit.pack.job import PackJob
from toolkit.pack.journal import SliceResult
from toolkit.pack.prepare import Prepared
from toolkit.sources.base import Survey

__all__ = ["assemble"]


def assemble(job: PackJob, prepared: Prepared, results: Sequence[SliceResult], transaction: Transaction) -> Manifest:
    """Write the tables; return the manifest of the version, with the rows of the one that is appended to."""
    base, survey = prepared.base, prepared.survey
    for table in (*map(encode_label_table, survey.classes.values()), *survey.tables):
        transaction.add_table(table)
    splits = {
        name: _split([result for result in results if result.split == name], survey, transaction)
        for name in survey.splits
    }
    return Manifest(
        format=FORMAT_VERSION,
        requires=prepared.requires,
        columns=prepared.columns,
        derived=prepared.derived,
        schema=transaction.add_table(encode_schema_table(prepared.schema)),
        splits=splits if base is None else base.joined_splits(splits),
        options=prepared.options,
        parent=None if base is None else base.pin,
        user={**({} if base is None else base.manifest.user), **job.user_metadata},
    )


def _split(results: Sequence[SliceResult], survey: Survey, transaction: Transaction) -> Split:
    """Write the split's shard tables; add up what is in them."""
    records = [record for result in results for record in result.records]
    labels = {}
    for column, names in survey.counted.items():
        counter: Counter[int | None] = Counter()
        for result in results:
            counter.update(dict(result.labels[column]))
        counts = tuple(counter[i] for i in range(len(names)))
        labels[column] = LabelCounts(counts=counts, missing=counter[None])
    return Split(
        rows=sum(record.rows for record in records),
        bytes=sum(record.file_bytes for record in records),
        labels=labels,
        tables=transaction.add_shard_tables(records),
    )
