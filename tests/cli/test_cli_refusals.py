"""What a pack refuses of its options, `config check` refuses with the same words, and so does toolkit.pack()."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import parquet_inputs
import pytest
import yaml
from command import Cli
from pictures import make_folder
from sources import tars

import toolkit
from toolkit.errors import NotFoundError, SourceError, ToolkitError, UsageError
from toolkit.options.option import Option, options_of
from toolkit.pack.job import PackJob
from toolkit.sources import registry

OPTIONS = {name: one for name, one in options_of(PackJob).items() if name != "source_kind"}
KINDS = registry.names()

# Values that each option takes by itself; some contradict others, or are too large or too small in the end.
VALUES: dict[str, list[Any]] = {
    "split": ["val", "no name!"],
    "limit": [4],
    "shuffle_seed": [7],
    "label_mode": ["none", "imagefolder"],
    "require_labels": [True],
    "classes": [["a", "b"], ["a", "a"]],
    "splits": [{"train": "t"}, {"train": ["t", "../u"]}],
    "map": [{"a": "b"}],
    "columns": [["a"]],
    "rename": [{"a": "b"}],
    "kind": [{"a": "image"}],
    "key": ["id"],
    "include": [["*.x"]],
    "exclude": [["b"]],
    "follow_links": [True],
    "max_value_bytes": ["5MB", 3 << 30, "10M"],
    "missing": ["skip"],
    "image_column": [["a"]],
    "root": ["r"],
    "delimiter": [";", ";;"],
    "quote": ["none", "both"],
    "encoding": ["latin-1", "latin-x"],
    "field_names": [["a"]],
    "fetch_urls": [True],
    "fetch_hosts": [["localhost"]],
    "pair": [{"image": "images/{}.jpg"}, {"image": "images/*.jpg"}],
    "tfrecord_raw": [True],
    "verify_images": ["decode"],
    "tokenizer": ["bytes"],
    "text_column": ["t"],
    "eos": [True],
    "eos_token": ["5"],
    "shard_size": ["1MB", 1000],
    "image_encoding": ["jpeg:85", "raw"],
    "short_side": [256, 70_000],
    "max_pixels": [7, 1 << 31],
    "key_conflict": ["suffix"],
    "max_rejects": ["5%", 3, "101%"],
    "on_existing": ["append", "overwrite"],
    "extend_classes": [True],
    "user_metadata": [{"k": "v"}],
    "jobs": [2, "auto"],
}
WRONG: list[Any] = ["", "perhaps", -1, 5, 1.5, True, [], [1], ["a", ""], {}, {"a": 1}, {"": "a"}]


def refusal(cli: Cli, folder: Path, options: dict[str, Any]) -> str | None:
    """Ask `config check`, `pack --config` and toolkit.pack; return what all of them refuse, if they do."""
    config = folder / "pack.yaml"
    config.write_text(yaml.safe_dump({"source": "nowhere", "dataset": "ds", **options}))
    checked, packed = cli("config", "check", config), cli("pack", "--config", config)
    assert packed.code == 2
    with pytest.raises(ToolkitError) as caught:
        toolkit.pack(folder / "nowhere", folder / "ds", **options)
    error = caught.value
    if checked.code == 0:  # nothing was wrong but that there is no input, or nothing to append to
        assert isinstance(error, NotFoundError | SourceError), error
        assert str(error) in packed.err
        return None
    assert (checked.code, checked.out) == (2, "")
    assert packed.err == checked.err
    assert isinstance(error, UsageError)
    assert str(error) in checked.err
    return checked.err


def test_every_option_is_tried() -> None:
    assert VALUES.keys() == OPTIONS.keys()


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_wrong_values(cli: Cli, tmp_path: Path, option: Option) -> None:
    wrong = [value for value in WRONG if option.value.fault(value) is not None]
    assert wrong
    for value in random.Random(option.name).sample(wrong, 2):
        said = refusal(cli, tmp_path, {option.name: value, "source_kind": "parquet"})
        assert said is not None
        assert f": {option.name}" in said


def test_every_option_alone(cli: Cli, tmp_path: Path) -> None:
    kinds = itertools.cycle(kind for kind in KINDS if kind != "pairs")  # which needs --pair
    refused = {
        (name, number): refusal(cli, tmp_path, {name: value, "source_kind": next(kinds)})
        for name, values in VALUES.items()
        for number, value in enumerate(values)
    }
    assert refused["shard_size", 0] is None
    assert "too small" in (refused["shard_size", 1] or "")
    assert "--short-side needs" in (refused["short_side", 0] or "")
    assert "--extend-classes means nothing" in (refused["extend_classes", 0] or "")
    assert "--eos" in (refused["eos", 0] or "")


@pytest.mark.parametrize("seed", range(15))
def test_several_options(cli: Cli, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        names = rng.sample(list(VALUES), rng.randint(2, 5))
        options = {name: rng.choice(VALUES[name]) for name in names}
        refusal(cli, tmp_path, {**options, "source_kind": rng.choice(KINDS)})


def test_what_no_kind_takes_is_refused_for_each(cli: Cli, tmp_path: Path) -> None:
    """Without a kind, only the input tells which it is: `config check` refuses what would be refused for all."""
    sources = {
        "photos": make_folder(tmp_path / "photos", {"a": 1, "b": 1}),
        "rows": parquet_inputs.write(tmp_path / "rows.parquet", {"text": ["x"]}),
        "tar": tars.write(tmp_path / "x.tar", tars.tar_bytes([("x.jpg", tars.JPEG)])),
        "lines": tmp_path / "x.txt",
    }
    sources["lines"].write_text("x\n")
    config = tmp_path / "pack.yaml"
    found = set()
    pairs = [("label_mode", "missing"), ("splits", "tokenizer"), ("tfrecord_raw", "label_mode"), ("eos", "limit")]
    for names in [*itertools.product(VALUES), *pairs]:
        options = {name: VALUES[name][0] for name in names}
        config.write_text(yaml.safe_dump(options))
        refused = cli("config", "check", config).code == 2
        found.add(refused)
        for source in sources.values() if refused else ():
            assert cli("pack", source, tmp_path / "ds", "--config", config, "--dry-run").code == 2, (names, source)
    assert found == {True, False}


def test_empty_text_and_paths(cli: Cli, tmp_path: Path) -> None:
    for flag in ("--text-column", "--key", "--split", "--tokenizer", "--classes"):
        ended = cli("pack", "s", tmp_path / "d", flag, "")
        assert ended.code == 2
        assert "got ''" in ended.err
    for paths, said in (
        (("", "d"), "source is empty"),
        (("s", ""), "dataset is empty"),
        (("s\0", "d"), "'s\\x00' has a NUL character"),
        (("s", "d\0"), "'d\\x00' has a NUL character"),
        (("s", "d@sha256:0123456789ab"), "give the folder alone, 'd'"),
    ):
        ended = cli("pack", *paths)
        assert ended.code == 2
        assert said in ended.err


def test_nearest_flags(cli: Cli) -> None:
    for given, near in (
        ("--user", "--user-metadata"),
        ("--raw", "--tfrecord-raw"),
        ("--limt", "--limit"),
        ("--shard", "--shard-size"),
    ):
        assert f"Did you mean '{near}'?" in cli("pack", "s", "d", given, "x").err


def test_a_misspelt_environment_twin_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_SHARD_SISE", "64KiB")
    monkeypatch.setenv("TOOLKIT_SANITIZED", "1")  # of somebody else
    said = "TOOLKIT_SHARD_SISE is the environment twin of no flag, and is ignored. Did you mean 'TOOLKIT_SHARD_SIZE'?"
    for args in (["doctor", "--json"], ["pack", "s", "d"]):
        err = cli(*args).err
        assert said in err
        assert "SANITIZED" not in err
    assert "SISE" not in cli("pack", "s", "d", "-q").err


def test_a_dry_run_needs_what_the_pack_needs(cli: Cli, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"cat": 2})
    for how, flags, said in (
        ("append", ["--dry-run"], "no dataset at"),
        ("append", [], "it isn't a dataset"),
        ("resume", ["--dry-run"], "has no unfinished pack to resume"),
        ("resume", [], "has no unfinished pack to resume"),
    ):
        ended = cli("pack", folder, tmp_path / "ds", "--on-existing", how, *flags)
        assert ended.code == 2
        assert said in ended.err
    assert not (tmp_path / "ds").exists()
