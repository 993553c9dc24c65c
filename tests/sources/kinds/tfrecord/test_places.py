"""Where media lie in TFRecord files: inside, and what protobuf reads there, however the examples are written."""

from __future__ import annotations

import gzip
import os
import random
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import tfrecords
from contracts.source import Placed, check_place, placed_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import encode, picture
from tfrecords import example, features, frame, part

from toolkit.errors import SourceError, ToolkitError
from toolkit.format.kinds import Kind
from toolkit.sources.kinds.tfrecord.source import TFRecordSource
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions, VerifyImages
from toolkit.sources.reject import Reject
from toolkit.sources.tfrecords.example import parser
from toolkit.sources.tfrecords.skim import skim, span_of

IN_PLACE = [PlacesWanted.BESIDE, PlacesWanted.ONLY]
JPEG = encode(picture(1))
PNG = encode(picture(2, 8, 8), "PNG")


def source(path: Path | str, wanted: PlacesWanted, **options: Any) -> TFRecordSource:
    return TFRecordSource(SourceOptions(paths=(str(path),), slice_bytes=1 << 30, places=wanted, **options))


def rows(path: Path, wanted: PlacesWanted, **options: Any) -> list[Placed]:
    made = source(path, wanted, **options)
    return placed_rows(made, made.survey())


def read(path: Path, wanted: PlacesWanted, **options: Any) -> tuple[list[str], list[Reject]]:
    made = source(path, wanted, **options)
    survey = made.survey()
    pieces = [one for part in survey.slices for one in made.read(survey, part)]
    keys = [key for one in pieces for key in one.batch.column(0).to_pylist()]
    return keys, [*survey.rejects, *(reject for one in pieces for reject in one.rejects)]


def check_all(path: Path, **options: Any) -> list[Placed]:
    """Beside the values and alone, places are the same, and those of the values."""
    beside, only = (rows(path, wanted, **options) for wanted in IN_PLACE)
    assert [one.places for one in beside] == [one.places for one in only]
    assert [one.row for one in beside] == [one.row for one in only]
    for one in beside:
        for column, value in one.media.items():
            check_place(value, one.places[column])
    return beside


def test_features_come_in_any_order_beside_others(tmp_path: Path) -> None:
    of: dict[str, Any] = {"photo": [JPEG], "copy": [JPEG], "small": [PNG], "n": [1], "f": [0.5], "t": [b"x" * 40000]}
    examples = []
    for seed in range(12):
        names = random.Random(seed).sample(sorted(of), len(of))
        examples.append(example(**{name: of[name] for name in names}))
    found = check_all(tfrecords.write(tmp_path / "x y.tfrecord", examples))
    assert len(found) == 12
    assert {len({one.places[name] for name in ("photo", "copy", "small")}) for one in found} == {3}
    check_all(tmp_path, map={"a": "photo", "b": "photo", "t": "t"})


def test_a_medium_may_be_bytes_or_the_key_as_well(tmp_path: Path) -> None:
    tfrecords.write(tmp_path / "x.tfrecord", [example(photo=[JPEG], k=[b"a"]), example(photo=[PNG], k=[b"b"])])
    (a, b) = check_all(tmp_path, map={"image": "photo", "raw": "photo"}, kind={"raw": Kind.BYTES}, key="k")
    assert (a.row["raw"], b.row["raw"]) == (JPEG, PNG)


def test_raw_records_are_media_where_they_are_said_to_be(tmp_path: Path) -> None:
    tfrecords.write(tmp_path / "x.tfrecord", [JPEG, PNG])
    (a, b) = check_all(tmp_path, tfrecord_raw=True, kind={"record": Kind.IMAGE})
    assert a.places["record"] is not None
    assert a.places["record"][1:3] == (12, len(JPEG))
    (a, b) = check_all(tmp_path, tfrecord_raw=True, map={"i": "record", "b": "record"}, kind={"i": Kind.IMAGE})
    assert (a.row["b"], b.row["b"]) == (JPEG, PNG)


def test_sequence_examples_have_media_in_their_context(tmp_path: Path) -> None:
    records = [tfrecords.sequence({"photo": [JPEG], "id": [i]}, {"frames": [[PNG], [PNG]]}) for i in range(3)]
    found = check_all(tfrecords.write(tmp_path / "x.tfrecord", records))
    assert found[0].row["frames"] == [[PNG], [PNG]]


