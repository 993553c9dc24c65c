"""--max-value-bytes: a larger value is rejected by name in every source, where its size is told, unread."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from command import encoded, program
from sources import roxxels, tars

import toolkit
from toolkit.errors import UsageError
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack

MOST = 1000


def parquet(folder: Path) -> None:
    table = {
        "text": ["a" * MOST, "b" * (MOST + 1), None, "d"],
        "data": [b"a", b"b", b"c", bytes(MOST + 1)],
        "many": pa.array([[1.0], [], [2.0], [3.0]], pa.list_(pa.float64())),
    }
    pq.write_table(pa.table(table), folder / "in.parquet")


def parquet_lists(folder: Path) -> None:
    values = [[1.0] * 10, [2.0] * MOST, [3.0], [4.0] * MOST]
    pq.write_table(pa.table({"v": pa.array(values, pa.list_(pa.float64()))}), folder / "in.parquet")


def tfrecord(folder: Path) -> None:
    tfrecords.write(folder / "in.tfrecord", [tfrecords.example(b=[bytes(n)]) for n in (10, MOST, 20, MOST)])


def tar(folder: Path) -> None:
    sizes = (MOST, MOST + 1, 5, MOST + 1)
    tars.write(folder / "in.tar.gz", tars.tar_bytes([(f"{i}.bin", bytes(n)) for i, n in enumerate(sizes)]))


def lines(folder: Path) -> None:
    made = [json.dumps({"text": "x" * n}) for n in (MOST - 12, MOST - 11, 1, MOST)]
    assert [len(one) for one in made[:2]] == [MOST, MOST + 1]
    (folder / "in.jsonl").write_text("\n".join(made))


def texts(folder: Path) -> None:
    for i, n in enumerate((MOST, MOST + 1, 1, MOST + 1)):
        (folder / f"{i}.txt").write_text("x" * n)


def roxxel(folder: Path) -> None:
    data = b"".join(np.full(n, i, np.uint16).tobytes() for i, n in enumerate((MOST // 2, MOST // 2 + 1, 3, MOST)))
    ends = np.cumsum([MOST, MOST + 2, 6, 2 * MOST]).astype("<i8").tobytes()
    footer = struct.pack("<qq8s8s", 4, len(data), b"uint16", b"ROXXEL02")
    (folder / "in.rox").write_bytes(data + ends + footer)


def images(folder: Path) -> None:
    image = encoded(2, 2)
    for i, more in enumerate((MOST - len(image), MOST - len(image) + 1, 0, MOST)):
        (folder / f"{i}.jpg").write_bytes(image + bytes(more))


def packed(folder: Path, **options: object) -> PackResult:
    job = PackJob(source=str(folder / "in"), dataset=str(folder / "out"), **options)  # type: ignore[arg-type]
    return pack(job)


@pytest.mark.parametrize("write", [parquet, parquet_lists, tfrecord, tar, lines, texts, roxxel, images])
def test_larger_values_are_rejected_by_name(write: object, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")  # type: ignore[operator]
    result = packed(tmp_path, max_value_bytes=MOST, max_rejects=2)
    assert result.samples == 2
    assert len(result.rejects) == 2
    for reject, number in zip(result.rejects, "13", strict=True):
        assert number in reject.key or str(int(number) + 1) in reject.key
        assert f"more than a value may have ({MOST})" in reject.reason or "more bytes than" in reject.reason
        assert "--max-value-bytes" in reject.reason


def test_documents_that_an_id_ends_are_measured_across_blocks(tmp_path: Path) -> None:
    eos = 7
    lengths = (100, 400, 3, 2000, 5, 900)
    ids = np.concatenate([np.append(np.ones(n - 1, np.uint16), np.uint16(eos)) for n in lengths])
    (tmp_path / "in").mkdir()
    roxxels.write(tmp_path / "in/in.rox", ids, 16)
    result = packed(tmp_path, max_value_bytes=MOST, max_rejects=9, eos_token=str(eos))
    assert [reject.key for reject in result.rejects] == ["in.rox#3", "in.rox#5"]
    opened = toolkit.open(tmp_path / "out")
    assert [len(opened[i]["tokens"]) for i in range(len(opened))] == [100, 400, 3, 5]


def test_a_small_tar_with_a_huge_member_takes_little_memory(tmp_path: Path) -> None:
    sink = io.BytesIO()
    size = 1 << 30
    info = tarfile.TarInfo("huge.bin")
    info.size = size
    with gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
        file.write(tars.tar_bytes([("small.bin", b"1")]))
    (tmp_path / "x.tar.gz").write_bytes(sink.getvalue())
    code = (
        # Not ru_maxrss, which begins at what the process had that started this one.
        "import sys; from toolkit.cli.main import main\n"
        "try: main()\n"
        "finally: print(*[line for line in open('/proc/self/status') if line.startswith('VmHWM')], file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, "pack", str(tmp_path / "x.tar.gz"), str(tmp_path / "out"), "--max-rejects=1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-2]) < 600 * 1024  # KiB
    assert len(toolkit.open(tmp_path / "out")) == 1


def test_the_option_is_checked_and_known_to_configs_and_the_environment(tmp_path: Path) -> None:
    for wrong in (0, 1 << 31):
        with pytest.raises(UsageError, match="max-value-bytes"):
            PackJob(source="a", dataset="b", max_value_bytes=wrong)
    (tmp_path / "in").mkdir()
    images(tmp_path / "in")
    (tmp_path / "c.yaml").write_text("source: in\ndataset: out\nmax_value_bytes: 1KB\nfollow_links: true\n")
    done = program("pack", "--config", tmp_path / "c.yaml", "--json", "--max-rejects", "2")
    assert done.code == 0, done.err
    assert json.loads(done.out)["options"]["max_value_bytes"] == 1000
    assert json.loads(done.out)["options"]["follow_links"] is True
    done = program("pack", tmp_path / "in", tmp_path / "two", env={"TOOLKIT_MAX_VALUE_BYTES": "1KB"})
    assert done.code == 3
    assert "1001 bytes are more than a value may have (1000)" in done.err
