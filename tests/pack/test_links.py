"""A dataset from a stranger may hold links: nothing outside its folder is made, written or removed through one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pictures import encode, make_folder, picture

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.verify import verify
from toolkit.cli.main import run
from toolkit.errors import RejectsError, ToolkitError, UsageError
from toolkit.format.commit import Transaction, remove_temporaries
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.pack.run import pack
from toolkit.storage.files import temporary_name, write_durable
from toolkit.storage.local import LocalStore

HEX = "0123456789abcdef" * 4


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "src", {"a": 4, "b": 3})


def job(source: Path, dataset: Path, how: OnExisting = OnExisting.OVERWRITE, **options: object) -> PackJob:
    return PackJob(source=str(source), dataset=str(dataset), on_existing=how, **options)  # type: ignore[arg-type]


@pytest.fixture
def dataset(source: Path, tmp_path: Path) -> Path:
    pack(job(source, tmp_path / "ds"))
    return tmp_path / "ds"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of somebody's, with files that look like a dataset's own."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in (
        "thesis.txt",
        f"{HEX}.json",
        f"{HEX}.arrow",
        f"{HEX}.provenance.json",
        "train-000000-0123456789abcdef.arrow",
        ".tmp-99-x",
        ".tmp-train-000000-0",
    ):
        (folder / name).write_bytes(b"precious")
    (folder / ".tmp-journal").mkdir()
    (folder / ".tmp-journal/kept").write_bytes(b"precious")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def become_link(path: Path, target: Path) -> None:
    if path.is_dir():
        path.rename(path.parent.parent / f"moved-{path.name}")
    path.symlink_to(target)


@pytest.mark.parametrize("name", ["reports", "shards", "tables", "manifests", ".journal"])
@pytest.mark.parametrize("act", ["gc", "temporaries", "overwrite", "append", "abort"])
def test_a_linked_folder_is_refused_and_left_alone(
    dataset: Path, source: Path, elsewhere: Path, name: str, act: str
) -> None:
    before = tree(elsewhere)
    become_link(dataset / name, elsewhere)
    (source / "a/new.jpg").write_bytes(encode(picture(99)))

    def abandoned() -> None:
        with Transaction(LocalStore(str(dataset)), replace=True):
            pass

    acts: dict[str, Callable[[], object]] = {
        "gc": lambda: gc(str(dataset), delete=True),
        "temporaries": lambda: remove_temporaries(LocalStore(str(dataset))),
        "overwrite": lambda: pack(job(source, dataset)),
        "append": lambda: pack(job(source, dataset, OnExisting.APPEND)),
        "abort": abandoned,
    }
    # gc and an append look for a version first: without its tables there is none.
    with pytest.raises(ToolkitError, match=r"symbolic link|no committed version|is missing"):
        acts[act]()
    assert tree(elsewhere) == before
    assert sorted(os.listdir(elsewhere)) == sorted({name.split("/")[0] for name in before})


def test_the_refusal_says_which_link_and_what_to_do(dataset: Path, elsewhere: Path) -> None:
    become_link(dataset / "reports", elsewhere)
    with pytest.raises(UsageError, match=r"'.*/ds/reports' is a symbolic link.*put the folder itself there"):
        gc(str(dataset), delete=True)


@pytest.mark.parametrize("target", ["missing", "file", "folder"])
def test_a_linked_lock_is_refused_and_its_target_is_not_made(
    dataset: Path, source: Path, tmp_path: Path, target: str
) -> None:
    place = tmp_path / "target"
    if target == "file":
        place.write_bytes(b"precious")
    elif target == "folder":
        place.mkdir()
    (dataset / ".lock").unlink(missing_ok=True)
    (dataset / ".lock").symlink_to(place)
    for act in (lambda: gc(str(dataset)), lambda: pack(job(source, dataset))):
        with pytest.raises(UsageError, match=r"\.lock' is a symbolic link"):
            act()
    assert place.exists() == (target != "missing")
    assert target != "file" or place.read_bytes() == b"precious"


def test_a_planted_temporary_is_not_written_through(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "file.json"
    target.write_bytes(b"precious")
    os.symlink(target, temporary_name(str(path)))
    write_durable(str(path), b"new")
    assert target.read_bytes() == b"precious"
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()
    missing = tmp_path / "missing"
    os.symlink(missing, temporary_name(str(path)))
    write_durable(str(path), b"newer")
    assert path.read_bytes() == b"newer"
    assert not missing.exists()


def test_a_hard_link_in_a_temporary_place_keeps_its_content(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "file.json"
    target.write_bytes(b"precious")
    os.link(target, temporary_name(str(path)))
    write_durable(str(path), b"new")
    assert (target.read_bytes(), path.read_bytes()) == (b"precious", b"new")


@pytest.mark.parametrize("planted", ["existing.hashes", "keys.sorted"])
def test_an_unfinished_pack_is_not_gone_on_with_through_planted_links(
    dataset: Path, tmp_path: Path, planted: str
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    more = make_folder(tmp_path / "more", {"a": 3, "b": 2})
    (more / "a/bad.jpg").write_bytes(b"no image")
    with pytest.raises(RejectsError):
        pack(job(more, dataset, OnExisting.APPEND, key_conflict=KeyConflict.SUFFIX))
    for folder in (dataset / ".journal", dataset / ".journal/stage"):
        (folder / planted).symlink_to(target)
    pack(job(more, dataset, OnExisting.APPEND, max_rejects=1, key_conflict=KeyConflict.SUFFIX))
    assert target.read_bytes() == b"precious"
    assert verify(dataset, full=True).findings == ()


def test_a_linked_stage_is_refused(dataset: Path, source: Path, elsewhere: Path) -> None:
    before = tree(elsewhere)
    stopped = job(source, dataset, shuffle_seed=3, key_conflict=KeyConflict.SUFFIX)
    (dataset / ".journal").mkdir()
    (dataset / ".journal/stage").symlink_to(elsewhere)
    (dataset / ".journal/job.json").write_text("{}")
    with pytest.raises(ToolkitError):
        pack(job(source, dataset, OnExisting.APPEND, key_conflict=KeyConflict.SUFFIX))
    pack(stopped)  # overwriting drops the journal, and the link with it
    assert tree(elsewhere) == before
    assert verify(dataset, full=True).findings == ()


def test_only_names_of_the_format_are_collected(dataset: Path, source: Path, elsewhere: Path) -> None:
    notes = {
        dataset / "reports/notes.md",
        dataset / "shards/readme.txt",
        dataset / "tables/mine.arrow",
        dataset / "manifests/copy.json",
        dataset / "shards/.tmp-mine",
    }
    for path in notes:
        path.write_bytes(b"mine")
    (dataset / f"tables/{HEX}.arrow").mkdir()
    (dataset / f"manifests/{HEX}.json").symlink_to(elsewhere / "thesis.txt")
    orphan = dataset / "shards/train-000009-0123456789abcdef.arrow"
    orphan.write_bytes(b"orphan")
    found = gc(str(dataset), delete=True)
    assert found.files == ("shards/train-000009-0123456789abcdef.arrow",)
    assert found.bytes == 6
    assert not orphan.exists()
    assert all(path.exists() for path in notes)
    assert set(found.foreign) == {
        *(str(path.relative_to(dataset)) for path in notes),
        f"tables/{HEX}.arrow",
        f"manifests/{HEX}.json",
    }
    assert (dataset / f"manifests/{HEX}.json").is_symlink()


def test_a_foreign_name_that_begins_like_a_temporary_one_is_not_removed(dataset: Path, source: Path) -> None:
    mine = dataset / ".tmp-mine"
    mine.mkdir()
    (mine / "thesis.txt").write_bytes(b"precious")
    with pytest.raises(UsageError, match=r"holds other files \('\.tmp-mine'\)"):
        pack(job(source, dataset))
    gc(str(dataset), delete=True)
    assert (mine / "thesis.txt").read_bytes() == b"precious"


def test_a_link_to_a_dataset_is_a_dataset(dataset: Path, source: Path, tmp_path: Path) -> None:
    named = tmp_path / "flowers"
    named.symlink_to(dataset)
    (source / "a/new.jpg").write_bytes(encode(picture(99)))
    assert pack(job(source, named)).dataset == str(named)
    assert gc(str(named), delete=True).files
    assert len(toolkit.open(named, split="train")) == 8
    assert verify(named, full=True).findings == ()
    made = tmp_path / "real"
    made.mkdir()
    (tmp_path / "link").symlink_to(made)
    pack(job(source, tmp_path / "link", OnExisting.REFUSE))
    assert (made / "manifest.json").exists()


def test_shards_that_are_links_can_be_read(dataset: Path, tmp_path: Path) -> None:
    """A download cache keeps files elsewhere and links to them: what is read is checked, wherever it lies."""
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, path in enumerate([*dataset.glob("*/*"), dataset / "manifest.json"]):
        path.rename(blobs / str(number))
        path.symlink_to(blobs / str(number))
    assert verify(dataset, full=True).findings == ()
    assert gc(str(dataset), delete=True).files == ()
    assert len(list(blobs.iterdir())) == len(list(dataset.glob("*/*"))) + 1


def become_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("become", [os.mkfifo, become_sparse])
@pytest.mark.parametrize("kept", ["manifest.json", "manifests", "tables", "reports"])
def test_what_lies_in_the_place_of_a_file_is_not_read_to_replace_it(
    source: Path, dataset: Path, kept: str, become: Callable[[Path], object]
) -> None:
    """A pipe was waited for without end, and a file of 2^40 bytes read whole: a MemoryError, or no memory left."""
    place = dataset / kept if kept == "manifest.json" else sorted((dataset / kept).iterdir())[-1]
    names = {path.relative_to(dataset) for path in dataset.rglob("*")}
    place.unlink()
    become(place)
    assert run(["pack", str(source), str(dataset), "--on-existing", "overwrite", "-q"]) == 0
    assert place.is_file()
    assert place.stat().st_size < 1 << 20
    assert {path.relative_to(dataset) for path in dataset.rglob("*")} == names
    assert verify(dataset, full=True).findings == ()