def test_no_media_are_read_where_only_places_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Records of which the media are holes: their lengths are right, and their CRCs are not.
    head = example(photo=[PNG], n=[0])
    size, count = 1 << 20, 15
    hole = b"\x0a\x80\x80\x40"  # the field of the one value of a list
    feature = b"\x0a" + tfrecords.varint(len(hole) + size) + hole
    entry = part(1, b"photo") + b"\x12" + tfrecords.varint(len(feature) + size) + feature
    context = part(1, part(1, b"n") + part(2, tfrecords.feature([1]))) + b"\x0a" + tfrecords.varint(len(entry) + size)
    begin = b"\x0a" + tfrecords.varint(len(context) + len(entry) + size) + context + entry
    length = (len(begin) + size).to_bytes(8, "little")
    with open(tmp_path / "x.tfrecord", "wb") as file:
        file.write(frame(head))
        for _ in range(count):
            file.write(length + tfrecords.masked_crc(length) + begin)
            file.seek(size, os.SEEK_CUR)
            file.write(b"crc?")
    taken = 0
    pread = os.pread

    def counted(fd: int, nbytes: int, offset: int) -> bytes:
        nonlocal taken
        data = pread(fd, nbytes, offset)
        taken += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    found = rows(tmp_path / "x.tfrecord", PlacesWanted.ONLY)
    assert [one.places["photo"][2] for one in found if one.places["photo"]] == [len(PNG), *[size] * count]
    assert [one.row["n"] for one in found] == [0, *[1] * count]
    assert 0 < taken < 2 * (count + 1) * 2 * (1 << 14)


@pytest.mark.parametrize("wanted", IN_PLACE)
@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_a_compressed_file_is_refused_by_name(tmp_path: Path, compress: Any, wanted: PlacesWanted) -> None:
    (tmp_path / "x.tfrecord").write_bytes(compress(frame(example(photo=[JPEG]))))
    with pytest.raises(SourceError, match=r"x\.tfrecord' is compressed \(gzip or zlib\), so what .*: pack it"):
        source(tmp_path, wanted).survey()


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_what_is_written_in_an_odd_way_is_rejected(tmp_path: Path, wanted: PlacesWanted) -> None:
    # A list in two pieces, which protobuf puts together: the first piece has no value.
    pieces = part(1, b"") + part(1, part(1, JPEG))
    odd = part(1, part(1, part(1, b"photo") + part(2, pieces)))
    tfrecords.write(tmp_path / "x.tfrecord", [example(photo=[JPEG]), odd, example(photo=[PNG])])
    keys, (reject,) = read(tmp_path, wanted)
    assert keys == ["x.tfrecord#0", "x.tfrecord#2"]
    assert reject.key == "x.tfrecord#1"
    assert reject.reason == "photo: it can't be told where in the record the value lies: pack it"


def test_the_last_of_several_features_with_one_name_holds(tmp_path: Path) -> None:
    twice = part(1, features({"photo": [JPEG], "n": [1]}) + features({"photo": [PNG]}))
    apart = part(1, features({"photo": [PNG]})) + part(1, features({"photo": [JPEG], "n": [2]}))
    check_all(tfrecords.write(tmp_path / "x.tfrecord", [twice, apart]))
    values = [one.media["photo"]["bytes"] for one in rows(tmp_path, PlacesWanted.BESIDE)]
    assert values == [PNG, JPEG]


