"""Lies that agree with every hash up to the pin: refused with the words that lead to the place, by both readers.

`tests/format/test_contract.py` has the numbers that can't be at all; here each could be, and is only not so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crafted import Batch, Crafted, ShardTable, edited_table
from format.pure_arrow import Damaged
from format.pure_reader import PureReader

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, CorruptTableError, FormatError, ToolkitError

Lie = Callable[[Crafted], object]


@pytest.fixture
def crafted(dataset: Path) -> Crafted:
    """The dataset, each shard of `train` in a shard table of its own."""
    crafted = Crafted.of(dataset)
    (table,) = crafted.splits["train"]
    crafted.splits["train"] = [ShardTable([shard]) for shard in table.shards]
    assert [len(table.shards[0].batches) for table in crafted.splits["train"]] == [4, 1]
    return crafted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "crafted"


def ours(root: Path, row: int = 0, split: str = "train") -> str:
    """What toolkit says when it opens the dataset and reads a row."""
    with pytest.raises((CorruptTableError, CorruptShardError)) as caught:
        toolkit.open(root, split=split)[row]
    return str(caught.value)


def theirs(root: Path, row: int = 0, split: str = "train") -> str:
    """What the pure reader says to the same."""
    with pytest.raises(Damaged) as caught:
        PureReader(root).row(split, row)
    return str(caught.value)


def verified(root: Path, *, full: bool = True) -> str:
    """What a verification finds, or why there was none."""
    try:
        return "\n".join(finding.message for finding in verify(root, full=full, jobs=1).findings)
    except ToolkitError as error:
        return str(error)


def has(text: str, *words: str) -> bool:
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} not in {text!r}"
    return True


def test_a_dataset_of_two_tables_is_good(crafted: Crafted, root: Path) -> None:
    crafted.write(root)
    assert verified(root) == ""
    pure = list(PureReader(root).samples("train"))
    assert [sample["__key__"] for sample in pure] == toolkit.open(root, split="train").keys()


# --- a message whose table entry lies -------------------------------------------------------------------------------


def more_rows(crafted: Crafted) -> None:
    first, second = crafted.shard("train").batches[:2]
    first.line["rows"], second.line["rows"] = first.rows + 1, second.rows - 1


def smaller_body(crafted: Crafted) -> None:
    batch = crafted.batch("train")
    batch.line["body_bytes"] = len(batch.body) - 8


def more_tokens(crafted: Crafted) -> None:
    crafted.batch("train").line["tokens"] = 3


def another_hash(crafted: Crafted) -> None:
    crafted.batch("train").line["metadata_sha256"] = bytes(32)


def hash_of_another_message(crafted: Crafted) -> None:
    batches = crafted.shard("train").batches
    batches[0].line["metadata_sha256"] = hashlib.sha256(batches[1].encoded()).digest()


@pytest.mark.parametrize(
    ("lie", "toolkits", "pures"),
    [
        (
            more_rows,
            "record batch 0 contradicts its shard table: 3 rows, its shard table says 4. No copy of it is right",
            "3 rows, ",
        ),
        (smaller_body, "a body of 15704 bytes, its shard table says 15696", "15704 body_bytes, "),
        (more_tokens, "0 tokens, its shard table says 3", "0 tokens, "),
        (another_hash, "the metadata of record batch 0 has changed since it was packed", "another sha256"),
        (hash_of_another_message, "the metadata of record batch 0 has changed since it was packed", "another sha256"),
    ],
)
def test_a_record_batch_that_its_table_entry_lies_about(
    crafted: Crafted, root: Path, lie: Lie, toolkits: str, pures: str
) -> None:
    good = [sample["__key__"] for sample in toolkit.open(rewritten(crafted, root), split="train")]
    lie(crafted)
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), f"shard {name}: ", toolkits)
    assert has(theirs(root), "message: ", f"record batch 0 of {name}", pures)
    assert has(verified(root), f"shard {name}: ", toolkits)
    last = len(good) - 1
    assert toolkit.open(root, split="train")[last]["__key__"] == good[last]
    assert PureReader(root).row("train", last)["__key__"] == good[last]


def rewritten(crafted: Crafted, root: Path) -> Path:
    crafted.write(root)
    return root


@pytest.mark.parametrize("more", [-8, 8])
def test_a_message_of_another_length_than_its_table_entry_says(crafted: Crafted, root: Path, more: int) -> None:
    """The hash is that of the bytes that the entry gives; the last record batch has room behind it."""
    batch = crafted.shard("train", table=1).batches[-1]
    message = batch.encoded()
    stated = (message + bytes(batch.body))[: len(message) + more]
    batch.line |= {"metadata_bytes": len(stated), "metadata_sha256": hashlib.sha256(stated).digest()}
    crafted.write(root)
    name = crafted.shard("train", table=1).path
    row = sum(one.rows for one in crafted.shard("train").batches)
    assert has(ours(root, row), f"shard {name}: record batch 0 has unreadable metadata: no encapsulated message")
    assert has(theirs(root, row), "arrow: message prefix", f"record batch 0 of {name}")


def test_tokens_that_a_table_lies_about(tmp_path: Path, root: Path) -> None:
    """The sums agree: of two record batches, one has as many more as the other has less."""
    import token_oracle

    token_oracle.write(tmp_path / "tokens", token_oracle.documents(40, 300))
    crafted = Crafted.of(tmp_path / "tokens")
    first, second = crafted.shard("train").batches[:2]
    told = [line["tokens"] for line in PureReader(tmp_path / "tokens").shards_of("train", 0)[0]["batches"]]
    first.line["tokens"], second.line["tokens"] = told[0] - 1, told[1] + 1
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), f"shard {name}: record batch 0", f"{told[0]} tokens, its shard table says {told[0] - 1}")
    assert has(theirs(root), f"message: record batch 0 of {name} has {told[0]} tokens")
    with pytest.raises(CorruptShardError, match=f"{told[0]} tokens, its shard table says {told[0] - 1}"):
        list(toolkit.open(root).tokens(batch_size=2, seq_len=16))


# --- a head that lies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["shorter", "longer", "none", "body"])
def test_a_head_that_its_table_entry_lies_about(crafted: Crafted, root: Path, said: str) -> None:
    batch = crafted.batch("train")
    head = PureReader(rewritten(crafted, root)).shards_of("train", 0)[0]["batches"][0]["head_bytes"]
    lie = {"shorter": head - 8, "longer": head + 8, "none": 0, "body": len(batch.body)}[said]
    batch.line["head_bytes"] = lie
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), f"shard {name}: record batch 0", f"a head of {head} bytes, its shard table says {lie}")
    assert has(theirs(root), f"message: record batch 0 of {name} has {head} head_bytes, its shard table says {lie}")
    assert has(verified(root), f"a head of {head} bytes, its shard table says {lie}")


@pytest.mark.parametrize("said", [-8, "body + 8"])
def test_a_head_that_is_no_part_of_its_body(crafted: Crafted, root: Path, said: int | str) -> None:
    batch = crafted.batch("train")
    batch.line["head_bytes"] = len(batch.body) + 8 if said == "body + 8" else said
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), "split 'train', table ", f"shard {name}: the head of a record batch is no part of its body")
    assert has(theirs(root), "table: head_bytes of record batch 0", name, "shard table 0 of split train")


@pytest.mark.parametrize("number", [1, 2, 4, 6, 8])
def test_a_small_value_that_lies_behind_the_head(crafted: Crafted, root: Path, number: int) -> None:
    """Offsets and data of keys, digests, labels, heights: whoever reads only the head would not find them."""
    batch = crafted.batch("train")
    data = batch.buffer(number)
    batch.body += bytes(-len(batch.body) % 8)
    batch.buffers[number] = [len(batch.body), len(data)]
    batch.body += data + bytes(-len(data) % 8)
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), f"shard {name}: record batch 0", "a buffer of its head lies behind it")
    assert has(theirs(root), f"head: buffer {number} ends behind the head", f"record batch 0 of {name}")


# --- a reference whose sums lie -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "what"),
    [("rows", "rows"), ("bytes", "bytes"), ("shards", "shards"), ("batches", "record batches"), ("tokens", "tokens")],
)
def test_a_reference_whose_sums_lie(crafted: Crafted, root: Path, key: str, what: str) -> None:
    """What a split adds up to is true: of two tables, one has as much more as the other has less."""
    refs = PureReader(rewritten(crafted, root)).manifest["splits"]["train"]["tables"]
    less = 1 if key in ("shards", "tokens") else -1  # the second table has no tokens, and one shard
    for table, ref, more in zip(crafted.splits["train"], refs, (1, less), strict=True):
        table.ref[key] = ref[key] + more
    pin = crafted.write(root)
    refs = PureReader(root, pin).manifest["splits"]["train"]["tables"]
    looked = [(0, 0, -1), (11, 1, -less)]
    for row, number, more in looked[
        : 1 if key == "rows" else 2
    ]:  # by rows that lie, the last one is in the first table
        ref = refs[number]
        text = f"it has {ref[key] + more} {what}, the manifest says {ref[key]}"
        assert has(ours(root, row), "split 'train', table", ref["sha256"], text)
        words = (f"table: shard table {number} of split train (tables/{ref['sha256']}.arrow) has", key)
        assert has(theirs(root, row), *words, f"the manifest says {ref[key]}")
    for full in (False, True):
        assert has(verified(root, full=full), "split 'train', table", what)


@pytest.mark.parametrize("key", ["rows", "bytes"])
def test_references_that_do_not_make_their_split(crafted: Crafted, root: Path, key: str) -> None:
    crafted.say("splits", "train", "tables", 0, key, value=7)
    crafted.write(root)
    assert has(ours(root), "manifest.json contradicts itself: split 'train' has")
    assert has(theirs(root), f"manifest: {key} of split train are not those of its tables")


def test_tables_in_another_order_than_their_sums(crafted: Crafted, root: Path) -> None:
    refs = PureReader(rewritten(crafted, root)).manifest["splits"]["train"]["tables"]
    for number, other in ((0, 1), (1, 0)):
        crafted.say("splits", "train", "tables", number, "sha256", value=refs[other]["sha256"])
    crafted.write(root)
    assert has(ours(root), "split 'train', table", "shards" if refs[0]["shards"] != refs[1]["shards"] else "batches")
    assert has(theirs(root), "table: shard table 0 of split train")


# --- shard tables ---------------------------------------------------------------------------------------------------


def of_shards(crafted: Crafted, count: int) -> None:
    """Let the split have one table, whose only shard it names so many times."""
    (shard,) = crafted.splits["train"].pop().shards
    crafted.splits["train"] = [ShardTable([shard], edit=edited_table(lambda one: pa.concat_tables([one] * count)))]
    rows, nbytes = sum(batch.rows for batch in shard.batches) * count, len(shard.encoded()[0]) * count
    crafted.splits["train"][0].ref = {"shards": count, "batches": count, "rows": rows, "bytes": nbytes}
    crafted.say("splits", "train", "rows", value=rows)
    crafted.say("splits", "train", "labels", "label", value={"counts": [rows, 0], "missing": 0})


def test_a_table_of_as_many_shards_as_it_may_have(crafted: Crafted, root: Path) -> None:
    of_shards(crafted, 4096)
    crafted.write(root)
    rows = len(toolkit.open(root, split="train"))
    assert toolkit.open(root, split="train")[rows - 1]["__key__"]
    assert PureReader(root).row("train", rows - 1)["__key__"]


@pytest.mark.parametrize("said", [4097, 4096])
def test_a_table_of_one_shard_more(crafted: Crafted, root: Path, said: int) -> None:
    """Refused when the dataset is opened; or, where its reference lies as well, when it is read."""
    of_shards(crafted, 4097)
    crafted.splits["train"][0].ref["shards"] = said
    crafted.write(root)
    if said == 4097:
        with pytest.raises(CorruptTableError, match=r"split 'train' has a table of 4097 shards, and 4096 are the most"):
            toolkit.open(root, split="train")
        assert has(theirs(root), "manifest: shards of table 0 of split train is 4097")
    else:
        assert has(ours(root), "split 'train', table", "it has 4097 shards, the manifest says 4096")
        assert has(theirs(root), "table: 4097 shards, a table has 4096 at most", "shard table 0 of split train")


@pytest.mark.parametrize("key", ["rows", "tokens"])
def test_a_shard_whose_sums_lie(crafted: Crafted, root: Path, key: str) -> None:
    """The table's own sum is true, and the manifest's: of two shards, one has as much more as the other has less."""
    crafted.splits["train"] = [ShardTable([table.shards[0] for table in crafted.splits["train"]])]
    for number, more in ((0, 1), (1, -1 if key == "rows" else 1)):
        shard = crafted.shard("train", shard=number)
        shard.line[key] = shard.encoded()[1][key] + more
    if key == "tokens":
        crafted.splits["train"][0].ref["tokens"] = 0
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), "split 'train', table", f"shard {name}: ", key)
    assert has(theirs(root), f"table: {key} of shard 0 ({name}) are not those of its record batches")


def test_a_shard_of_another_size_than_its_table_says(crafted: Crafted, root: Path) -> None:
    shard = crafted.shard("train")
    size = len(shard.encoded()[0])
    shard.line["bytes"] = size + 8
    crafted.write(root)
    assert has(ours(root), f"shard {shard.path}: it has {size} bytes, packed were {size + 8}")
    assert has(theirs(root), f"size: {shard.path} has {size} bytes")


def test_hashes_of_a_shard_that_lie(crafted: Crafted, root: Path) -> None:
    """Nobody who reads samples needs them; a verification says which one it is."""
    shard = crafted.shard("train")
    shard.line["sha256"] = bytes(32)
    crafted.write(root)
    assert verified(root, full=False) == ""
    assert has(verified(root), f"shard {shard.path}: its sha256 isn't the one that it was packed with")
    with pytest.raises(Damaged, match=f"^sha256: {shard.path}"):
        list(PureReader(root).samples("train"))
    shard.line = {"nonbody_sha256": bytes(32)}
    crafted.write(root)
    for full in (False, True):
        assert has(verified(root, full=full), f"shard {shard.path}: its schema, batch metadata or footer has changed")
    with pytest.raises(Damaged, match=f"^nonbody: {shard.path}"):
        list(PureReader(root).samples("train"))
    assert toolkit.open(root, split="train")[0]["__key__"] == PureReader(root).row("train", 0)["__key__"]


# --- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sums", [b"", b"abc", b"abcd" * 7])
def test_sums_of_other_chunks(crafted: Crafted, root: Path, sums: bytes) -> None:
    crafted.batch("train").sums = sums
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), f"shard {name}: record batch 0 has unreadable metadata")
    assert has(theirs(root), f"record batch 0 of {name}")


def test_sums_that_lie(crafted: Crafted, root: Path) -> None:
    crafted.batch("train").sums = b"abcd"
    crafted.write(root)
    name = crafted.shard("train").path
    assert has(ours(root), f"shard {name}, row 0", "another CRC32C", "chunk 0 of the record batch")
    assert has(theirs(root), f"crc: chunk 0 of record batch 0 of {name}")


def test_a_digest_that_lies(crafted: Crafted, root: Path) -> None:
    batch = crafted.batch("train")
    batch.put(4, bytes(16) + batch.buffer(4)[16:])
    crafted.write(root, digests=False)
    name = crafted.shard("train").path
    key = toolkit.open(root, split="train")[0]["__key__"]
    assert has(verified(root), f"shard {name}, row 0, key {key!r}: its digest isn't the one that it was packed with")
    with pytest.raises(Damaged, match=rf"^digest: row 0 of split train, in record batch 0 of {name}, key {key}"):
        list(PureReader(root).samples("train"))


# --- derived columns ------------------------------------------------------------------------------------------------


def with_column(batch: Batch, schema: pa.Schema, name: str, values: list[Any]) -> Batch:
    rows = batch.records(schema)
    at = rows.schema.names.index(name)
    return Batch.of(rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type)))


@pytest.mark.parametrize(
    ("what", "lie"), [("height", 41), ("width", None), ("orientation", 6), ("format", "GIF"), ("format", None)]
)
def test_a_derived_column_that_lies(crafted: Crafted, root: Path, what: str, lie: int | str | None) -> None:
    """Only a full verification decodes nothing and still knows better."""
    shard = crafted.shard("train")
    name = f"__image.{what}__"
    values = shard.batches[1].records(crafted.schema)[name].to_pylist()
    shard.batches[1] = with_column(shard.batches[1], crafted.schema, name, [values[0], lie, *values[2:]])
    crafted.write(root)
    row = crafted.batch("train").rows + 1
    sample = toolkit.open(root, split="train")[row]
    assert PureReader(root).row("train", row, [name]) == {"__key__": sample["__key__"], name: lie}
    assert len(list(PureReader(root).samples("train"))) == 12
    assert verified(root, full=False) == ""
    (finding,) = verify(root, full=True, jobs=1).findings
    assert (finding.shard, finding.row, finding.key) == (shard.path, row, sample["__key__"])
    assert has(finding.message, f"shard {shard.path}, row {row}, key {sample['__key__']!r}", name)


def test_a_derived_column_of_another_type(crafted: Crafted, root: Path) -> None:
    at = crafted.schema.names.index("__image.height__")
    crafted.set_schema(crafted.schema.set(at, pa.field("__image.height__", pa.int64())))
    crafted.write(root)
    assert has(ours(root), "the derived column '__image.height__' is int64, not int32")


@pytest.mark.parametrize(
    ("change", "toolkits", "pures"),
    [
        ({"of": "none"}, "'__none.height__' is of no column", "a derived column of 'none'"),
        ({"what": "width"}, "no derived column can be called '__image.width__' here", "two derived columns have the"),
        ({"what": "depth"}, "are not those of the schema table", "of the schema table, not"),
    ],
)
def test_a_manifest_that_lies_about_a_derived_column(
    crafted: Crafted, root: Path, change: dict[str, str], toolkits: str, pures: str
) -> None:
    crafted.manifest["derived"][0] |= change
    crafted.write(root)
    assert has(ours(root), "manifest", toolkits)
    assert has(theirs(root), pures)


# --- columns --------------------------------------------------------------------------------------------------------


def moved(crafted: Crafted, name: str, to: int) -> None:
    """Let shards have a column in another place."""
    order = [one for one in crafted.schema.names if one != name]
    order.insert(to, name)
    schema = pa.schema([crafted.schema.field(one) for one in order], crafted.schema.metadata)
    for tables in crafted.splits.values():
        for shard in [shard for table in tables for shard in table.shards]:
            shard.batches = [Batch.of(batch.records(crafted.schema).select(order)) for batch in shard.batches]
    crafted.set_schema(schema)


@pytest.mark.parametrize(("name", "to"), [("image", 2), ("label", 7), ("__image.height__", 2), ("__image.width__", 3)])
def test_columns_in_another_order(crafted: Crafted, root: Path, name: str, to: int) -> None:
    moved(crafted, name, to)
    crafted.write(root)
    assert has(ours(root), "manifest", "another order than shards", name)
    assert has(theirs(root), "table: columns of shards in the order", name)


# --- what it requires -----------------------------------------------------------------------------------------------

RESERVED = ["zstd", "coefficients", "tiles"]


@pytest.mark.parametrize("word", [*RESERVED, "warp", ""])
def test_words_that_a_reader_has_to_know(crafted: Crafted, root: Path, word: str) -> None:
    crafted.say("requires", value=[word])
    crafted.write(root)
    with pytest.raises(FormatError, match=rf"manifest\.json requires .*{word}.*install a newer toolkit"):
        toolkit.open(root, split="train")
    assert has(verified(root), "requires", word)
    assert has(theirs(root), "requires: ", repr(word))


@pytest.mark.parametrize("words", [["references"], ["unhashed"], ["references", "unhashed"]])
def test_words_that_say_what_is_not_so(crafted: Crafted, root: Path, words: list[str]) -> None:
    crafted.say("requires", value=words)
    crafted.write(root)
    assert has(ours(root), words[0])
    assert has(theirs(root), "manifest: it requires", words[0])


def test_all_unknown_words_are_named(crafted: Crafted, root: Path) -> None:
    crafted.say("requires", value=RESERVED)
    crafted.write(root)
    assert has(verified(root), *RESERVED)
