"""URLs in fields of paths: rejects that tell no secret, or fetched from a server on loopback that the user named."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encode, picture
from sources.web import Web, plain

import toolkit
from toolkit.errors import RejectsError, ToolkitError, UsageError
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.make import make_source
from toolkit.sources.options import Missing

JPEGS = [encode(picture(seed)) for seed in range(6)]


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({f"/{i}.jpg": plain(data) for i, data in enumerate(JPEGS)}) as made:
        yield made


def table(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    with open(folder / "train.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return folder / "train.csv"


def job(source: Path, dataset: Path, **options: Any) -> PackJob:
    given = {"image_column": ("url",), "fetch_urls": True, "fetch_hosts": ("localhost",), "max_rejects": 100}
    return PackJob(source=str(source), dataset=str(dataset), **{**given, **options})


def run(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(job(source, dataset, **options))


def rows(dataset: Path) -> dict[str, dict[str, Any]]:
    opened = toolkit.open(dataset)
    return {sample.pop("__key__"): sample for sample in (opened[i] for i in range(len(opened)))}


def everything_written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_urls_are_fetched_beside_files(tmp_path: Path, web: Web) -> None:
    names = [web.url("/0.jpg"), "photos/1.jpg", f" {web.url('/2.jpg')} "]
    source = table(tmp_path / "in", [{"url": name, "n": i} for i, name in enumerate(names)])
    (tmp_path / "in/photos").mkdir()
    (tmp_path / "in/photos/1.jpg").write_bytes(JPEGS[1])
    result = run(source, tmp_path / "ds", rename={"url": "image"})
    assert not result.rejects
    found = rows(tmp_path / "ds")
    assert list(found) == [web.url("/0.jpg"), "photos/1.jpg", web.url("/2.jpg")]
    assert [(sample["image"], sample["n"]) for sample in found.values()] == [(JPEGS[i], i) for i in range(3)]
    (shard,) = (tmp_path / "ds/shards").iterdir()
    images = pa.ipc.open_file(shard).read_all().column("image").to_pylist()
    assert [image["path"] for image in images] == ["0.jpg", "1.jpg", "2.jpg"]
    manifest = json.loads((tmp_path / "ds/manifest.json").read_text())
    assert manifest["options"]["fetch_urls"] is True
    assert "fetch_hosts" not in manifest["options"]
    again = run(source, tmp_path / "again", rename={"url": "image"})
    assert again.pin == result.pin


def test_urls_are_rejects_unless_they_are_asked_for(tmp_path: Path, web: Web) -> None:
    secret = f"http://me:hunter2@localhost:{web.port}/0.jpg?token=hunter2"
    source = table(tmp_path / "in", [{"url": secret, "n": 1}, {"url": "a.jpg", "n": 2}])
    (tmp_path / "in/a.jpg").write_bytes(JPEGS[0])
    result = run(source, tmp_path / "ds", fetch_urls=False, fetch_hosts=())
    (reject,) = result.rejects
    assert "http://localhost" in reject.reason
    assert "--fetch-urls" in reject.reason
    assert web.asked == []
    assert b"hunter2" not in everything_written(tmp_path / "ds") + repr(result.rejects).encode()
    with pytest.raises(UsageError, match="--fetch-hosts names hosts for --fetch-urls"):
        run(source, tmp_path / "no", fetch_urls=False)


def test_what_may_be_secret_is_sent_and_never_written(tmp_path: Path, web: Web) -> None:
    web.answers |= {"/0.jpg?sig=hunter2": plain(JPEGS[0]), "/1.jpg?sig=hunter2": plain(b"hunter2 is no picture")}
    urls = [
        web.url("/0.jpg?sig=hunter2#hunter2"),
        web.url("/1.jpg?sig=hunter2"),
        web.url("/404?sig=hunter2"),
        f"http://me:hunter2@localhost:{web.port}/2.jpg",
        "http://me:hunter2@[::1",
        "https://me:hunter2@localhost:99999/x?hunter2",
        "ftp://me:hunter2@localhost/x",
    ]
    source = table(tmp_path / "in", [{"url": url, "n": i} for i, url in enumerate(urls)])
    with pytest.raises(RejectsError) as raised:
        run(source, tmp_path / "ds", max_rejects=0)
    # Whatever an unfinished pack keeps.
    assert b"hunter2" not in everything_written(tmp_path / "ds") + str(raised.value).encode()
    result = run(source, tmp_path / "ds")
    assert "/0.jpg?sig=hunter2" in [asked.target for asked in web.asked]
    assert any("authorization" in asked.headers for asked in web.asked)
    assert list(rows(tmp_path / "ds")) == [web.url("/0.jpg"), web.url("/2.jpg")]
    told = {reject.source.rpartition(" ")[2]: reject.reason for reject in result.rejects}
    assert len(told) == 5
    reasons = " ".join(told.values())
    assert f"http://localhost:{web.port}: the server answered 404 Not Found" in reasons
    assert b"hunter2" not in everything_written(tmp_path / "ds") + repr(result).encode()


def test_keys(tmp_path: Path, web: Web) -> None:
    web.answers |= {"/x?1": plain(JPEGS[0]), "/x?2": plain(JPEGS[1])}
    listed = [{"url": web.url(f"/x?{i}"), "id": f"k{i}"} for i in (1, 2)]
    source = table(tmp_path / "in", listed)
    with pytest.raises(ToolkitError) as raised:
        run(source, tmp_path / "ds")
    assert web.url("/x") in str(raised.value)
    assert "?" not in str(raised.value)
    run(source, tmp_path / "ds2", key="id")
    assert list(rows(tmp_path / "ds2")) == ["k1", "k2"]


def test_failures_are_rejects_that_name_row_and_url(tmp_path: Path, web: Web) -> None:
    web.answers |= {
        "/elsewhere": plain(b"", status="302 Found", Location="http://127.0.0.1/x?token=hunter2"),
        "/html": plain(b"<html>", Content_Type="text/html"),
        "/large": plain(b"", length=1 << 40),
        "/empty": plain(b""),
    }
    names = ["/404", "/elsewhere", "/html", "/large", "/empty", "/5.jpg"]
    source = table(tmp_path / "in", [{"url": web.url(name), "n": i} for i, name in enumerate(names)])
    result = run(source, tmp_path / "ds", missing=Missing.NULL)
    reasons = {reject.key: reject.reason for reject in result.rejects}
    start = f"column 'url': http://localhost:{web.port}"
    assert reasons[web.url("/404")] == f"{start}/404: the server answered 404 Not Found"
    assert reasons[web.url("/elsewhere")].startswith(
        f"{start}/elsewhere: it redirects to another origin, http://127.0.0.1"
    )
    assert "hunter2" not in reasons[web.url("/elsewhere")]
    assert reasons[web.url("/large")].startswith(f"{start}/large: {1 << 40} bytes are more than a value may have")
    assert reasons.keys() == {web.url(name) for name in names[:-1]}
    assert all(f"line {i}" in reject.source for i, reject in enumerate(result.rejects, 2))
    assert list(rows(tmp_path / "ds")) == [web.url("/5.jpg")]


def test_hosts_must_be_named(tmp_path: Path, web: Web) -> None:
    source = table(
        tmp_path / "in", [{"url": web.url("/0.jpg", "127.0.0.1"), "n": 0}, {"url": web.url("/1.jpg"), "n": 1}]
    )
    (reject,) = run(source, tmp_path / "ds").rejects
    assert "which is a private one; name the host with --fetch-hosts if it is meant" in reject.reason
    assert [asked.target for asked in web.asked] == ["/1.jpg"]


def test_pieces_end_where_what_came_fills_them(tmp_path: Path, web: Web) -> None:
    large = PIECE_BYTES // 2 + 1
    web.answers = {f"/{i}": plain(bytes([i]) * large) for i in range(6)}
    pq.write_table(pa.table({"url": [web.url(f"/{i}") for i in range(6)], "n": range(6)}), tmp_path / "x.parquet")
    options = job(tmp_path / "x.parquet", tmp_path / "ds", kind={"image": Kind.BYTES}).source_options
    _, source = make_source(None, options)
    survey = source.survey()
    pieces = [one for part in survey.slices for one in source.read(survey, part)]
    assert [piece.batch.num_rows for piece in pieces] == [2, 2, 2]
    values = [value for piece in pieces for value in piece.batch.column("image").to_pylist()]
    assert values == [bytes([i]) * large for i in range(6)]


def test_urls_are_cut_into_slices(tmp_path: Path, web: Web) -> None:
    source = table(tmp_path / "in", [{"url": web.url(f"/{i % 6}.jpg"), "n": i} for i in range(40)])
    options = job(source, tmp_path / "ds", shard_size=4 << 20).source_options
    survey = make_source(None, options)[1].survey()
    assert len(survey.slices) > 1
    assert web.asked == []


def test_a_pack_goes_on_with_what_was_fetched(tmp_path: Path, web: Web) -> None:
    """Slices that are finished are not fetched again."""
    source = table(
        tmp_path / "in", [{"url": web.url(f"/{i}.jpg"), "n": i} for i in range(6)] + [{"url": "no.jpg", "n": 6}]
    )
    with pytest.raises(ToolkitError):
        run(source, tmp_path / "ds", max_rejects=0, shard_size=1 << 20)
    asked = len(web.asked)
    assert asked == 6
    assert run(source, tmp_path / "ds", max_rejects=1, shard_size=1 << 20).samples == 6
    assert len(web.asked) == asked
