"""COCO annotations through their source, against Python's own json: what is delivered has to be what the file says.

Pictures aren't there, and rows hold nulls for them. Masks of run lengths are decoded here as well.
"""

from __future__ import annotations

import json
from typing import Any

from fuzz.inputs import File, pieces, refused, same

from toolkit.errors import ToolkitError
from toolkit.sources.kinds.coco.source import CocoSource
from toolkit.sources.options import Missing, SourceOptions

_FILE = File("a.json")
_LISTS = {"boxes": "bbox", "areas": "area", "annotation_ids": "id", "keypoints": "keypoints", "iscrowd": "iscrowd"}


def _pixels(counts: list[int] | str) -> int:
    """The pixels that run lengths come to: digits of 32, the lowest first, the last with a sign."""
    if not isinstance(counts, str):
        return sum(counts)
    digits, lengths = [], []
    for character in counts:
        digits.append(ord(character) - 48)
        if digits[-1] < 32:
            number = sum((digit & 31) * 32**place for place, digit in enumerate(digits))
            number -= 32 ** len(digits) if digits[-1] & 16 else 0
            lengths.append(number + (lengths[-2] if len(lengths) > 2 else 0))
            digits = []
    assert not digits
    assert all(length >= 0 for length in lengths)
    return sum(lengths)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def _is_same(name: str, mine: Any, theirs: Any) -> bool:
    if name in ("boxes", "keypoints") and theirs is not None:
        return same(mine, [_number(one) for one in theirs])
    return same(mine, _number(theirs) if name == "areas" else int(theirs) if isinstance(theirs, bool) else theirs)


def fuzz(data: bytes) -> object:
    """Use one input."""
    options = SourceOptions(paths=(_FILE.write(data),), slice_bytes=1 << 20, missing=Missing.NULL)
    rows = 0
    try:
        document: Any = None
        for survey, _, found in pieces(CocoSource(options)):
            document = document or json.loads(data.removeprefix(b"\xef\xbb\xbf"))
            images = {one["id"]: one["file_name"] for one in document["images"]}
            names = {one["id"]: one["name"] for one in document.get("categories") or []}
            for row in found.batch.to_pylist():
                rows += 1
                assert row["image_id"] in images
                every = [one for one in document.get("annotations") or [] if one["image_id"] == row["image_id"]]
                boxed = [one for one in every if one.get("caption") is None]
                for name, field in _LISTS.items():
                    if row.get(name) is not None:
                        told = [one.get(field) for one in boxed]
                        pairs = zip(row[name], told, strict=True)
                        assert all(_is_same(name, mine, theirs) for mine, theirs in pairs), (name, row[name], told)
                if row.get("captions") is not None:
                    assert row["captions"] == [one["caption"] for one in every if one.get("caption") is not None]
                if row.get("labels") is not None:
                    classes = survey.classes["labels"]
                    assert [classes[i] for i in row["labels"]] == [names[one["category_id"]] for one in boxed]
                if row.get("segmentation") is not None:
                    masks = json.loads(row["segmentation"])
                    assert masks == [one.get("segmentation") for one in boxed]
                    for mask in masks:
                        if isinstance(mask, dict):
                            assert _pixels(mask["counts"]) == mask["size"][0] * mask["size"][1]
    except ToolkitError as error:
        return refused(error).rpartition("': ")[2][:30]
    return rows


def seeds() -> list[bytes]:
    """Return files of every form, good and bad."""
    head = '{"info": {}, "images": [{"id": 1, "file_name": "a.jpg", "width": 4, "height": 3, "license": 1}, '
    head += '{"id": 2, "file_name": "b.jpg"}], "categories": [{"id": 3, "name": "x", "keypoints": ["k"]}, '
    head += '{"id": 0, "name": "y"}], "annotations": ['
    box = '{"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 1.5, 2e0, 3], "area": 6, "iscrowd": 0'
    texts = [
        head + box + ', "segmentation": [[0, 0, 1, 0, 1, 1]], "keypoints": [1, 2, 2], "num_keypoints": 1}]}',
        head + box + ', "segmentation": {"size": [3, 4], "counts": [5, 7]}}, {"image_id": 2, "category_id": 0}]}',
        head + box + ', "segmentation": {"size": [3, 4], "counts": "57"}, "attributes": {"id": null}}]}',
        head + '{"id": 9, "image_id": 2, "caption": "say \\"bbox\\""}, {"id": 9, "image_id": 5, "caption": ""}]}',
        head + box + ', "bbox": null}, {"image_id": 1, "category_id": 7}]}',
        head + "]}",
        '{"images": [{"id": 1, "file_name": "../a.jpg"}, {"id": 2, "file_name": "http://u:p@h/a?k"}]}',
    ]
    return [text.encode() for text in texts]
