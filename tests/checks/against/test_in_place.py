"""verify(against=...) of datasets that refer to files: by digests, or where nothing was hashed by sizes and times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pictures import encode, make_folder, picture
from sources import tars

import toolkit
from toolkit.checks.verify import VerifyResult, verify


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def counts(result: VerifyResult) -> dict[str, int]:
    assert result.against is not None
    return {what: count for what, count in result.against.counts.items() if count}


def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "photos", {"cat": 3, "dog": 2})


def tar(tmp_path: Path) -> Path:
    names = [(f"{i}.{what}", data) for i in range(4) for what, data in (("jpg", tars.JPEG), ("cls", b"%d" % (i % 2)))]
    return tars.write(tmp_path / "x.tar", tars.tar_bytes(names))


@pytest.mark.parametrize("trust", ["hash", "stat"])
@pytest.mark.parametrize("make", [folder, tar])
def test_what_was_indexed_does_not_differ(tmp_path: Path, trust: str, make: object) -> None:
    source = folder(tmp_path) if make is folder else tar(tmp_path)
    toolkit.index(source, tmp_path / "ds", trust=trust)  # type: ignore[arg-type]
    result = verify(tmp_path / "ds", against=source)
    assert result.against is not None
    assert (result.findings, counts(result)) == ((), {})
    assert ("no byte of a file" in result.against.compared) is (trust == "stat")
    assert ("digests" in result.against.compared) is (trust == "hash")


@pytest.mark.parametrize("trust", ["hash", "stat"])
def test_a_copy_elsewhere(tmp_path: Path, trust: str) -> None:
    """What is compared is another copy, in which a file changed, one is gone, one is new and one has another time."""
    first, second = folder(tmp_path), make_folder(tmp_path / "copy", {"cat": 3, "dog": 2})
    for one in first.rglob("*.jpg"):
        stat = one.stat()
        os.utime(second / one.relative_to(first), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    toolkit.index(first, tmp_path / "ds", trust=trust)  # type: ignore[arg-type]
    assert counts(verify(tmp_path / "ds", against=second)) == {}
    cat, dog = (sorted((second / name).iterdir()) for name in ("cat", "dog"))
    cat[0].write_bytes(encode(picture(99)))
    dog[0].unlink()
    (second / "dog/new.jpg").write_bytes(encode(picture(98)))
    os.utime(cat[1], ns=(1, 1))
    result = verify(tmp_path / "ds", against=second)
    assert counts(result) == {"missing": 1, "changed": 1 if trust == "hash" else 2, "new": 1}


def test_the_root_itself_changed(tmp_path: Path) -> None:
    """Both say so: the reference that it isn't the file any more, and then nothing is compared."""
    source = folder(tmp_path)
    toolkit.index(source, tmp_path / "ds")
    some = next(source.rglob("*.jpg"))
    some.write_bytes(encode(picture(99)))
    result = verify(tmp_path / "ds", against=source, full=True)
    assert [one.place for one in result.findings] == ["reference"]
    assert result.against is None
    assert "the source: what was found comes first" in result.not_checked


def test_the_same_photographs_packed_and_indexed(tmp_path: Path) -> None:
    source = folder(tmp_path)
    toolkit.pack(source, tmp_path / "packed")
    toolkit.index(source, tmp_path / "indexed")
    for name in ("packed", "indexed"):
        assert counts(verify(tmp_path / name, against=source, full=True)) == {}
