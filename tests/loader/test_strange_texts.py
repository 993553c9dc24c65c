"""Names, values and numbers that nobody meant: errors and reprs stay short, and nothing in them moves a cursor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import NotFoundError, PipelineError, UsageError
from toolkit.escapes import listed, plain

HUGE = 10**5000
ODD = "\x1b[31mred\nline"


def is_plain(text: str) -> bool:
    return plain(text) == text and len(text) < 4000


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 302 columns, two of odd names."""
    root = tmp_path_factory.mktemp("odd")
    columns = {ODD: [1, 2], "y" * 3000: [1, 2], **{f"c{i:03}": [1, 2] for i in range(300)}}
    pq.write_table(pa.table(columns), root / "in.parquet")
    toolkit.pack(root / "in.parquet", root / "ds")
    return root / "ds"


def test_reprs_are_one_short_line(odd: Path) -> None:
    dataset = toolkit.open(odd)
    shown = repr(dataset)
    assert is_plain(shown)
    assert "\\x1b[31mred\\nline" in shown
    assert "286 more, pin " in shown
    for batch in dataset.loader(batch_size=2):
        assert is_plain(repr(batch))


def test_errors_escape_the_names_there_are(odd: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no column 'zz'; it has ") as missing:
        toolkit.open(odd, columns=["zz"])
    assert is_plain(str(missing.value))
    with pytest.raises(PipelineError, match=r"no column 'zz'; it has ") as unread:
        toolkit.open(odd).loader(toolkit.pipeline(slot("zz")), batch_size=1)
    assert is_plain(str(unread.value))
    for wrong in ("z" * 5000, ODD + "z"):
        with pytest.raises(NotFoundError) as missing:
            toolkit.open(odd, columns=[wrong])
        assert is_plain(str(missing.value))


def test_names_are_listed_up_to_a_number() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "\x07"], 2) == "a, b, 1 more"


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"split": 5}, "split must be a text, got 5"),
        ({"split": ["train"]}, "split must be a text, got "),
        ({"split": HUGE}, "split must be a text, got a int that can't be shown"),
        ({"columns": 5}, "columns takes a list of names, got 5"),
        ({"columns": [5]}, r"columns takes a list of names, got \[5\]"),
        ({"verify": HUGE}, "verify must be one of touch, always, got a int"),
    ],
)
def test_open_names_what_can_not_be(odd: Path, keywords: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}"):
        toolkit.open(odd, **keywords)


@pytest.mark.parametrize("wrong", [HUGE, "x" * 5000], ids=["number", "text"])
def test_arguments_of_steps_are_cut(wrong: Any) -> None:
    image = slot("image").decode_image()
    calls = [
        lambda: image.pad(wrong),
        lambda: image.normalize(wrong),
        lambda: image.hflip(wrong),
        lambda: image.resize(wrong, filter=wrong),
        lambda: slot("x").cast(wrong),
        lambda: slot("x", optional=wrong),
        lambda: slot("x", fill=wrong),
        lambda: toolkit.open("nowhere", verify=wrong),
    ]
    for call in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert len(str(caught.value)) < 400


def test_an_option_of_a_long_name(odd: Path) -> None:
    with pytest.raises(UsageError, match=r"^a loader takes no xxx") as caught:
        toolkit.open(odd).loader(batch_size=1, **{"x" * 5000: 1})  # type: ignore[arg-type]
    assert len(str(caught.value)) < 1000


def test_a_file_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(NotFoundError, match=r"notes\.txt.* is a file and no dataset"):
        toolkit.verify(tmp_path / "notes.txt")


@pytest.mark.parametrize(("rank", "size"), [("9" * 5000, "2"), ("0", "9" * 5000)])
def test_a_launcher_of_too_many_ranks(odd: Path, monkeypatch: pytest.MonkeyPatch, rank: str, size: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    with pytest.raises(UsageError, match="set both to whole numbers") as caught:
        toolkit.open(odd).loader(batch_size=1, remainder="drop")
    assert len(str(caught.value)) < 400
