"""Pack documents that a program has at hand, texts or ready ids, into a token dataset."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError, UsageError
from toolkit.format.arrays import to_array
from toolkit.format.schema import TokenEncoding, token_column, token_type
from toolkit.options.option import options_of, take
from toolkit.pack.job import DEFAULT_SHARD_SIZE, PackJob, PackResult
from toolkit.pack.make import make_job
from toolkit.pack.run import pack
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.splits import DEFAULT_SPLIT
from toolkit.sources.tokenized import TOKENS, token_array
from toolkit.sources.tokenizer import Tokenizer, load_tokenizer

__all__ = ["Document", "pack_tokens"]

Document = str | bytes | NDArray[np.integer] | list[int]
_MOST_VOCABULARY = 1 << 32


def pack_tokens(
    documents: Iterable[Document],
    dataset: str | os.PathLike[str],
    *,
    tokenizer: str | os.PathLike[str] | None = None,
    vocabulary: int | None = None,
    eos: bool | int | str = False,
    split: str = DEFAULT_SPLIT,
    key_prefix: str = "",
    on_existing: Literal["refuse", "overwrite", "append"] = "refuse",
    shard_size: int | str = DEFAULT_SHARD_SIZE,
    user_metadata: Mapping[str, str] | None = None,
) -> PackResult:
    """Pack documents into a token dataset; return what was packed.

    A generator that raises, and a kill at any instant, leave the dataset as it was.

    Args:
        documents: Texts, bytes, or integer arrays (n,) and lists of ids; read once, in order.
        dataset: Folder to make.
        tokenizer: For texts: "bytes", or the path of a tokenizer.json. Bytes are ids for "bytes", else UTF-8.
        vocabulary: For ids without a tokenizer: every id is below it.
        eos: What to put behind each document that isn't empty: the tokenizer's end-of-text token, a token, or an id.
        split: Name of the split.
        key_prefix: Keys are this and the number of the document, from 0.
        on_existing: When the dataset is there already.
        shard_size: Shards are filled up to this: bytes, or text with a unit as in "64MiB"; a larger document
            gets one of its own.
        user_metadata: Text to keep in the manifest; part of what is pinned.

    Raises:
        UsageError: An option can't be.
        SourceError: A document is none, or has an id that the vocabulary hasn't; names its number.
        ExistsError, StorageError: As toolkit.pack.run.pack.
    """
    maker = _DocumentMaker(tokenizer, vocabulary, eos)
    given = {
        "split": split,
        "on_existing": on_existing,
        "shard_size": shard_size,
        "user_metadata": user_metadata,
    }
    job = make_job(["<documents>", os.fspath(dataset)], take(options_of(PackJob), given))
    return pack(job, source=_DocumentSource(documents, maker, split, key_prefix))


class _DocumentMaker:
    """Turns documents of any form into ids."""

    def __init__(self, tokenizer: str | os.PathLike[str] | None, vocabulary: int | None, eos: bool | int | str) -> None:
        self._tokenizer: Tokenizer | None = None
        if tokenizer is not None:
            if vocabulary is not None:
                raise UsageError("vocabulary is the tokenizer's own: leave it out")
            token = eos if isinstance(eos, str) else None
            self._tokenizer = load_tokenizer(tokenizer, eos=eos is True, eos_token=token)
            self.encoding = self._tokenizer.encoding
        elif vocabulary is None:
            raise UsageError("say what ids there are: vocabulary=50257 for ready ids, tokenizer= for texts")
        elif isinstance(vocabulary, bool) or not 1 <= vocabulary <= _MOST_VOCABULARY:
            raise UsageError(f"vocabulary must be 1 to 2**32, got {vocabulary!r}")
        elif isinstance(eos, str) or eos is True:
            raise UsageError(f"eos={eos!r} names a token, and there is no tokenizer: give the id")
        else:
            self.encoding = TokenEncoding(vocabulary=vocabulary)
        if isinstance(eos, int) and not isinstance(eos, bool):
            if not 0 <= eos < self.encoding.vocabulary:
                raise UsageError(f"eos={eos} is no id below the vocabulary of {self.encoding.vocabulary}")
            # The tokenizer puts none: it is put here, behind documents of every form.
            self.encoding = msgspec.structs.replace(self.encoding, eos=eos)
        self.tables = () if self._tokenizer is None else self._tokenizer.tables

    def ids(self, first: int, documents: list[Document]) -> list[NDArray[np.generic]]:
        """Return the ids of documents `first` and on, the end-of-text id behind each. Raises SourceError."""
        plain = [self._plain(number, document) for number, document in enumerate(documents, first)]
        texts = [one for one in plain if isinstance(one, str)]
        encoded = iter(self._encoded(texts))
        eos = self.encoding.eos
        found = []
        for one in plain:
            ids = next(encoded) if isinstance(one, str) else one
            found.append(np.append(ids, np.array(eos, ids.dtype)) if eos is not None and len(ids) else ids)
        return found

    def _encoded(self, texts: list[str]) -> list[NDArray[np.generic]]:
        """Return the ids of texts, without an end-of-text id."""
        if self._tokenizer is None or not texts:
            return []
        ends, ids = self._tokenizer.encode(texts)
        ends_itself = self._tokenizer.encoding.eos is not None
        spans = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return [ids[low : high - 1 if ends_itself and high > low else high] for low, high in spans]

    def _plain(self, number: int, document: Document) -> NDArray[np.generic] | str:
        """Return a document's ids, or its text, checked."""
        if isinstance(document, str | bytes):
            return self._of_text(number, document)
        ids = np.asarray(document)
        if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
            raise SourceError(f"document {number} is {_shape_text(ids)}: expected text, bytes or ids in one dimension")
        if ids.size and not (int(ids.min()) >= 0 and int(ids.max()) < self.encoding.vocabulary):
            wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise SourceError(
                f"document {number} has the id {wrong}, and the vocabulary ends below {self.encoding.vocabulary}"
            )
        return ids.astype(np.uint32)

    def _of_text(self, number: int, document: str | bytes) -> NDArray[np.generic] | str:
        if self._tokenizer is None:
            raise SourceError(f"document {number} is {type(document).__name__}: texts need tokenizer=")
        if isinstance(document, bytes) and self.encoding.tokenizer == "bytes":
            return np.frombuffer(document, np.uint8).astype(np.uint32)
        try:
            text = document.decode() if isinstance(document, bytes) else document
            text.encode()
        except UnicodeError as error:
            raise SourceError(f"document {number} is not valid UTF-8: {error}") from error
        return text


