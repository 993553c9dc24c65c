"""Paths as people write them: URLs are refused, ~ is the home folder, and a dataset is no source."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command import Cli, encoded, put

import toolkit
from toolkit.errors import UsageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    put(tmp_path, "home/source/cat/1.jpg", encoded(9, 9))
    return tmp_path / "home/source"


@pytest.fixture
def home(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


@pytest.mark.parametrize(
    "url", ["s3://bucket/ds", "gs://bucket/ds", "hdfs://host:1/ds", "HTTPS://x.y/ds", "a+b-c.1://"]
)
def test_a_url_is_no_folder(cli: Cli, source: Path, home: Path, url: str) -> None:
    for args in (
        ("pack", source, url),
        ("pack", source, url, "--dry-run"),
        ("pack", source, url, "--on-existing", "append"),
        ("pack", url, "ds"),
        ("pack", source, url, "ds"),
        ("pack", source, "ds", "--classes", url),
        ("pack", source, "ds", "--source-kind", "text", "--tokenizer", url),
        ("inspect", url),
        ("verify", f"{url}@sha256:0123456789ab"),
        ("gc", url),
        ("config", "check", url),
    ):
        ended = cli(*args)
        assert ended.code == 2, (args, ended)
        assert ended.err.startswith(f"error: {url!r} is a URL, and only local files are read and written"), ended.err
        assert os.listdir() == [], args
    with pytest.raises(UsageError, match="is a URL"):
        toolkit.open(url)
    document = json.loads(cli("pack", source, url, "--json").out)
    assert (document["error"]["type"], document["error"]["exit_code"]) == ("UsageError", 2)


def test_a_file_url_says_its_path(cli: Cli, source: Path, home: Path) -> None:
    ended = cli("pack", source, "file:///tmp/a%20b")
    assert (ended.code, ended.err) == (2, "error: 'file:///tmp/a%20b' is a URL: give the path '/tmp/a b'\n")


def test_a_url_in_a_config(cli: Cli, source: Path, home: Path) -> None:
    Path("pack.yaml").write_text(f"source: {source}\ndataset: s3://bucket/ds\n")
    for args in (("config", "check", "pack.yaml"), ("pack", "--config", "pack.yaml")):
        ended = cli(*args)
        assert ended.code == 2
        assert ended.err.startswith("error: pack.yaml:2: dataset: 's3://bucket/ds' is a URL")
    assert os.listdir() == ["pack.yaml"]


def test_tilde_is_the_home_folder(cli: Cli, source: Path, home: Path) -> None:
    (home / "classes.txt").write_text("cat\ndog\n")
    (home / "pack.yaml").write_text("source: ~/source\ndataset: ~/from-config\n")
    assert cli("pack", "~/source", "~/ds", "--classes", "~/classes.txt").code == 0
    assert cli("pack", "--config", "~/pack.yaml").code == 0
    assert cli("pack", "--set", "source=~/source", "--set", "dataset=~/from-set").code == 0
    assert os.listdir() == []
    assert toolkit.open("~/ds").classes == ("cat", "dog")
    assert toolkit.open(Path("~/ds")).pin == toolkit.open(home / "ds").pin
    assert toolkit.open(f"~/ds@sha256:{toolkit.open('~/ds').pin[:12]}").classes == ("cat", "dog")
    for command in ("inspect", "verify", "gc", "head"):
        assert cli(command, "~/ds").code == 0, command
    assert {path.name for path in home.iterdir() if path.is_dir()} == {"source", "ds", "from-config", "from-set"}


def test_a_user_that_is_not_there(cli: Cli, source: Path, home: Path) -> None:
    ended = cli("pack", source, "~nobody-of-that-name/ds")
    assert (ended.code, os.listdir()) == (2, [])
    assert "there is no user 'nobody-of-that-name'; a folder of that name is ./~nobody-of-that-name/ds" in ended.err
    assert cli("pack", source, "./~nobody-of-that-name/ds").code == 0


def test_a_dataset_is_no_source(cli: Cli, source: Path, home: Path) -> None:
    assert cli("pack", source, "ds").code == 0
    pin = toolkit.open("ds").pin
    for given in ("ds", "ds/", f"ds@sha256:{pin}", "ds/manifest.json", f"ds/manifests/{pin}.json"):
        for flags in ([], ["--dry-run"], ["--source-kind", "text"], ["--json"]):
            ended = cli("pack", given, "new", *flags)
            assert ended.code == 2
            assert f"{given!r} is a dataset already" in ended.err
            assert os.listdir() == ["ds"]
    assert cli("pack", source, "ds", "new2").code == 2

    put(home, "other/shards/1.jpg", encoded(9, 9))  # a class of that name
    put(home, "other/manifest.json", b"{}")
    assert cli("pack", home / "other", "new").code == 0


def test_an_unfinished_dataset_is_no_source_either(cli: Cli, source: Path, home: Path) -> None:
    put(source, "cat/bad.jpg", b"no image")
    assert cli("pack", source, "ds").code == 3
    ended = cli("pack", "ds", "new")
    assert ended.code == 2
    assert "'ds' is a dataset already" in ended.err