def test_what_only_a_read_tells_is_a_row_where_nothing_is_read(tmp_path: Path) -> None:
    broken = bytearray(frame(example(photo=[PNG], n=[2])))
    broken[-1] ^= 1
    good, bad, empty, more = (frame(example(photo=[of], n=[1])) for of in (PNG, b"no picture", b"", bytes(5000)))
    (tmp_path / "x.tfrecord").write_bytes(good + bad + bytes(broken) + empty + more + frame(b"\xff\xff"))
    keys, rejects = read(tmp_path, PlacesWanted.BESIDE, max_value_bytes=4000)
    assert keys == ["x.tfrecord#0"]
    assert len(rejects) == 5
    keys, rejects = read(tmp_path, PlacesWanted.ONLY, max_value_bytes=4000)
    assert keys == [f"x.tfrecord#{i}" for i in range(4)]
    assert [one.key for one in rejects] == ["x.tfrecord#4", "x.tfrecord#5"]


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_a_record_without_the_feature_has_a_null_and_no_place(tmp_path: Path, wanted: PlacesWanted) -> None:
    tfrecords.write(tmp_path / "x.tfrecord", [example(photo=[PNG], n=[0]), example(n=[1])])
    a, b = rows(tmp_path, wanted, missing=Missing.NULL)
    assert a.places["photo"] is not None
    assert (b.media, b.places) == ({"photo": None}, {"photo": None})
    assert len(rows(tmp_path, wanted, missing=Missing.SKIP)) == 1
    keys, (reject,) = read(tmp_path, wanted)
    assert (keys, reject.reason) == (["x.tfrecord#0"], "lacks the feature 'photo'")


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_a_file_that_changes_is_noticed(tmp_path: Path, wanted: PlacesWanted) -> None:
    path = tfrecords.write(tmp_path / "x.tfrecord", [example(photo=[PNG])] * 3)
    made = source(path, wanted)
    survey = made.survey()
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="was changed during the pack"):
        placed_rows(made, survey)


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, wanted: PlacesWanted) -> None:
    data = frame(example(photo=[PNG])) * 3
    for cut in (1, 5, 20, len(data) // 3 - 1):
        (tmp_path / "x.tfrecord").write_bytes(data[:-cut])
        with pytest.raises(SourceError, match=r"record 2 at byte .*: the file is cut off"):
            source(tmp_path, wanted).survey()


VALUES = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=300), max_size=3).map(lambda of: (of, bytes)),
    st.lists(st.integers(-9, 1 << 40), max_size=3).map(lambda of: (of, int)),
)
NAMES = st.sampled_from(["a", "b", "photo", "ü" * 70])


@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=3), st.sets(NAMES), st.integers(0, 40))
def test_skimmed_examples_are_those_of_protobuf(of: list[Any], names: set[str], start: int) -> None:
    payload = b"".join(part(1, features(each)) for each in of)
    file = bytes(start) + payload
    parse = parser()
    skimmed, spans = skim(lambda at, n: file[at : at + n], start, len(payload), {name.encode() for name in names})
    whole, left = parse(payload).context.feature, parse(skimmed).context.feature
    assert whole.keys() == left.keys()
    assert spans is not None
    for name in whole:
        kind = whole[name].WhichOneof("kind")
        assert left[name].WhichOneof("kind") == kind
        if kind is None or name not in names or kind != "bytes_list":
            assert whole[name] == left[name]
            assert name.encode() not in spans
            continue
        values = list(whole[name].bytes_list.value)
        assert list(left[name].bytes_list.value) == [b""] * len(values)
        if values:
            at, size = spans[name.encode()]
            assert file[at : at + size] == values[0]
            assert span_of(payload, name.encode(), values[0]) is not None
    assert {name.encode() for name in whole} >= spans.keys()


@given(st.integers(0, 2**32), st.integers(0, 3), st.booleans())
@settings(max_examples=200)
def test_places_lie_inside_whatever_the_file_says(seed: int, changes: int, raw: bool) -> None:
    draw = random.Random(seed)
    payloads = []
    for _ in range(3):
        payload = bytearray(example(photo=[PNG[:60]], n=[1], b=[b"\xff" * draw.randrange(200)]))
        for _ in range(changes):
            payload[draw.randrange(len(payload))] = draw.choice([*b"\x0a\x12\x00\x7f\x80\xff\x01", draw.randrange(256)])
        payloads.append(bytes(payload[: draw.choice([len(payload), draw.randrange(len(payload) + 1)])]))
    data = b"".join(map(frame, [example(photo=[PNG], n=[1], b=[b"\xff"]), *payloads]))
    kind = {"record": Kind.IMAGE} if raw else {}
    options: dict[str, Any] = {"verify_images": VerifyImages.OFF, "tfrecord_raw": raw, "kind": kind}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tfrecord"
        path.write_bytes(data)
        for wanted in IN_PLACE:
            made = source(path, wanted, missing=Missing.NULL, **options)
            try:
                survey = made.survey()
                pieces = [one for part in survey.slices for one in made.read(survey, part)]
            except ToolkitError:
                continue
            assert sum(one.batch.num_rows + len(one.rejects) for one in pieces) == 4
            for one in pieces:
                for column, places in one.places.items():
                    values = one.batch.column(column).to_pylist()
                    for i, file in enumerate(places.files.to_pylist()):
                        begin, end = int(places.offsets[i]), int(places.offsets[i] + places.lengths[i])
                        assert 0 <= begin <= end <= len(data)
                        if wanted is PlacesWanted.BESIDE and file is not None:
                            assert data[begin:end] == values[i]["bytes"]
