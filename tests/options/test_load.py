"""Reading YAML: values, paths, and every mistake with its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from toolkit.cli.config_options import keys_of
from toolkit.cli.main import app
from toolkit.errors import NotFoundError, UsageError
from toolkit.options.load import load_config, read_settings

KEYS = keys_of(get_command(app).commands["pack"])  # type: ignore[attr-defined]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pack.yaml"


def values(path: Path) -> dict[str, Any]:
    return {name: setting.value for name, setting in load_config(str(path), KEYS).items()}


def said(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError) as caught:
        load_config(str(path), KEYS)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "pack.yaml")


def test_values_and_where_they_are(file: Path) -> None:
    file.write_text(
        "# note\nlimit: 3\nmap:\n  image: jpg\ncolumns: [a, 'b,c']\njobs: auto\nquiet: yes\nmax_rejects: 1%\n"
    )
    assert values(file) == {
        "limit": 3,
        "map": {"image": "jpg"},
        "columns": ["a", "b,c"],
        "jobs": "auto",
        "quiet": True,
        "max_rejects": "1%",
    }
    assert load_config(str(file), KEYS)["columns"].where == f"{file}:5"


def test_a_byte_order_mark_and_carriage_returns(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbflimit: 3\r\njobs: 2\r\n")
    assert values(file) == {"limit": 3, "jobs": 2}
    file.write_text("{}")
    assert values(file) == {}


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    Path("configs/a.yaml").write_text("source: ../photos\ndataset: /abs/ds\nclasses: ~/c.txt\nsplit: ../train\n")
    assert values(Path("configs/a.yaml")) == {
        "source": "configs/../photos",
        "dataset": "/abs/ds",
        "classes": "/home/me/c.txt",
        "split": "../train",
    }
    Path("b.yaml").write_text("source: photos\n")
    assert values(Path("b.yaml")) == {"source": "photos"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs: 2\nshrad_size: 1MB\n", "pack.yaml:2: unknown key 'shrad_size'. Did you mean 'shard_size'?"),
        ("shard-size: 1MB\n", "pack.yaml:1: unknown key 'shard-size'. Did you mean 'shard_size'?"),
        ("3: 4\n", "pack.yaml:1: unknown key 3. Known: source, dataset,"),
        ("config: x.yaml\n", "pack.yaml:1: unknown key 'config'."),
        ("jobs: 2\nlimit: many\n", "pack.yaml:2: limit: expected a whole number of at least 1, got 'many'"),
        ("limit:\n  - 1\n", "pack.yaml:1: limit: expected a whole number of at least 1, got a list"),
        ("limit:\n", "pack.yaml:1: limit: expected a whole number of at least 1, got nothing"),
        ("max_rejects: 0.01\n", "max_rejects: expected a whole number of at least 0, or a share as in 1%, got 0.01"),
        ("split: 2024-01-02\n", "split: expected text, got 2024-01-02; put text in quotes"),
        ("source: {000..099}.tar\n", "pack.yaml:1: not YAML: "),
        ("key: no\n", "pack.yaml:1: key: expected text, got false; put text in quotes"),
        ("shuffle_seed: 010\n", "pack.yaml:1: 010: YAML reads a number that begins with 0 as an octal one"),
        ("quiet: 1\n", "pack.yaml:1: quiet: expected true or false, got 1"),
        ("missing: nul\n", "expected one of null, skip, error, got 'nul'. Did you mean 'null'?"),
        ("\nmap:\n  image: jpg\n  label: 3\n", "pack.yaml:4: map.label: expected text, got 3;"),
        ("columns:\n  - a\n  - [b]\n", "pack.yaml:3: columns[1]: expected text, got a list;"),
        ("columns: a\n", "pack.yaml:1: columns: expected a list of texts, as in [a, b], got 'a'"),
        ("map: image=jpg\n", "pack.yaml:1: map: expected a mapping, as in {image: jpg, label: cls}, got 'image=jpg'"),
        ("limit: 1\njobs: 2\nlimit: 3\n", "pack.yaml:3: 'limit' is given twice, first in line 1"),
        ("map:\n  a: b\n  a: c\n", "pack.yaml:3: 'a' is given twice, first in line 2"),
        ("- a\n- b\n", "pack.yaml:1: holds no mapping"),
        ("limit\n", "pack.yaml:1: holds no mapping"),
        ("", "pack.yaml:1: holds no options"),
        ("# limit: 3\n", "pack.yaml:1: holds no options"),
        ("limit: 3\n---\njobs: 2\n", "pack.yaml:2: a second document begins here (---): a config is one"),
        ("limit: 3\nsplit: !!python/object/apply:os.system [ls]\n", "pack.yaml:2: the tag "),
        ("limit: !!int 3\n", "pack.yaml:1: the tag tag:yaml.org,2002:int: tags are not read"),
        ("split: !env HOME\n", "pack.yaml:1: the tag !env: tags are not read"),
        ("map: &a {x: y}\nrename: *a\n", "pack.yaml:2: alias *a: a text that begins with * needs quotes"),
        ("include: [*.tar]\n", "pack.yaml:1: "),
        ("map:\n  <<: {a: b}\n", "pack.yaml:2: a merge key << is not read"),
        ("? [a]\n: b\n", "pack.yaml:1: a list or mapping as a key is not read"),
        ("limit: 3\n\tjobs: 2\n", "pack.yaml:2: not YAML: "),
        ("limit: 'a\n", "not YAML: "),
        ("a: b: c\n", "pack.yaml:1: not YAML: mapping values are not allowed here"),
        ("limit: 1\nsplit: a\0b\n", "pack.yaml:2: the character "),
        (b"limit: 1\nsplit: \xff\n", "pack.yaml:2: not UTF-8"),
        ("[" * 50_000, "pack.yaml: nested too deeply"),
        ("columns: [a]\nsplit: 2024-13-45\n", "pack.yaml:2: '2024-13-45': month must be in 1..12"),
        ('a: 1\nsplit: "\\U00110000"\n', "pack.yaml:2: a character in quotes is not one of Unicode's"),
        ('a: 1\nsplit: "\\UFFFFFFFF"\n', "pack.yaml:2: a character in quotes is not one of Unicode's"),
        ("split: =\n", "pack.yaml:1: could not determine a constructor"),
        ("#" * (1 << 20) + "\n", "is larger than 1 MiB"),
    ],
)
def test_mistakes(file: Path, text: str | bytes, message: str) -> None:
    assert message in said(file, text)


def test_the_alias_hint(file: Path) -> None:
    assert "a text that begins with * needs quotes" in said(file, "include: [*.tar]\n")


def test_files_that_are_not_there(tmp_path: Path, file: Path) -> None:
    file.write_text("limit: 1\n")
    with pytest.raises(NotFoundError, match=r"no config at .*pack\.yml'\. Did you mean 'pack\.yaml'\?"):
        load_config(str(tmp_path / "pack.yml"), KEYS)
    with pytest.raises(NotFoundError, match="no config at"):
        load_config(str(tmp_path / "nowhere/pack.yaml"), KEYS)
    with pytest.raises(UsageError, match="is a folder"):
        load_config(str(tmp_path), KEYS)


def test_settings() -> None:
    settings = read_settings(["limit=1", "map=a=b,c=d", "limit=2"], KEYS)
    assert {name: setting.value for name, setting in settings.items()} == {"limit": "2", "map": "a=b,c=d"}
    for text in ("limit", "=3", "limit="):
        with pytest.raises(UsageError, match="is not KEY=VALUE"):
            read_settings([text], KEYS)
    with pytest.raises(UsageError, match=r"--set 'limt=3': unknown key 'limt'\. Did you mean 'limit'\?"):
        read_settings(["limt=3"], KEYS)
