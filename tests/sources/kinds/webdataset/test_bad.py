from __future__ import annotations

import builtins
import io
import json
import os
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import program
from pictures import NO_PICTURE
from sources.tars import JPEG, job, numpy_file, packed, rejects, samples, tar_bytes, write

import toolkit
from toolkit.errors import RejectsError, SourceError, UsageError
from toolkit.pack.job import KeyConflict
from toolkit.pack.run import pack
from toolkit.sources.kinds.webdataset.source import WebDatasetSource
from toolkit.sources.kinds.webdataset.tar import looks_like_tar
from toolkit.sources.options import Missing, SourceOptions


def test_names_that_lead_outside_are_rejected(tmp_path: Path) -> None:
    items = [
        ("../x.txt", b"0"),
        ("a.txt", b"1"),
        ("/etc/passwd.txt", b"2"),
        ("b/../../c.txt", b"3"),
        ("../passwd", b"4"),
        ("/shadow", b"5"),
        ("d..e.txt", b"6"),
    ]
    source = write(tmp_path / "deep/src/x.tar", tar_bytes(items, format="gnu"))
    before = sorted(tmp_path.rglob("*"))
    assert rejects(source, tmp_path / "ds", columns=("txt",), missing=Missing.NULL) == {
        "x": "its member '../x.txt' leads outside the archive",
        "etc/passwd": "its member '/etc/passwd.txt' leads outside the archive",
        "b/c": "its member 'b/../../c.txt' leads outside the archive",
        "passwd": "its member '../passwd' leads outside the archive",
        "shadow": "its member '/shadow' leads outside the archive",
    }
    assert [path for path in sorted(tmp_path.rglob("*")) if tmp_path / "ds" not in (path, *path.parents)] == before
    opened = toolkit.open(tmp_path / "ds")
    assert [opened[i]["__key__"] for i in range(len(opened))] == ["a", "d"]


def test_samples_with_bad_parts_are_rejected(tmp_path: Path) -> None:
    objects = io.BytesIO()
    np.save(objects, np.array([{}], object), allow_pickle=True)
    newer = b"\x93NUMPY\x04\x00" + bytes(200)
    named = io.BytesIO()
    named_array = np.zeros(2, [("日", "<f4")])
    with pytest.warns(UserWarning, match=r"format 3\.0"):
        np.save(named, named_array)
    good = numpy_file(np.arange(3))
    items = [
        ("00.jpg", JPEG),
        ("01.jpg", b"no image"),
        ("02.jpg", b""),
        ("03.jpg", JPEG[:20]),
        ("04.cls", b"one"),
        ("05.cls", b"9223372036854775808"),
        ("06.cls", b""),
        ("07.cls", b"-9223372036854775808"),
        ("08.json", b'{"a":'),
        ("09.json", b"\xff{}"),
        ("10.json", b"[" * 200_000),
        ("11.json", b" [1, NaN] "),
        ("12.txt", b"ok\xff"),
        ("13.txt", "\ufeffé\0".encode()),
        ("14.npy", objects.getvalue()),
        ("15.npy", good[:-1]),
        ("16.npy", b"not numpy"),
        ("17.npy", newer),
        ("18.npy", good + b"x"),
        ("19.npy", b""),
        ("20.npy", named.getvalue()),
        ("21.npy", good.replace(b"(3,)", b"(9e9,)")[: len(good)]),
        ("22.npy", numpy_file(np.float32(1))),
        ("23.npy", named.getvalue()[:-1]),
        ("24.txt", b"1"),
        ("24.TXT", b"2"),
        ("25.npy", good.replace(b"'<i8'", b"'|O8'")),
    ]
    source = write(tmp_path / "x.tar", tar_bytes(items))
    found = rejects(source, tmp_path / "ds", missing=Missing.NULL)
    assert sorted(found) == sorted({f"{i:02d}" for i in range(26)} - {"00", "07", "13", "20", "22"})
    for key, reason in {
        "01": f"jpg: {NO_PICTURE}",
        "02": "jpg: empty file",
        "04": "cls: 'one' is no 64-bit integer; if it names a class, give the names of all with --classes",
        "06": "cls: '' is no 64-bit integer",
        "12": "txt: not UTF-8 text at byte 2",
        "14": "npy: a NumPy file of Python objects, which can't be read safely",
        "15": "npy: a NumPy file of 23 bytes for the shape (3,) of int64",
        "24": "two of its members have the extension txt",
    }.items():
        assert found[key] == reason
    assert found["08"].startswith("json: no valid JSON: ")
    with pytest.raises(RejectsError, match="21 samples rejected, 0 allowed"):
        pack(job(source, tmp_path / "no", missing=Missing.NULL))
    opened = toolkit.open(tmp_path / "ds")
    got = {opened[i]["__key__"]: opened[i] for i in range(len(opened))}
    assert got["13"]["txt"] == "\ufeffé\0"
    assert got["07"]["label"] == -(1 << 63)


def test_names_that_are_not_utf8_are_rejected(tmp_path: Path) -> None:
    source = write(tmp_path / "x.tar", tar_bytes([("a.txt", b"1"), ("b\udcff.txt", b"2")], format="gnu"))
    result = pack(job(source, tmp_path / "ds", max_rejects=1))
    (reject,) = result.rejects
    assert reject.key == "b\\xff"
    assert reject.reason == "its member 'b\\udcff.txt' has a name that is not valid UTF-8"
    assert reject.source == f"{source}, sample at byte 1024"


