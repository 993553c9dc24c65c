"""Turn texts into token ids: bytes, or a tokenizer file of Hugging Face `tokenizers`. Downloads nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.format.schema import TokenEncoding
from toolkit.format.tables import encode_tokenizer_table, sha256
from toolkit.storage.files import storage_errors
from toolkit.storage.places import local_path

__all__ = ["BYTES", "ByteTokenizer", "FileTokenizer", "Tokenizer", "load_tokenizer", "parse_tokenizer"]

BYTES = "bytes"
_BYTE_IDS = 256
_EOS_NAMES = ("<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>", "<|eos|>", "[EOS]", "<EOS>")
# An encoding takes a hundred bytes a token and more while it is made.
_ENCODED_BYTES = 1024 * 1024
_MOST_GROWTH = 64  # of a token's text when a stranger's file decodes it; a byte becomes a U+FFFD, three


class Tokenizer(ABC):
    """Texts to ids and back. Safe from any thread.

    Attributes:
        encoding: What the ids mean, for the manifest.
        tables: The tables that the encoding names, as files.
    """

    encoding: TokenEncoding
    tables: tuple[bytes, ...] = ()

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return the ends of the texts (int64, one more than texts, from 0) and all ids, the end-of-text id included.

        A text without a token gets no end-of-text id either: it is an empty document.
        """

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; what is no text shows as U+FFFD."""


class ByteTokenizer(Tokenizer):
    """UTF-8 bytes as ids 0 to 255; the end of a text is 256."""

    def __init__(self, *, eos: bool = False) -> None:
        self.encoding = TokenEncoding(
            vocabulary=_BYTE_IDS + 1 if eos else _BYTE_IDS, eos=_BYTE_IDS if eos else None, tokenizer=BYTES
        )

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """See Tokenizer.encode."""
        data = [text.encode() for text in texts]
        return _with_eos([np.frombuffer(one, np.uint8) for one in data], self.encoding.eos)

    def decode(self, ids: Sequence[int]) -> str:
        """See Tokenizer.decode."""
        return bytes(one for one in ids if one < _BYTE_IDS).decode("utf-8", "replace")


class FileTokenizer(Tokenizer):
    """A tokenizer.json."""

    def __init__(self, file: bytes, name: str, *, eos: bool = False, eos_token: str | None = None) -> None:
        """Read the tokenizer in `file`; `name` is for errors.

        Raises:
            UsageError: The package `tokenizers` is missing, or the end-of-text token isn't one token.
            SourceError: The file is no tokenizer.
        """
        try:
            from tokenizers import Tokenizer as Loaded
        except ImportError as error:
            raise UsageError(
                "a tokenizer file needs the package tokenizers: pip install 'toolkit[tokens]', or give "
                f"--tokenizer {BYTES}"
            ) from error
        try:
            with _panics(name):
                self._loaded = Loaded.from_buffer(file)
        except SourceError:
            raise
        except Exception as error:  # the package raises plain Exception
            raise SourceError(f"{name!r} is no tokenizer.json: {error}") from error
        self._name = name
        # A dataset has whole documents: what a file says about cutting and filling up is for a model's input.
        self._loaded.no_truncation()
        self._loaded.no_padding()
        ids = self._loaded.get_vocab(with_added_tokens=True)
        if not ids:
            raise SourceError(f"{name!r} has an empty vocabulary")
        table = encode_tokenizer_table(file)
        self.tables = (table,)
        self.encoding = TokenEncoding(
            vocabulary=max(ids.values()) + 1,
            eos=self._eos(ids, eos_token) if eos or eos_token is not None else None,
            tokenizer=hashlib.sha256(file).hexdigest(),
            tokenizer_table=sha256(table),
        )

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """See Tokenizer.encode. Runs on the package's own threads, without the GIL."""
        pieces: list[NDArray[np.uint32]] = []
        part: list[str] = []
        size = 0
        for text in texts:
            if part and size + len(text) > _ENCODED_BYTES:
                pieces += self._encode(part)
                part, size = [], 0
            part.append(text)
            size += len(text)
        pieces += self._encode(part)
        return _with_eos(pieces, self.encoding.eos)

    def decode(self, ids: Sequence[int]) -> str:
        """See Tokenizer.decode."""
        with _panics(self._name):
            return str(self._loaded.decode(list(ids), skip_special_tokens=False))

    def _encode(self, texts: list[str]) -> list[NDArray[np.uint32]]:
        with _panics(self._name):
            made = self._loaded.encode_batch_fast(texts, add_special_tokens=False) if texts else []
        return [np.asarray(one.ids, np.uint32) for one in made]

    def _eos(self, ids: dict[str, int], token: str | None) -> int:
        if token is not None:
            if token in ids:
                return ids[token]
            count = len(self._encode([token])[0])
            raise UsageError(
                f"the end-of-text token {token!r} is no token of the tokenizer, but {count} of them."
                f"{did_you_mean(token, ids)} Give one that is, with --eos-token"
            )
        known = [name for name in _EOS_NAMES if name in ids]
        if len(known) != 1:
            found = f"several ({', '.join(known)})" if known else f"none of {', '.join(_EOS_NAMES)}"
            raise UsageError(f"--eos: the tokenizer has {found}: say which token ends a text, with --eos-token")
        return ids[known[0]]