class _DocumentSource(Source):
    """Documents of an iterable, as one slice."""

    def __init__(self, documents: Iterable[Document], maker: _DocumentMaker, split: str, key_prefix: str) -> None:
        self._documents = documents
        self._maker = maker
        self._split = split
        self._prefix = key_prefix
        # What a killed pack had done is never taken for these documents: nothing tells whether they are the same.
        self._once = uuid.uuid4().hex

    def survey(self) -> Survey:
        """Say what the documents become; reads none."""
        encoding = self._maker.encoding
        return Survey(
            columns=(token_column(TOKENS, encoding),),
            types={TOKENS: token_type(encoding.vocabulary)},
            classes={},
            splits=(self._split,),
            slices=(Slice(self._split, 0, None, 0, self._once, "documents"),),
            options={"source_kind": "documents", "split": self._split, "key_prefix": self._prefix},
            tables=self._maker.tables,
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read all documents."""
        waiting: list[Document] = []
        size = number = 0
        for document in self._documents:
            nbytes = _size(document)
            if waiting and size + nbytes > PIECE_BYTES:
                yield self._rows(survey, number, waiting)
                number, waiting, size = number + len(waiting), [], 0
            waiting.append(document)
            size += nbytes
        if waiting:
            yield self._rows(survey, number, waiting)

    def place(self, part: Slice, key: str) -> str:
        """Return what stands for a path: documents have none."""
        return "<documents>"

    def _rows(self, survey: Survey, first: int, documents: list[Document]) -> Rows:
        found = self._maker.ids(first, documents)
        keys = [f"{self._prefix}{number}" for number in range(first, first + len(documents))]
        ends = np.cumsum([0, *map(len, found)], dtype=np.int64)
        ids = np.concatenate(found)
        arrays = [to_array(keys, pa.string()), token_array(ends, ids, survey.columns[0])]
        return Rows(pa.RecordBatch.from_arrays(arrays, schema=rows_schema(survey)), (), ids.nbytes)


def _size(document: Document) -> int:
    """Return about how many bytes a document takes while it waits; what is no document is told later."""
    if isinstance(document, np.ndarray):
        return document.nbytes
    return len(document) * (1 if isinstance(document, str | bytes) else 8)


def _shape_text(ids: NDArray[np.generic]) -> str:
    return f"an array of {ids.dtype} in {ids.ndim} dimensions"
