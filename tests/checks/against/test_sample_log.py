"""Where two sets of samples differ: as a dict says it, however few of them are in memory at a time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.checks.against import sample_log
from toolkit.checks.against.sample_log import SampleLog, SampleNames, differences
from toolkit.storage.scratch import scratch_folder

Samples = list[tuple[str, int]]

keys = st.integers(0, 30).map(lambda n: f"key{n}" if n % 2 else "schlüssel" * n)
unique = st.dictionaries(keys, st.integers(0, 2)).map(lambda samples: list(samples.items()))


def logged(folder: str, name: str, samples: Samples) -> SampleLog:
    log = SampleLog(folder, name)
    for start in range(0, len(samples), 7):
        some = samples[start : start + 7]
        log.add([key for key, _ in some], [bytes([held]) * 16 for _, held in some], np.arange(start, start + len(some)))
    return log


@pytest.mark.parametrize("at_a_time", [1 << 19, 4])
@given(first=unique, second=st.lists(st.tuples(keys, st.integers(0, 2)), max_size=60))
def test_differences(at_a_time: int, first: Samples, second: Samples) -> None:
    with pytest.MonkeyPatch.context() as patch, scratch_folder() as folder:
        patch.setattr(sample_log, "_AT_A_TIME", at_a_time)
        found = list(differences(logged(folder, "a", first), logged(folder, "b", second), folder))
    earliest = {key: number for number, (key, _) in reversed(list(enumerate(second)))}
    assert Counter(first[i][0] for one in found for i in one.missing) == Counter(
        key for key, _ in first if key not in earliest
    )
    assert {i for one in found for i in one.strange.tolist()} == {
        number for key, number in earliest.items() if key not in dict(first)
    }
    assert {i for one in found for i in one.again.tolist()} == set(range(len(second))) - set(earliest.values())
    pairs = {
        (left, right): differ
        for one in found
        for (left, right), differ in zip(one.pairs.tolist(), one.differs.tolist(), strict=True)
    }
    assert pairs == {
        (left, earliest[key]): held != second[earliest[key]][1]
        for left, (key, held) in enumerate(first)
        if key in earliest
    }


@given(st.lists(st.text(), max_size=20))
def test_names(texts: list[str]) -> None:
    texts = [text for text in texts if text.isprintable() or text.isascii()]
    with scratch_folder() as folder, SampleNames(folder) as names:
        numbers = [*names.add(texts[:3]).tolist(), *names.add(texts[3:]).tolist()]
        assert names.read(numbers) == texts
        assert names.read(numbers[::-1]) == texts[::-1]


def test_nothing_at_all(tmp_path: Path) -> None:
    [found] = differences(SampleLog(str(tmp_path), "a"), SampleLog(str(tmp_path), "b"), str(tmp_path))
    assert [len(part) for part in (found.missing, found.strange, found.again, found.pairs, found.differs)] == [0] * 5
