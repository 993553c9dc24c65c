"""What a verification says of datasets whose sums all agree and that still contradict themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command import program
from crafted import Batch, Crafted, Shard
from format.pure_arrow import Damaged
from format.pure_reader import PureReader

import toolkit
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import VerifyResult, verify
from toolkit.errors import CorruptShardError
from toolkit.pack.tokens import pack_tokens


def full(root: Path) -> VerifyResult:
    return verify(root, full=True)


def with_column(crafted: Crafted, split: str, name: str, change: Callable[[list], list]) -> None:
    """Change the values of a column of the first record batch."""
    rows = crafted.batch(split).records(crafted.schema)
    at = rows.schema.get_field_index(name)
    array = pa.array(change(rows.column(at).to_pylist()), rows.schema.types[at])
    crafted.shard(split).batches[0] = Batch.of(rows.set_column(at, rows.schema.field(at), array))


@pytest.mark.parametrize("rows", [1000, 1])
def test_a_table_with_other_rows_than_its_batch(dataset: Path, tmp_path: Path, rows: int) -> None:
    """1,000 over 3, and 1 over 3, which was an epoch cut short in silence."""
    crafted = Crafted.of(dataset)
    batch = crafted.batch("train")
    assert batch.rows == 3
    batch.line["rows"] = min(rows, len(batch.body) // 16)
    labels = crafted.manifest["splits"]["train"]["labels"]["label"]
    labels["counts"][0] += batch.line["rows"] - 3
    crafted.write(tmp_path / "crafted")
    (finding,) = [one for one in full(tmp_path / "crafted").findings if one.shard]
    assert finding.place == "record batch 0"
    assert "3 rows, its shard table says" in finding.message
    with (
        toolkit.open(tmp_path / "crafted", split="train").loader(batch_size=4) as loader,
        pytest.raises(CorruptShardError, match="3 rows, its shard table says"),
    ):
        list(loader)


def test_keys_that_come_twice(dataset: Path, tmp_path: Path) -> None:
    """In one record batch, and in two splits."""
    for split, keys in (("train", lambda old: [old[0], old[0], *old[2:]]), ("val", lambda old: [old[0], *old[1:]])):
        crafted = Crafted.of(dataset)
        first = toolkit.open(dataset, split="train").keys()[0]
        change = keys if split == "train" else lambda old, first=first: [first, *old[1:]]
        with_column(crafted, split, "__key__", change)
        crafted.write(tmp_path / split)
        (finding,) = full(tmp_path / split).findings
        assert (finding.kind, finding.key, finding.split) == ("integrity", first, split)
        assert "the key of split train, row 0 as well" in finding.message
        assert verify(tmp_path / split).findings == ()


@pytest.mark.parametrize("label", [-1, 2, 2**40, -(2**63)])
def test_labels_outside_of_their_table(dataset: Path, tmp_path: Path, label: int) -> None:
    crafted = Crafted.of(dataset)
    with_column(crafted, "train", "label", lambda old: [label, *old[1:]])
    crafted.write(tmp_path / "crafted")
    found = full(tmp_path / "crafted").findings
    assert (found[0].row, found[0].kind) == (0, "integrity")
    assert f"column label has the label {label}, and its label table 2 names" in found[0].message
    # Nobody shows another class for it.
    (first,) = (one for one in inspect(str(tmp_path / "crafted")).first if one.split == "train" and one.row == 0)
    assert first.labels == {"label": f"{label}, no class"}
    line = program("head", tmp_path / "crafted", "--split", "train", "-n", "1").out
    assert json.loads(line)["label"] == {"id": label, "name": None}
    ds = toolkit.open(tmp_path / "crafted", split="train")
    with pytest.raises(CorruptShardError, match=f"the label {label} of label is none of 2 classes"):
        ds.loader(batch_size=2, weights="balanced")


def test_labels_that_are_counted_wrong(dataset: Path, tmp_path: Path) -> None:
    crafted = Crafted.of(dataset)
    crafted.manifest["splits"]["train"]["labels"]["label"]["counts"] = [12, 0]
    crafted.write(tmp_path / "crafted")
    (finding,) = full(tmp_path / "crafted").findings
    assert "the classes of column label occur otherwise" in finding.message


@pytest.fixture
def tokens(tmp_path: Path) -> Crafted:
    documents = [np.append(np.arange(length, dtype=np.uint16), np.uint16(49)) for length in (5, 3, 40)]
    pack_tokens([one[:-1] for one in documents], tmp_path / "tokens", vocabulary=50, eos=49)
    assert full(tmp_path / "tokens").findings == ()
    return Crafted.of(tmp_path / "tokens")


def ids_of(batch: Batch) -> np.ndarray:
    return batch.numbers(len(batch.buffers) - 1, "<u2")


@pytest.mark.parametrize(
    ("place", "value", "row", "says"),
    [
        (7, 50, 1, "a token beyond the vocabulary of 50"),
        (0, 65535, 0, "a token beyond the vocabulary of 50"),
        (5, 1, 0, "a document without the end-of-text token 49"),
        (-1, 1, 2, "a document without the end-of-text token 49"),
    ],
)
def test_tokens_that_are_none(tokens: Crafted, tmp_path: Path, place: int, value: int, row: int, says: str) -> None:
    batch = tokens.batch()
    ids = ids_of(batch)
    ids[place] = value
    batch.put(len(batch.buffers) - 1, ids)
    tokens.write(tmp_path / "crafted")
    (finding,) = full(tmp_path / "crafted").findings
    assert finding.row == row
    assert says in finding.message


def test_more_tokens_than_the_table_says(tokens: Crafted, tmp_path: Path) -> None:
    tokens.batch().line["tokens"] = 52
    tokens.write(tmp_path / "crafted")
    (finding,) = full(tmp_path / "crafted").findings
    assert finding.place == "record batch 0"
    assert "51 tokens, its shard table says 52" in finding.message


@pytest.mark.parametrize("said", [0, 8, 50])
def test_documents_of_more_tokens_than_the_table_says(tokens: Crafted, tmp_path: Path, said: int) -> None:
    tokens.batch().line["tokens"] = said
    tokens.write(tmp_path / "crafted")
    ended = program("inspect", tmp_path / "crafted")
    assert ended.code == 4
    assert f"51 tokens, its shard table says {said}" in ended.err
    if said:
        with pytest.raises(CorruptShardError, match=f"51 tokens, its shard table says {said}"):
            list(toolkit.open(tmp_path / "crafted").tokens(seq_len=8, batch_size=2, pack="best"))


@pytest.mark.parametrize("offsets", [[0, 6, 10, 50], [1, 6, 10, 51], [0, 10, 6, 51], [0, -1, 2**62, 51]])
def test_documents_that_leave_tokens_out(tokens: Crafted, tmp_path: Path, offsets: list[int]) -> None:
    batch = tokens.batch()
    batch.put(len(batch.buffers) - 3, np.array(offsets, "<i8"))
    tokens.write(tmp_path / "crafted")
    assert full(tmp_path / "crafted").findings
    with pytest.raises(Damaged, match=r"^(value|digest): "):
        list(PureReader(tmp_path / "crafted").samples("train"))
    stream = toolkit.open(tmp_path / "crafted").tokens
    with pytest.raises(CorruptShardError, match="offsets point outside"):
        list(stream(seq_len=16, batch_size=2, pack="best"))
    assert program("inspect", tmp_path / "crafted").code == 4


def test_a_shard_that_says_other_things_to_others(dataset: Path, tmp_path: Path) -> None:
    """Other readers believe the schema message and the footer."""

    def swapped(shard: Shard, crafted: Crafted) -> None:
        shard.footer = Shard(shard.path, shard.schema, shard.batches[::-1]).encoded()[0][-400:]

    def another_schema(shard: Shard, crafted: Crafted) -> None:
        fields = crafted.schema.set(3, pa.field("label", pa.uint64()))
        shard.schema = fields.serialize().to_pybytes()

    def without_footer(shard: Shard, crafted: Crafted) -> None:
        shard.footer = b"nothing"

    for change in (swapped, another_schema, without_footer):
        crafted = Crafted.of(dataset)
        change(crafted.shard("train"), crafted)
        crafted.write(tmp_path / "crafted")
        (finding,) = full(tmp_path / "crafted").findings
        assert "schema" in finding.message or "footer" in finding.message


def test_what_is_not_looked_at_is_said(dataset: Path, tokens: Crafted, tmp_path: Path) -> None:
    quick = verify(dataset)
    assert [one.rpartition(" ")[2] for one in quick.not_checked] == [*["(--full)"] * 3, "(--decode)"]
    assert verify(dataset, full=True, decode=True).not_checked == ()
    assert verify(dataset, full=True).not_checked == ("whether images can be decoded (--decode)",)
    assert any("vocabulary" in one for one in verify(tmp_path / "tokens").not_checked)
    ran = program("verify", dataset)
    assert ran.code == 0
    assert "not looked at: the bytes of every sample" in ran.out
    assert json.loads(program("verify", dataset, "--json").out)["not_checked"] == list(quick.not_checked)
