"""What toolkit.open takes of pack's options. Made by scripts/make_pack.py: don't edit it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

__all__ = ["SourceKeywords"]


class SourceKeywords(TypedDict, total=False):
    """Options for what isn't packed yet, as toolkit.pack() has them.

    Attributes:
        limit: At most N samples of each split.
        label_mode: Labels from class folders: when there are any, never, or always.
        require_labels: Refuse images that lie in no class folder.
        classes: Class names in id order, one a line.
        splits: The folders that splits are made of, as in train=Train,val=Test,dev (val is Test and dev); other folders
            are left out. For image folders. As {"train": "Train", "val": ["Test", "dev"]}.
        map: The columns to pack, and the field of each. As {"image": "jpg", "label": "cls"}.
        rename: Other names for fields. As {"jpg": "image", "cls": "label"}.
        kind: What columns mean: image, label, text, scalar, tensor, tokens, json, bytes, value. As {"photo": "image",
            "caption": "text"}.
        key: The field that holds each sample's unique key.
        include: Take only input files that match one.
        exclude: Leave out input files that match one.
        follow_links: Follow symbolic links that lead out of `source`; they are refused if not given.
        max_value_bytes: Reject a sample with a larger value, if possible unread: bytes, or with a unit.
        missing: A sample that lacks a column: pack a null, skip it, or reject it.
        image_column: The fields of a table whose text is the path of an image, below --root.
        root: The folder that paths in tables and annotations are below; the table's own folder if not given.
        delimiter: The character between the fields of a CSV file; a comma, and in .tsv files a tab, if not given.
        quote: The character around fields of a CSV file; none where quotes mean nothing.
        encoding: The encoding of a table's text, as latin-1; UTF-8 if not given.
        field_names: Names of the fields of a CSV file whose first row is a sample already.
        fetch_urls: Fetch what the http and https URLs in fields of paths name; such rows are rejects if not given.
        fetch_hosts: Hosts that --fetch-urls may ask though their addresses are private: loopback, link-local and the
            like.
        pair: Files that belong together by name: the columns, and what the files of each are called, {} being what a
            sample's files have in common. Several may stand behind one another; the first without COLUMN= is the image.
            As {"image": "images/{}.jpg", "mask": "masks/{}.png"}.
        tfrecord_raw: Records are bytes, not tf.train.Example.
        verify_images: Reject images without a readable header, or those that can't be decoded; off looks at nothing.
        tokenizer: Pack text as tokens: a tokenizer.json, or bytes. Nothing is downloaded.
        text_column: The field that holds the text; text if not given.
        eos: Put the end-of-text token behind each document.
        eos_token: Which token ends a text; for ROXXEL02 files, the id that ends a document.
        source_kind: What `source` is; found from its content if not given.
        key_conflict: A sample whose key an earlier one has: refuse the input, or call it KEY#1, KEY#2, ...
        max_rejects: Rejected samples to tolerate: a number, or a share of all as in 1%.
    """

    limit: int
    label_mode: Literal["auto", "none", "imagefolder"]
    require_labels: bool
    classes: str | os.PathLike[str] | Sequence[str]
    splits: Mapping[str, str | Sequence[str]]
    map: Mapping[str, str]
    rename: Mapping[str, str]
    kind: Mapping[str, Literal["image", "label", "text", "scalar", "tensor", "tokens", "json", "bytes", "value"]]
    key: str
    include: Sequence[str]
    exclude: Sequence[str]
    follow_links: bool
    max_value_bytes: int | str
    missing: Literal["null", "skip", "error"]
    image_column: Sequence[str]
    root: str | os.PathLike[str]
    delimiter: str
    quote: str
    encoding: str
    field_names: Sequence[str]
    fetch_urls: bool
    fetch_hosts: Sequence[str]
    pair: Mapping[str, str | Sequence[str]]
    tfrecord_raw: bool
    verify_images: Literal["header", "decode", "off"]
    tokenizer: str | os.PathLike[str]
    text_column: str
    eos: bool
    eos_token: str
    source_kind: str
    key_conflict: Literal["error", "suffix"]
    max_rejects: int | str
