"""A file that was put in another's place, with its size and time: no resume and no second read may take it for that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import parquet_inputs
import pytest
import tfrecords
from pictures import encode, picture
from sources import tars
from waiting import tick

import toolkit
from toolkit.errors import SourceError
from toolkit.pack import run
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.sources.make import make_source


def parquet(path: Path, text: str) -> Path:
    return parquet_inputs.write(path.with_suffix(".parquet"), {"text": [text]})


def tfrecord(path: Path, text: str) -> Path:
    return tfrecords.write(path.with_suffix(".tfrecord"), [tfrecords.example(text=[text.encode()])])


def tar(path: Path, text: str) -> Path:
    return tars.write(path.with_suffix(".tar"), tars.tar_bytes([(f"{path.stem}.txt", text.encode())]))


Writer = Callable[[Path, str], Path]


def replace(write: Writer, path: Path, text: str) -> None:
    """Write other content to `path`, of the same size and time: only the change time and the inode tell."""
    tick(path.parent.with_name("other"))
    status = path.stat()
    shutil.copy(write(path.parent.with_name("other") / path.name, text), path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def stopped(job: PackJob) -> None:
    """Pack every slice and commit nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pack(job)


@pytest.mark.parametrize("write", [parquet, tfrecord, tar])
def test_a_resume_reads_it_again(write: Writer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    first, second = (write(tmp_path / "in" / name, text) for name, text in (("1", "aaaa"), ("2", "bbbb")))
    job = PackJob(source=str(tmp_path / "in"), dataset=str(tmp_path / "ds"))
    stopped(job)
    replace(write, first, "cccc")
    result = pack(job)
    ds = toolkit.open(tmp_path / "ds")
    (column,) = ds.columns
    assert [ds[i][column.name] for i in range(2)] == ["cccc", "bbbb"]
    assert result.resumed == 1
    assert second.exists()


def test_a_resume_reads_an_image_again(tmp_path: Path) -> None:
    first, second = (encode(picture(number, 8, 8), "BMP") for number in range(2))
    path = tmp_path / "in/ant/1.bmp"
    path.parent.mkdir(parents=True)
    path.write_bytes(first)
    job = PackJob(source=str(tmp_path / "in"), dataset=str(tmp_path / "ds"))
    stopped(job)
    tick(tmp_path)
    status = path.stat()
    path.write_bytes(second)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = path.stat()
    assert (now.st_size, now.st_mtime_ns, now.st_ino) == (status.st_size, status.st_mtime_ns, status.st_ino)
    assert pack(job).resumed == 0
    assert toolkit.open(tmp_path / "ds")[0]["image"] == second


@pytest.mark.parametrize("write", [parquet, tfrecord, tar])
def test_a_pack_that_finds_it_stops(write: Writer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    path = write(tmp_path / "in/1", "aaaa")
    _, source = make_source(None, PackJob(source=str(path), dataset=str(tmp_path / "ds")).source_options)
    survey = source.survey()
    replace(write, path, "cccc")
    with pytest.raises(SourceError, match="was changed during the pack"):
        list(source.read(survey, survey.slices[0]))