def load_tokenizer(given: str | os.PathLike[str], *, eos: bool = False, eos_token: str | None = None) -> Tokenizer:
    """Return the tokenizer that `given` names: "bytes", or the path of a tokenizer.json.

    Raises:
        NotFoundError: There is no such file.
        UsageError, SourceError: As FileTokenizer.
    """
    name = os.fsdecode(given)
    if name == BYTES:
        if eos_token is not None:
            raise UsageError("--eos-token: bytes have no named tokens; --eos puts id 256 behind each text")
        return ByteTokenizer(eos=eos)
    name = local_path(name, "nothing is downloaded; give a tokenizer.json")
    if not os.path.isfile(name):
        hint = did_you_mean(name, [BYTES])
        raise NotFoundError(f"no tokenizer file at {name!r}.{hint} Nothing is downloaded: give a tokenizer.json")
    with storage_errors("read", name), open(name, "rb") as file:
        data = file.read()
    return FileTokenizer(data, name, eos=eos, eos_token=eos_token)


def parse_tokenizer(encoding: TokenEncoding, file: bytes | None) -> Tokenizer | None:
    """Return a dataset's own tokenizer, from its encoding and the file in its tokenizer table.

    None for ready ids, and for a file whose decoder could make texts of any length or search them without end.
    """
    if encoding.tokenizer == BYTES:
        return ByteTokenizer(eos=encoding.eos is not None)
    return None if file is None or not _decodes_in_bounds(file) else FileTokenizer(file, "the dataset's tokenizer")


@contextlib.contextmanager
def _panics(name: str) -> Iterator[None]:
    """Turn a panic of the package into a SourceError: it is a BaseException of no module that can be imported."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise SourceError(f"{name!r} is no tokenizer.json that the package tokenizers can use: {error}") from error


def _decodes_in_bounds(file: bytes) -> bool:
    """Tell whether a tokenizer.json decodes ids to a text that is not much longer than their tokens, and soon."""
    try:
        value = json.loads(file)
        return not isinstance(value, dict) or _growth(value.get("decoder")) <= _MOST_GROWTH
    except (ValueError, RecursionError):  # the package says what is wrong
        return True


def _growth(decoder: object) -> float:
    """Return how many times longer a decoder makes a text at the most; infinite if it searches for a regex."""
    if not isinstance(decoder, dict):
        return 1
    if isinstance(inner := decoder.get("decoders"), list):
        return math.prod(map(_growth, inner))
    if decoder.get("type") == "Replace":
        pattern = decoder.get("pattern")
        found = pattern.get("String") if isinstance(pattern, dict) else None
        if not isinstance(found, str):
            return math.inf
        content = str(decoder.get("content")).encode("utf-8", "replace")
        return max(1, (1 + len(content)) if not found else len(content) / len(found.encode("utf-8", "replace")))
    texts = [value for name, value in decoder.items() if name != "type" and isinstance(value, str)]
    return 1 if all(texts) else 2  # what is put for an empty text comes before every character


def _with_eos(
    documents: Sequence[NDArray[np.generic]], eos: int | None
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    lengths = np.array([len(one) for one in documents], np.int64)
    ends = np.concatenate(([0], np.cumsum(lengths + (lengths > 0) if eos is not None else lengths)))
    ids = np.empty(int(ends[-1]), np.uint32)
    for one, start, length in zip(documents, ends[:-1].tolist(), lengths.tolist(), strict=True):
        ids[start : start + length] = one
    if eos is not None:
        ids[ends[1:][lengths > 0] - 1] = eos
    return ends, ids
