"""A source whose text column becomes tokens: any source of texts, tokenised as its rows are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.format.schema import KEY, Column, Kind, token_column, token_type
from toolkit.options.option import flag_of
from toolkit.sources.base import Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.options import SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.tokenizer import BYTES, load_tokenizer

__all__ = ["TOKENS", "TokenizedSource", "check_tokenized", "text_options", "token_array"]

TOKENS = "tokens"  # the column
_TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class _TokenizedSurvey(Survey):
    inner: Survey


class TokenizedSource(Source):
    """Reads the text column of another source, and gives tokens in its place: one document a row, nothing else."""

    def __init__(self, texts: Source, options: SourceOptions) -> None:
        """`texts` was made from text_options(); check_tokenized() has seen the options.

        Raises:
            NotFoundError, UsageError, SourceError: As load_tokenizer.
        """
        self._tokenizer = load_tokenizer(options.tokenizer or "", eos=options.eos, eos_token=options.eos_token)
        self._inner = texts
        self._field = options.text_column or _TEXT

    def survey(self) -> Survey:
        """Survey the source of texts."""
        inner = self._inner.survey()
        column = inner.columns[0]
        if column.kind not in (Kind.TEXT, Kind.JSON):
            raise UsageError(f"--text-column {self._field}: its values are {column.kind.value}, not text")
        encoding = self._tokenizer.encoding
        tokens = token_column(TOKENS, encoding)
        return _TokenizedSurvey(
            columns=(tokens,),
            types={TOKENS: token_type(encoding.vocabulary)},
            classes={},
            splits=inner.splits,
            slices=inner.slices,
            skipped=inner.skipped,
            skipped_names=inner.skipped_names,
            rejects=inner.rejects,
            options={**inner.options, "text_column": self._field},
            shuffled=inner.shuffled,
            tables=self._tokenizer.tables,
            left_out=inner.left_out,
            warnings=inner.warnings,
            inner=inner,
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read and tokenise the slice's texts."""
        if not isinstance(survey, _TokenizedSurvey):
            raise TypeError("the survey is of another source")
        schema = rows_schema(survey)
        for rows in self._inner.read(survey.inner, part):
            batch, rejects = rows.batch, list(rows.rejects)
            texts = batch.column(1)
            if texts.null_count:
                missing = texts.is_null()
                for key in batch.column(KEY).filter(missing).to_pylist():
                    rejects.append(Reject(self.place(part, key), key, f"its {self._field} is missing"))
                batch = batch.filter(texts.is_valid())
            ends, ids = self._tokenizer.encode(batch.column(1).to_pylist())
            arrays = [batch.column(0), token_array(ends, ids, survey.columns[0])]
            yield Rows(pa.RecordBatch.from_arrays(arrays, schema=schema), tuple(rejects), rows.read_bytes)

    def place(self, part: Slice, key: str) -> str:
        """Return what the source of texts does."""
        return self._inner.place(part, key)


def check_tokenized(options: SourceOptions) -> None:
    """Raise UsageError when an option means nothing for tokens."""
    for name in ("map", "columns", "rename", "kind", "classes"):
        if getattr(options, name):
            raise UsageError(
                f"{flag_of(name)} means nothing with --tokenizer, which packs one column of tokens: leave it out"
            )
    if options.tokenizer == BYTES:
        load_tokenizer(BYTES, eos=options.eos, eos_token=options.eos_token)


def text_options(options: SourceOptions, *, has_columns: bool) -> SourceOptions:
    """Return the options of the source of texts, which knows of no tokenizer.

    One that has columns is asked for that of the texts; another has the texts alone, and finds them by text_column.
    """
    plain = dataclasses.replace(options, tokenizer=None, eos=False, eos_token=None)
    if not has_columns:
        return plain
    return dataclasses.replace(plain, text_column=None, columns=(options.text_column or _TEXT,))


def token_array(ends: NDArray[np.int64], ids: NDArray[np.generic], column: Column) -> pa.Array:
    """Return documents as an Arrow array of the column's type; `ids` fit it."""
    if column.tokens is None:
        raise TypeError(f"{column.name} is no column of tokens")
    dtype = token_type(column.tokens.vocabulary)
    stored = np.ascontiguousarray(ids, dtype.value_type.to_pandas_dtype())
    values = pa.Array.from_buffers(dtype.value_type, len(stored), [None, pa.py_buffer(stored)])
    offsets = pa.py_buffer(np.ascontiguousarray(ends, np.int64))
    return pa.Array.from_buffers(dtype, len(ends) - 1, [None, offsets], children=[values])