def test_a_part_of_more_than_two_gibibytes_is_rejected_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    info = tarfile.TarInfo("a.bin")
    info.size = 1 << 31
    with open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.seek(1 << 31, io.SEEK_CUR)  # a hole: takes no room on the disk
        file.write(tar_bytes([("b.bin", b"1")]))
    reader = WebDatasetSource(SourceOptions(paths=(str(path),), slice_bytes=1 << 40))
    survey = reader.survey()
    rows = list(reader.read(survey, survey.slices[0]))
    assert [reject.reason for one in rows for reject in one.rejects] == [
        "bin: 2147483648 bytes are more than a value may have (268435456); --max-value-bytes says how many"
    ]
    assert [row for one in rows for row in one.batch.to_pylist()] == [{"__key__": "b", "bin": b"1"}]


def test_truncated_or_damaged_tars_commit_nothing(tmp_path: Path) -> None:
    data = tar_bytes(samples(4))
    write(tmp_path / "src/0.tar", data)
    for name, bad in {
        "1.tar": data[:9000],
        "1.tar.gz": b"",
        "1.tar.zst": b"\x28\xb5\x2f\xfdnonsense",
        "1.tgz": b"\x1f\x8bnonsense",
    }.items():
        path = tmp_path / "src" / name
        path.write_bytes(bad)
        with pytest.raises(SourceError, match=re.escape(repr(str(path)))):
            pack(job(tmp_path / "src", tmp_path / "ds"))
        assert not (tmp_path / "ds/manifest.json").exists()
        assert pack(job(tmp_path / "src", tmp_path / name, exclude=("1.*",))).samples == 4
        path.unlink()


def test_a_tar_that_changes_after_the_survey_is_refused(tmp_path: Path) -> None:
    for suffix in (".tar", ".tar.gz"):
        path = write(tmp_path / f"x{suffix}", tar_bytes(samples(4)))
        reader = WebDatasetSource(SourceOptions(paths=(str(path),), slice_bytes=1 << 20))
        survey = reader.survey()
        list(reader.read(survey, survey.slices[0]))
        write(path, tar_bytes(samples(4, start=1)))
        os.utime(path, ns=(1, 1))
        with pytest.raises(SourceError, match="changed during the pack"):
            list(reader.read(survey, survey.slices[0]))


def test_members_of_a_sample_that_lie_apart_are_told(tmp_path: Path) -> None:
    apart = [("a.jpg", JPEG), ("b.jpg", JPEG), ("a.cls", b"1"), ("b.cls", b"2")]
    path = write(tmp_path / "x.tar", tar_bytes(apart))
    for missing in Missing:
        with pytest.raises(SourceError, match=r"x\.tar.*'a' lie apart: jpg at byte 0, cls at byte \d+.*--sort=name"):
            pack(job(path, tmp_path / "ds", missing=missing))
    # A sample that is there twice is whole each time: another matter.
    twice = write(tmp_path / "y.tar", tar_bytes([("a.jpg", JPEG), ("b.jpg", JPEG), ("a.jpg", JPEG)]))
    assert pack(job(twice, tmp_path / "twice", key_conflict=KeyConflict.SUFFIX)).renamed == 1


def test_zstd_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.tar.zst", tar_bytes(samples(1)))
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.delitem(sys.modules, "zstandard", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match="pip install zstandard"):
        pack(job(path, tmp_path / "ds"))
    assert looks_like_tar(str(path))


def test_an_empty_tar_beside_others_is_fine(tmp_path: Path) -> None:
    write(tmp_path / "src/0.tar", tar_bytes([]))
    write(tmp_path / "src/1.tar", tar_bytes([("a.txt", b"1")]))
    write(tmp_path / "src/2.tar.gz", tar_bytes([]))
    assert len(packed(tmp_path / "src", tmp_path / "ds")) == 1
    with pytest.raises(SourceError, match=r"no sample in .*passed over 1 empty"):
        pack(job(tmp_path / "src/0.tar", tmp_path / "no"))
    write(tmp_path / "src/3.tar", tar_bytes([("noext", b"1"), ("__x__", b"")]))
    with pytest.raises(SourceError, match="passed over 1 meta, 1 no_extension"):
        pack(job(tmp_path / "src/3.tar", tmp_path / "no"))


def test_tars_that_may_lack_members_are_named(tmp_path: Path) -> None:
    for number in range(14):
        whole = tar_bytes([(f"{number}/{i}.txt", b"x") for i in range(4)])
        write(tmp_path / f"src/{number:02d}.tar", whole[:2048] if number > 1 else whole)
    write(tmp_path / "src/14.tar.gz", tar_bytes([("z.txt", b"x")])[:1024] + bytes(1 << 20))
    write(tmp_path / "src/15.tar", tar_bytes([("y.txt", b"x")]) + b"member?")
    for options in (["--dry-run", "-q"], ["-q"], ["--json", "-q", "--on-existing", "overwrite"]):
        ended = program("pack", tmp_path / "src", tmp_path / "ds", *options)
        assert ended.code == 0
        cut, zeros, other = ended.err.splitlines()
        first, last = (repr(str(tmp_path / f"src/{number}.tar")) for number in ("02", "11"))
        assert cut.startswith(f"warning: {first}, ")
        assert f"{last} and 2 more: no end-of-archive marker" in cut
        assert zeros.startswith(f"warning: {str(tmp_path / 'src/14.tar.gz')!r}: many zeros behind the end")
        assert other.startswith(f"warning: {str(tmp_path / 'src/15.tar')!r}: bytes behind the end")
    document = json.loads(ended.out)
    assert (document["samples"], document["warnings"]) == (
        2 * 4 + 12 * 2 + 2,
        [line.removeprefix("warning: ") for line in (cut, zeros, other)],
    )
    # A limit that is reached before the end leaves the end unread.
    longer = write(tmp_path / "longer.tar", tar_bytes([(f"{i}.txt", b"x") for i in range(3)])[:3072])
    assert program("pack", longer, tmp_path / "one", "-q", "--limit", "1").err == ""
