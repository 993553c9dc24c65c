"""One label file of YOLO: lines as they are written, against a reading of them by NumPy, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.contents import UnfitError
from toolkit.sources.kinds.yolo.labels import Form, Labels, read_labels

SHARE = st.floats(0, 1)


def said(text: str | bytes, classes: int = 3, keypoints: tuple[int, int] | None = None) -> Labels:
    return read_labels(text if isinstance(text, bytes) else text.encode(), classes, keypoints)


def fault(text: str | bytes, classes: int = 3, keypoints: tuple[int, int] | None = None) -> str:
    with pytest.raises(UnfitError) as error:
        said(text, classes, keypoints)
    return str(error.value)


def test_boxes() -> None:
    labels = said("0 0.5 0.25 1 .5\r\n\n  2\t0.1 0 0 1e-3  \n")
    assert labels == Labels(Form.BOX, [0, 2], [[0.5, 0.25, 1, 0.5], [0.1, 0, 0, 0.001]], 0)
    assert said("1.0 0 0 1 1").ids == [1]
    assert said(b"\xef\xbb\xbf1 0 0 1 1").ids == [1]


def test_polygons_are_kept_as_they_are() -> None:
    labels = said("0 0.1 0.1 0.9 0.1 0.5 0.9\n1 0 0 0 1 1 1 1 0\n")
    assert labels.form is Form.POLYGON
    assert labels.values == [[0.1, 0.1, 0.9, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1, 1, 0]]


def test_keypoints() -> None:
    labels = said("0 .5 .5 1 1 .1 .2 2 .3 .4 0\n", keypoints=(2, 3))
    assert labels == Labels(Form.POSE, [0], [[0.5, 0.5, 1, 1, 0.1, 0.2, 2, 0.3, 0.4, 0]], 0)
    assert said("0 .5 .5 1 1 .1 .2 .3 .4\n", keypoints=(2, 2)).form is Form.POSE


@pytest.mark.parametrize("text", ["", "\n\n", "  \r\n"])
def test_nothing(text: str) -> None:
    assert said(text) == Labels(None, [], [], 0)


def test_lines_that_repeat_others() -> None:
    labels = said("1 0 0 1 1\n0 0 0 1 1\n1 0.0 0 1 1.0\n1 0 0 1 1\n")
    assert (labels.ids, labels.repeated) == ([1, 0], 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0 0 0 1 1\nx 0 0 1 1", "line 2: 'x' is no number"),
        ("0 0 0 1 nan", "line 1: 'nan' is no number"),
        ("0 0 0 1 -inf", "line 1: '-inf' is no number"),
        ("0 0 0 1 1_0", "line 1: '1_0' is no number"),
        ("0 0 0 1 0x1", "line 1: '0x1' is no number"),
        ("0 0 0 1 ١", "line 1: '١' is no number"),
        ("0 0 0 1 1-1", "line 1: '1-1' is no number"),
        ("0,0,0,1,1", "line 1: '0,0,0,1,1' is no number"),
        ("0 0 0 1 " + "9" * 4000, "line 1: '99999999999999999999…' isn't from 0 to 1"),
        ("0 0 0 1 1e999", "line 1: '1e999' isn't from 0 to 1"),
        ("1.5 0 0 1 1", "line 1: the class '1.5' is no whole number"),
        ("1e999 0 0 1 1", "line 1: the class '1e999' is no whole number"),
        ("3 0 0 1 1", "line 1: the class '3' is none of the ids 0 to 2"),
        ("-1 0 0 1 1", "line 1: the class '-1' is none of the ids 0 to 2"),
        ("0 320 0 1 1", "line 1: '320' isn't from 0 to 1"),
        ("0 0 -0.1 1 1", "line 1: '-0.1' isn't from 0 to 1"),
        ("0", "line 1: 1 values; a class and a box are 5"),
        ("0 0 0 1", "line 1: 4 values"),
        ("0 0 0 1 1 0.9", "line 1: 6 values"),
        ("0 0 0 1 1 1 1 1", "line 1: 8 values"),
        ("0 0 0 1 1\n\n0 0 0 1 1 1 0", "line 3 is a polygon and line 1 a box"),
        (b"\xff\xfe0\x00", "not UTF-8 text at byte 0"),
    ],
)
def test_what_is_no_label_file(text: str | bytes, told: str) -> None:
    assert told in fault(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0 0 0 1 1", "line 1: 5 values, and a class, a box and 2 keypoints are 11"),
        ("0 0 0 1 1 0 0 3 0 0 0", "line 1: '3' says whether a keypoint is seen: 0, 1 or 2"),
        ("0 0 0 1 1 0 0 0.5 0 0 0", "line 1: '0.5' says whether a keypoint is seen"),
        ("0 0 0 1 1 0 2 2 0 0 0", "line 1: '2' isn't from 0 to 1"),
        ("0 0 0 1 2 0 0 2 0 0 0", "line 1: '2' isn't from 0 to 1"),
    ],
)
def test_what_is_no_line_of_keypoints(text: str, told: str) -> None:
    assert told in fault(text, keypoints=(2, 3))


@given(st.lists(st.tuples(st.integers(0, 79), st.lists(SHARE, min_size=4, max_size=4)), max_size=6))
def test_boxes_are_what_numpy_reads(lines: list[tuple[int, list[float]]]) -> None:
    text = "".join(f"{label} {' '.join(map(repr, box))}\n" for label, box in lines)
    rows = list(dict.fromkeys(map(tuple, np.array([line.split() for line in text.splitlines()], np.float64).tolist())))
    labels = said(text, 80)
    assert labels.ids == [int(row[0]) for row in rows]
    assert labels.values == [list(row[1:]) for row in rows]
    assert labels.repeated == len(lines) - len(rows)


@given(st.lists(st.lists(SHARE, min_size=6, max_size=12).filter(lambda one: len(one) % 2 == 0), min_size=1, max_size=4))
def test_polygons_are_what_is_written(polygons: list[list[float]]) -> None:
    labels = said("".join(f"{i} {' '.join(map(repr, one))}\n" for i, one in enumerate(polygons)), 4)
    assert labels.values == polygons
    assert labels.ids == list(range(len(polygons)))
