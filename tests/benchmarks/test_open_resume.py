"""Opening, first batches and cold reads: the datasets are sound, and every case measures both checkouts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cold_reads
import open_resume as benchmark
import pytest
import shard_sets
from checkouts import Figure, lines
from turns import BenchmarkError

import toolkit
from toolkit.checks.verify import verify

TASK = ("--open-shards", "2", "6", "--shards", "2", "4", "--orders", "4e3", "1e6", "--picture-bytes", "2e7")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "ds"
    benchmark.build(root, 6, written=2)
    return root


def test_the_datasets_are_sound(dataset: Path) -> None:
    findings = verify(dataset, full=True, jobs=1).findings
    assert findings
    known = (": the key of split", "more keys come twice")
    assert all(any(text in finding.message for text in known) for finding in findings)
    ds = toolkit.open(dataset)
    assert len(ds) == 6000
    assert shard_sets.shard_starts(dataset).tolist() == [0, 1000, 2000, 3000, 4000, 5000, 6000]
    values = [ds[i]["data"] for i in (0, 1999, 2000, 5999)]
    assert values == [4 * key for key in (b"000000/000", b"000001/999", b"000000/000", b"000001/999")]


def test_pictures_are_labelled_samples_in_as_many_shards_as_asked(tmp_path: Path) -> None:
    shard_sets.write_pictures(tmp_path / "pictures.parquet", 10_000_000)
    shard_sets.pack_pictures(tmp_path / "pictures.parquet", tmp_path / "packed")
    shard_sets.repeat_shards(tmp_path / "packed", tmp_path / "many", 3)
    ds = toolkit.open(tmp_path / "many")
    assert len(ds) == 3 * 200
    assert [ds[i]["label"] for i in (0, 7, 207)] == [0, 7, 7]
    assert ds[407]["image"] == ds[7]["image"]
    assert not verify(tmp_path / "many", jobs=1).findings


def test_shards_that_are_names_alone_are_enough_to_open(dataset: Path, tmp_path: Path) -> None:
    shard_sets.repeat_shards(dataset, tmp_path / "names", 12, files=False)
    assert len(toolkit.open(tmp_path / "names")) == 12_000
    assert not list((tmp_path / "names" / "shards").iterdir())


def test_only_whole_repeats_are_made(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="6 shards"):
        shard_sets.repeat_shards(dataset, tmp_path / "odd", 7)


READ = """
import sys
from pathlib import Path
import cold_reads

path = Path(sys.argv[1])
cold_reads.drop_pages([path])
before = cold_reads.Usage.now()
with path.open("rb", buffering=0) as file:
    assert len(file.read(1 << 20)) == 1 << 20
used = cold_reads.Usage.now().since(before)
assert used.reads == 1
assert used.read_bytes == 1 << 20
assert used.disk_bytes >= 1 << 20
assert cold_reads.resident_bytes([path]) == 1 << 20
assert cold_reads.resident_ranges([path]) == 1
assert cold_reads.readahead_bytes(path) >= 0
"""


def test_dropped_pages_are_read_from_disk_again(tmp_path: Path) -> None:
    # In a process of its own, in which nobody else reads.
    folder = Path(cold_reads.__file__).parent
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", READ, str(_on_disk(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr


def test_every_case_measures_both_checkouts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _on_disk(tmp_path)
    assert benchmark.main([*TASK, "--other", str(benchmark.HERE), "--repeats", "1", "--work", str(tmp_path)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["this", "other", "this", "by", "other"]
    for case in benchmark.CASES:
        assert any(line.startswith(f"{case}, ") for line in table)
    assert any("2 shards, order of 4e+03: fresh, ms" in line for line in table)


def test_a_checkout_alone_and_its_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*TASK, "--case", "open", "--repeats", "1"]
    assert benchmark.main([*options, "--work", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["this"]
    assert benchmark.main([*options, "--work", str(tmp_path / "none")]) == 1
    assert benchmark.main([*options, "--work", str(tmp_path), "--other", str(tmp_path)]) == 1
    assert "is not compiled" in capsys.readouterr().err


def test_a_table_has_medians_spreads_and_ratios_within_a_repeat() -> None:
    figures = [
        Figure(name="open, ms", ours=(1.0, 3.0, 20.0), theirs=(2.0, 3.0, 5.0)),
        Figure(name="reads", ours=(2.0, 2.0, 2.0), theirs=(0.0, 0.0, 0.0)),
    ]
    assert [line.split("  ")[0] for line in lines(figures)] == ["", "open, ms", "reads"]
    assert figures[0].cells()[1:] == ["3.000 [1.000..20.0]", "3.000 [2.000..5.000]", "1.000  [0.500 .. 4.000]"]
    assert "nan" in figures[1].cells()[-1]


def _on_disk(folder: Path) -> Path:
    """Return a file of 1 MiB. Skips the test where files have no other place than memory."""
    path = folder / "file"
    path.write_bytes(bytes(1 << 20))
    try:
        cold_reads.drop_pages([path])
    except BenchmarkError:
        pytest.skip("the temporary folder is in memory")
    return path
