"""Compressed run lengths, against the way back that is written here; pycocotools' own are in test_source.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.kinds.coco.rle import MaskError, check_segmentation, run_lengths


def compressed(lengths: list[int]) -> str:
    """As maskApi.c's rleToString writes them."""
    text = ""
    for place, length in enumerate(lengths):
        number = length - lengths[place - 2] if place > 2 else length
        more = True
        while more:
            bits = number & 31
            number >>= 5
            more = number != (-1 if bits & 16 else 0)
            text += chr(48 + (bits | 32 if more else bits))
    return text


@given(st.lists(st.integers(0, (1 << 32) - 1)))
def test_every_mask_is_read_back(lengths: list[int]) -> None:
    assert run_lengths(compressed(lengths)) == lengths


@given(st.text(st.characters(min_codepoint=40, max_codepoint=120), max_size=60))
def test_any_text_gives_lengths_or_says_why(text: str) -> None:
    try:
        lengths = run_lengths(text)
    except MaskError:
        return
    assert all(0 <= one < 1 << 32 for one in lengths)
    assert run_lengths(compressed(lengths)) == lengths


@pytest.mark.parametrize(
    "text", ['{"size":[2,3],"counts":[6]}', '{"size":[2,3],"counts":"6","more":{"a":1}}', "null", "[]"]
)
def test_masks_that_fit(text: str) -> None:
    assert check_segmentation(text.encode(), (2, 3))
    assert check_segmentation(text.encode(), None)


def test_few_points_are_told() -> None:
    assert check_segmentation(b"[[0,0,1,1,2,0]]", (2, 3))
    assert not check_segmentation(b"[[0,0,1,1,2,0],[]]", (2, 3))


@pytest.mark.parametrize("text", [b"7", b'"x"', b"{}", b"[", b"[[NaN,1]]"])
def test_what_is_no_mask(text: bytes) -> None:
    with pytest.raises(MaskError, match="neither polygons nor run lengths"):
        check_segmentation(text, None)
