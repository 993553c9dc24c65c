from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from crafted import commit_by_hand
from pictures import encode, make_folder, picture

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.verify import verify
from toolkit.errors import ExistsError, NotFoundError, PinMismatchError
from toolkit.format.commit import locked
from toolkit.pack.job import OnExisting, PackJob
from toolkit.pack.run import pack
from toolkit.storage.local import LocalStore


@pytest.fixture
def three(tmp_path: Path) -> tuple[Path, list[str]]:
    """A dataset of three versions, the last one current; and their pins."""
    source = make_folder(tmp_path / "src", {"a": 4, "b": 3})
    pins = []
    for number in range(3):
        (source / f"a/more{number}.jpg").write_bytes(encode(picture(50 + number)))
        job = PackJob(source=str(source), dataset=str(tmp_path / "ds"), on_existing=OnExisting.OVERWRITE)
        pins.append(pack(job).pin)
    return tmp_path / "ds", pins


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.name != ".lock"}


def test_nothing_is_removed_unless_asked(three: tuple[Path, list[str]]) -> None:
    root, pins = three
    before = files(root)
    found = gc(str(root))
    assert files(root) == before
    assert not found.deleted
    assert found.kept == (pins[2],)
    assert f"manifests/{pins[0]}.json" in found.files
    assert found.bytes == sum((root / name).stat().st_size for name in found.files)


def test_kept_versions_stay_whole_and_others_go(three: tuple[Path, list[str]]) -> None:
    root, pins = three
    found = gc(str(root), keep=[pins[0][:12]], delete=True)
    assert files(root).isdisjoint(found.files)
    for pin in (pins[0], pins[2]):
        assert not verify(f"{root}@sha256:{pin}", full=True).findings
        assert (root / "reports" / f"{pin}.provenance.json").exists()
    with pytest.raises(PinMismatchError):
        toolkit.open(f"{root}@sha256:{pins[1]}")
    assert gc(str(root), keep=[pins[0]], delete=True).files == ()


def test_what_a_killed_pack_left_goes_too(three: tuple[Path, list[str]]) -> None:
    root, _ = three
    (root / "shards/train-000009-0123456789abcdef.arrow").write_bytes(b"orphan")
    found = gc(str(root), delete=True)
    assert "shards/train-000009-0123456789abcdef.arrow" in found.files
    assert not verify(root, full=True).findings


def test_it_refuses_when_it_could_harm(three: tuple[Path, list[str]], tmp_path: Path) -> None:
    root, _ = three
    with pytest.raises(PinMismatchError, match="no version with the pin"):
        gc(str(root), keep=["0" * 12], delete=True)
    with locked(LocalStore(str(root))), pytest.raises(ExistsError, match="another pack"):
        gc(str(root), delete=True)
    (root / ".journal").mkdir()
    (root / ".journal/job.json").write_text("{}")
    with pytest.raises(ExistsError, match="unfinished pack"):
        gc(str(root), delete=True)
    with pytest.raises(NotFoundError):
        gc(str(tmp_path / "nowhere"), delete=True)


def test_tables_under_keys_of_a_newer_toolkit_stay(three: tuple[Path, list[str]]) -> None:
    root, _ = three
    hashes = [hashlib.sha256(name).hexdigest() for name in (b"index", b"unnamed")]
    for digest in hashes:
        (root / f"tables/{digest}.arrow").write_bytes(b"x")
    document = json.loads((root / "manifest.json").read_bytes())
    document["row_indexes"] = [{"table": hashes[0]}]
    pin = commit_by_hand(root, document)
    found = gc(str(root), delete=True)
    assert found.kept == (pin,)
    assert (root / f"tables/{hashes[0]}.arrow").exists()
    assert not (root / f"tables/{hashes[1]}.arrow").exists()
    assert not verify(root, full=True).findings


def test_a_copy_without_empty_folders_can_be_collected(three: tuple[Path, list[str]]) -> None:
    root, _ = three
    shutil.rmtree(root / "reports")
    assert len(gc(str(root)).kept) == 1


def test_what_lies_beside_shards_goes_with_them(three: tuple[Path, list[str]]) -> None:
    """Sizes and times of the files that a shard refers to; and where these lie is said for all versions."""
    root, _ = three
    shards = {Path(name) for name in files(root) if name.startswith("shards/")}
    for shard in shards:
        (root / shard).with_suffix(".stat").write_bytes(b"1234")
    (root / "roots.json").write_text("{}")
    kept = {Path(name).name for name in toolkit.open(root).files}
    found = gc(str(root), delete=True)
    gone = {str(shard) for shard in shards if shard.name not in kept}
    assert gone
    assert {name for name in found.files if name.startswith("shards/")} == {
        name for shard in gone for name in (shard, shard.replace(".arrow", ".stat"))
    }
    assert (root / "roots.json").exists()
    assert len(list((root / "shards").iterdir())) == 2 * (len(shards) - len(gone))
    assert found.foreign == ()
