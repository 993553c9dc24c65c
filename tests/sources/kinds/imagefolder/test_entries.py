"""Images listed as columns are the same as one by one, cut or not."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.kinds.imagefolder.entries import Listed
from toolkit.sources.kinds.imagefolder.found import Entry, Found

FOUND = st.builds(
    lambda folder, name, size, reason, inode: Found(
        folder, f"{folder}/{name}" if folder else name, "", size, reason, size * 7 - 5, inode
    ),
    st.sampled_from([None, "a", "é", "猫 b"]),
    st.text("xyzé猫.", min_size=1, max_size=5),
    st.integers(1, 2**40),
    st.sampled_from([None, None, None, "empty file"]),
    st.integers(0, 2**64 - 1),
)
IDS = {"a": 2, "é": 0, "猫 b": 1}


@given(st.lists(FOUND, max_size=12), st.integers(0, 12), st.integers(0, 12), st.randoms())
def test_columns_hold_what_was_found(found: list[Found], start: int, stop: int, order: Random) -> None:
    listed = Listed("/root", found)
    expected = [
        Entry(one.key, f"/root/{one.key}", IDS.get(one.folder or ""), one.bytes) for one in found if one.reason is None
    ]
    entries = listed.entries(IDS)
    assert entries == expected
    assert entries.keys == [one.key for one in expected]
    assert [one.inode for one in entries] == [one.inode for one in found if one.reason is None]
    cut = entries[start:stop]
    assert cut == expected[start:stop]
    assert cut.keys == [one.key for one in expected[start:stop]]
    assert pickle.loads(pickle.dumps(cut)) == cut
    odd = np.arange(len(cut)) % 2 == 1
    assert cut.without(odd) == list(cut)[::2]
    places = order.sample(range(len(cut)), len(cut))
    mixed = cut.take(np.array(places, np.int64))
    assert mixed == [cut[i] for i in places]
    assert [one.inode for one in mixed] == [cut[i].inode for i in places]
    assert mixed.keys == [cut.keys[i] for i in places]
    for some in (entries, cut, mixed):
        assert some.key_array.to_pylist() == some.keys
        assert some.letters.tolist() == [len(key) for key in some.keys]
    assert mixed[1:] == list(mixed)[1:]
    assert mixed.take(np.argsort(places)) == cut
    assert repr(mixed.take(np.argsort(places))) == repr(cut)
    assert [one.label for one in listed.entries(None)] == [None] * len(expected)
    assert len(listed) == len(found)
    assert listed.count("a") == sum(one.folder == "a" for one in found)
    assert listed.in_folders == any(one.folder is not None for one in found)
    assert list(listed.bare(everything=False)) == [one.key for one in found if not one.reason and one.folder is None]
    assert list(listed.bare(everything=True)) == [one.key for one in expected]


def test_what_a_slice_is_known_by_tells_every_fact() -> None:
    found = [Found("a", "a/1", "", 5, None, 6, 7), Found("a", "a/2", "", 5, None, 6, 8)]
    known = repr(Listed("/root", found).entries(IDS))
    assert known == repr(Listed("/root", found).entries(IDS))
    for other in (
        found[0]._replace(bytes=4),
        found[0]._replace(mtime_ns=4),
        found[0]._replace(inode=4),
        found[0]._replace(ctime_ns=4),
        found[0]._replace(key="a/3"),
        found[0]._replace(folder="é"),
    ):
        assert repr(Listed("/root", [other, found[1]]).entries(IDS)) != known
    assert repr(Listed("/other", found).entries(IDS)) != known
    with pytest.raises(ValueError, match="cut"):
        Listed("/root", found).entries(IDS)[::2]
    with pytest.raises(IndexError):
        Listed("/root", found).entries(IDS)[2]
