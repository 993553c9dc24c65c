"""What TFRecord files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, FIELDS, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "TFRecordSpec"]


class TFRecordSpec(SourceSpec):
    """TFRecord files of tf.train.Example or SequenceExample, or of anything with --tfrecord-raw."""

    name = "tfrecord"
    title = "TFRecord files"
    sign = "TFRecord by content"
    survey_text = "every record is read once, to find the features"
    accepts = COMMON | FIELDS | TOKENS | {"limit", "key", "classes", "missing", "tfrecord_raw"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "lacking_features": ("sample that lacks a feature", "samples that lack a feature")
    }
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file begins with a record, as it is or compressed."""
        from toolkit.sources.tfrecords.records import looks_like_tfrecord

        return looks_like_tfrecord(path)

    def is_named(self, name: str) -> bool:
        """Tell whether a file is called as TFRecord files are."""
        from toolkit.sources.tfrecords.records import is_named_tfrecord

        return is_named_tfrecord(name)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.tfrecord.source import TFRecordSource

        return TFRecordSource(options)


SPEC = TFRecordSpec()
