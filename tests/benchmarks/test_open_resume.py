"""Opening and resuming: the datasets are sound, and every place of an order gives a first batch."""

from __future__ import annotations

from pathlib import Path

import open_resume as benchmark
import pytest

import toolkit
from toolkit.checks.verify import verify


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "ds"
    benchmark.build(root, 5, written=2)
    return root


def test_the_datasets_are_sound(dataset: Path) -> None:
    findings = verify(dataset, full=True, jobs=1).findings
    assert findings
    known = (": the key of split", "more keys come twice")
    assert all(any(text in finding.message for text in known) for finding in findings)
    ds = toolkit.open(dataset)
    assert (ds.index.shards, len(ds)) == (5, 5000)
    assert [ds[i]["data"] for i in (0, 1999, 2000, 4999)] == [
        b"000000/000",
        b"000001/999",
        b"000000/000",
        b"000000/999",
    ]


def test_both_tables(dataset: Path) -> None:
    opening = benchmark.measure_open(dataset, 2)
    assert (opening.shards, opening.samples, len(opening.seconds)) == (5, 5000, 2)
    resuming = benchmark.measure_resume(dataset, 10**12, 2)
    assert resuming.samples == 10**12
    assert {place: len(seconds) for place, seconds in resuming.resumed.items()} == {"begin": 2, "middle": 2, "end": 2}
    lines = list(benchmark.table([opening], [resuming]))
    assert "1,000,000,000,000" in lines[-1]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--shards", "2", "3", "--orders", "4e3", "1e6", "--repeats", "1", "--work", str(tmp_path)]
    assert benchmark.main(options) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3 + 1 + 1 + 3
    assert benchmark.main(["--work", str(tmp_path / "none")]) == 1
    assert "open_resume: " in capsys.readouterr().err
