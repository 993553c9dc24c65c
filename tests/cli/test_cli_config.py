"""`toolkit pack --config --set`, `toolkit config`: which value wins, what is refused, what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import Cli, program, put
from json_schema import fits
from typer.main import get_command

from toolkit.cli.config_options import keys_of
from toolkit.cli.main import app
from toolkit.sources import registry

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*pack*.yaml"))
KEYS = keys_of(get_command(app).commands["pack"])  # type: ignore[attr-defined]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "pack.yaml"


@pytest.fixture
def options(cli: Cli, flowers: Path, tmp_path: Path, config: Path) -> Any:
    """Return options(*flags): the options of a dry run with the config."""
    config.write_text(f"source: {flowers}\ndataset: ds\n")

    def read(*flags: object) -> dict[str, Any]:
        ended = cli("pack", "--config", config, "--dry-run", "--json", *flags)
        assert ended.code == 0, ended.err
        document = json.loads(ended.out)
        return {**document["options"], "dataset": document["dataset"]}

    return read


def schema(cli: Cli) -> Any:
    ended = cli("config", "schema")
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


# --- every flag has its key --------------------------------------------------------------------------------------


def test_every_flag_and_argument_has_a_key() -> None:
    params = get_command(app).commands["pack"].params  # type: ignore[attr-defined]
    names = [next((opt[2:].replace("-", "_") for opt in p.opts if opt.startswith("--")), p.name) for p in params]
    assert sorted(set(names) - {"help", "config", "set", "further"}) == sorted(KEYS)


# Five configs, each without a contradiction, that have every key once: KEY: VALUE, and what the option gets.
GIVEN: dict[str, dict[str, tuple[str, object]]] = {
    "imagefolder": {
        "source": ("s", "FOLDER/s"),
        "dataset": ("d", "FOLDER/d"),
        "split": ("val", "val"),
        "shard_size": ("1MB", 1_000_000),
        "label_mode": ("imagefolder", "imagefolder"),
        "require_labels": ("true", True),
        "classes": ("c.txt", "FOLDER/c.txt"),
        "jobs": ("3", 3),
        "limit": ("4", 4),
        "shuffle_seed": ("7", 7),
        "key_conflict": ("suffix", "suffix"),
        "on_existing": ("append", "append"),
        "extend_classes": ("true", True),
        "max_rejects": ("5%", "5%"),
        "include": ("['*']", ["*"]),
        "exclude": ("[a, b]", ["a", "b"]),
        "splits": ("{train: t, val: [v, w/x]}", {"train": ["t"], "val": ["v", "w/x"]}),
        "user_metadata": ("{k: 'v,w=x'}", {"k": "v,w=x"}),
        "verify_images": ("'off'", "off"),
        "image_encoding": ("jpeg:85", "jpeg:85"),
        "short_side": ("256", 256),
        "dry_run": ("true", True),
        "abort": ("true", True),
        "json": ("false", False),
        "progress": ("false", False),
        "quiet": ("true", True),
        "debug": ("false", False),
    },
    "webdataset": {
        "map": ("{'a,b': c}", {"a,b": "c"}),
        "kind": ("{'a,b': image}", {"a,b": "image"}),
        "missing": ("skip", "skip"),
        "follow_links": ("true", True),
        "max_value_bytes": ("5MB", 5_000_000),
        "max_pixels": ("7", 7),
    },
    "parquet": {
        "image_column": ("[path, mask]", ["path", "mask"]),
        "root": ("photos", "FOLDER/photos"),
    },
    "tfrecord": {
        "columns": ("['x=y', z]", ["x=y", "z"]),
        "rename": ("{a: b}", {"a": "b"}),
        "key": ("id", "id"),
        "tfrecord_raw": ("true", True),
    },
    "csv": {
        "fetch_urls": ("true", True),
        "fetch_hosts": ("[localhost]", ["localhost"]),
        "delimiter": ("';'", ";"),
        "quote": ("none", "none"),
        "encoding": ("latin-1", "latin-1"),
        "field_names": ("[a, b]", ["a", "b"]),
    },
    "pairs": {
        "pair": ("{image: 'i/{}.jpg', mask: ['m/{}.png']}", {"image": ["i/{}.jpg"], "mask": ["m/{}.png"]}),
    },
    "text": {
        "tokenizer": ("t.json", "FOLDER/t.json"),
        "text_column": ("t", "t"),
        "eos": ("true", True),
        "eos_token": ("</s>", "</s>"),
    },
}


@pytest.mark.parametrize("kind", list(GIVEN))
def test_every_key_reaches_its_option(cli: Cli, config: Path, kind: str) -> None:
    given = {**GIVEN[kind], "source_kind": (kind, kind)}
    config.write_text("".join(f"{key}: {text}\n" for key, (text, _) in given.items()))
    document = json.loads(cli("config", "check", config).out)
    assert document["schema"] == "toolkit.config/1"
    assert document["config"] == str(config)
    assert set(document["options"]) == set(KEYS)
    for key, (_, value) in given.items():
        expected = value.replace("FOLDER", str(config.parent)) if isinstance(value, str) else value
        assert (document["options"][key], document["from"][key]) == (expected, "config"), key


def test_every_key_is_tried() -> None:
    assert {key for given in GIVEN.values() for key in given} | {"source_kind"} == set(KEYS)


# --- what pack refuses, check refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (None, "extend_classes: true\n", "--extend-classes means nothing without --on-existing append"),
        (None, "eos: true\n", "--eos and --eos-token belong to tokens: give --tokenizer"),
        (None, "eos_token: </s>\nsource_kind: text\n", "--eos and --eos-token belong to tokens: give --tokenizer"),
        ("parquet", "text_column: t\n", "--text-column names the field to tokenise: give --tokenizer"),
        ("imagefolder", "tokenizer: bytes\n", "--tokenizer means nothing for a source of kind imagefolder"),
        ("text", "tokenizer: bytes\nmap: {a: b}\n", "--map means nothing with --tokenizer"),
        ("text", "tokenizer: bytes\neos_token: x\n", "--eos-token: bytes have no named tokens"),
        ("text", "tokenizer: bytes\nlabel_mode: none\n", "--label-mode means nothing for a source of kind text"),
        ("imagefolder", "missing: skip\n", "--missing means nothing for a source of kind imagefolder"),
        ("parquet", "splits: {train: a}\n", "--splits means nothing for a source of kind parquet"),
        ("imagefolder", "splits: {train: ../a}\n", "'../a' is no folder below the source"),
        ("imagefolder", "splits: {a b: c}\n", "'a b' can't name a split"),
        *((kind, "split: a b\n", "'a b' can't name a split") for kind in (None, *registry.names())),
        (None, f"split: {'a' * 101}\n", "can't name a split"),
        ("imagefolder", f"splits: {{{'a' * 101}: c}}\n", "can't name a split"),
        ("imagefolder", "label_mode: none\nclasses: c.txt\n", "classes asks for labels and label_mode 'none' for none"),
        ("roxxel", "eos: true\n", "--eos: the ids are there already"),
        (None, "key: id\nsplits: {train: a}\nsource_kind: webdataset\n", "--splits means nothing"),
        (None, "short_side: 5\n", "--short-side needs --image-encoding"),
        (None, "user_metadata: {a: b}\nsplits: {}\nimage_encoding: jpeg:101\n", "jpeg"),
    ],
)
def test_check_refuses_what_pack_refuses(cli: Cli, config: Path, kind: str | None, text: str, said: str) -> None:
    put(config.parent, "c.txt", b"a\nb\n")
    put(config.parent, "s/x.txt", b"a text")
    config.write_text(f"source: s\ndataset: d\n{text}{f'source_kind: {kind}' if kind else ''}\n")
    checked, packed = cli("config", "check", config), cli("pack", "--config", config)
    assert (checked.code, checked.out) == (packed.code, packed.out) == (2, "")
    assert said in checked.err
    assert checked.err == packed.err


def test_check_passes_what_some_kind_of_source_takes(cli: Cli, config: Path) -> None:
    for text in (
        "tokenizer: t.json\neos: true\n",
        "eos_token: '5'\nsource_kind: roxxel\n",
        "missing: skip\n",
        "key: k\n",
        f"split: {'a' * 100}\n",
    ):
        config.write_text(text)
        assert cli("config", "check", config).code == 0, text


# --- which value wins --------------------------------------------------------------------------------------------


def test_five_levels(options: Any, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = config.read_text()
    assert options()["limit"] is None
    config.write_text(f"{given}limit: 1\n")
    assert options()["limit"] == 1
    assert options("--set", "limit=2")["limit"] == 2
    monkeypatch.setenv("TOOLKIT_LIMIT", "3")
    assert options("--set", "limit=2")["limit"] == 3
    assert options("--set", "limit=2", "--limit", "4")["limit"] == 4
    monkeypatch.setenv("TOOLKIT_LIMIT", "")
    assert options("--set", "limit=2")["limit"] == 2


def test_the_order_of_config_and_set_does_not_matter(
    cli: Cli, flowers: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f"source: {flowers}\ndataset: ds\nlimit: 1\njson: true\ndry_run: true\n")
    for args in (
        ["--set", "limit=2", "--config", config, "--set", "jobs=1"],
        ["--config", config, "--set", "jobs=1", "--set", "limit=2"],
    ):
        found = json.loads(cli("pack", *args).out)["options"]
        assert (found["limit"], found["jobs"]) == (2, 1)
    monkeypatch.setenv("TOOLKIT_CONFIG", str(config))
    monkeypatch.setenv("TOOLKIT_SET", "limit=3 jobs=1")
    found = json.loads(cli("pack").out)["options"]
    assert (found["limit"], found["jobs"]) == (3, 1)
    assert json.loads(cli("pack", "--set", "jobs=2").out)["options"]["limit"] == 1


@pytest.mark.parametrize(
    ("key", "in_yaml", "in_set", "twin", "flags", "shown"),
    [
        ("shard_size", "1MB", "2MB", "3MB", ["--shard-size", "4MB"], [10**6, 2 * 10**6, 3 * 10**6, 4 * 10**6]),
        ("label_mode", "none", "auto", "none", ["--label-mode", "auto"], ["none", "auto", "none", "auto"]),
        ("user_metadata", "{a: '1'}", "a=2", "a=3", ["--user-metadata", "a=4"], [{"a": n} for n in "1234"]),
        ("max_rejects", "1%", "2", "3%", ["--max-rejects", "4"], ["1%", 2, "3%", 4]),
        ("require_labels", "true", "false", "true", ["--require-labels"], [True, False, True, True]),
    ],
)
def test_levels_of_every_type(
    options: Any,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    in_yaml: str,
    in_set: str,
    twin: str,
    flags: list[str],
    shown: list[Any],
) -> None:
    with config.open("a") as file:
        file.write(f"{key}: {in_yaml}\n")
    setting = ["--set", f"{key}={in_set}"]
    found = [options()[key], options(*setting)[key]]
    monkeypatch.setenv(f"TOOLKIT_{key.upper()}", twin)
    assert [*found, options(*setting)[key], options(*setting, *flags)[key]] == shown


def test_positional_arguments(options: Any, cli: Cli, flowers: Path, config: Path, tmp_path: Path) -> None:
    assert options()["dataset"] == str(tmp_path / "ds")
    assert options("--set", "dataset=other")["dataset"] == "other"
    assert options(flowers / "train")["source"] == str(flowers / "train")
    assert options(flowers, "mine")["dataset"] == "mine"
    config.write_text("limit: 1\n")
    ended = cli("pack", flowers, "--config", config)
    assert ended.code == 2
    assert "Missing argument 'DATASET'" in ended.err


def test_paths_of_the_config_are_relative_to_it(
    cli: Cli, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project/configs").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project/photos").symlink_to(flowers)
    (tmp_path / "project/configs/classes.txt").write_text("tulip\nrose\ndaisy\n")
    (tmp_path / "elsewhere/classes.txt").write_text("tulip\n")
    file = tmp_path / "project/configs/pack.yaml"
    file.write_text("source: ../photos\ndataset: ../ds\nclasses: classes.txt\nquiet: true\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli("pack", "--config", "../project/configs/pack.yaml").code == 0
    assert (tmp_path / "project/ds/manifest.json").exists()
    assert cli("pack", "--config", "../project/configs/pack.yaml", "--set", "dataset=ds").code == 0
    assert (tmp_path / "elsewhere/ds/manifest.json").exists()
    ended = cli("pack", "--config", "../project/configs/pack.yaml", "--set", "classes=classes.txt")
    assert ended.code == 2


def test_a_config_packs_what_the_flags_pack(cli: Cli, flowers: Path, config: Path, tmp_path: Path) -> None:
    config.write_text(f"source: {flowers}\ndataset: a\nshard_size: 64KiB\nuser_metadata: {{owner: me}}\njobs: 2\n")
    from_config = cli("pack", "--config", config)
    from_flags = cli("pack", flowers, tmp_path / "b", "--shard-size", "64KiB", "--user-metadata", "owner=me")
    assert from_config.code == from_flags.code == 0
    assert from_config.last_line.split("pin=")[1] == from_flags.last_line.split("pin=")[1]


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("jobs: 1\nlimt: 3\n", [], "pack.yaml:2: unknown key 'limt'. Did you mean 'limit'?"),
        ("jobs: 1\nlimit: many\n", [], "pack.yaml:2: limit: expected a whole number of at least 1, got 'many'"),
        ("limit: [1]\n", ["--limit", "2"], "pack.yaml:1: limit: expected a whole number of at least 1, got a list"),
        ("limit: 1\nlimit: 2\n", [], "pack.yaml:2: 'limit' is given twice, first in line 1"),
        ("limit: 1\n---\n", [], "pack.yaml:2: a second document"),
        ("limit: !!python/name:os.system\n", [], "pack.yaml:1: the tag"),
        ("[]\n", [], "pack.yaml:1: holds no mapping"),
        ("a: b: c\n", [], "pack.yaml:1: not YAML"),
        ("jobs: 1\nshard_size: 10M\n", [], "pack.yaml:2: shard_size: '10M' can mean two sizes: say 10MB"),
        ("max_rejects: 101%\n", [], "pack.yaml:1: max_rejects: '101%' is more than all samples"),
        (f"limit: {10**20}\n", [], "pack.yaml:1: limit: "),
        ("jobs: 1\n", ["--set", "limt=3"], "--set 'limt=3': unknown key 'limt'. Did you mean 'limit'?"),
        ("jobs: 1\n", ["--set", "limit=many"], "--set limit=many: 'many' is not a whole number"),
        ("jobs: 1\n", ["--set", "limit"], "--set 'limit' is not KEY=VALUE"),
        ("jobs: 1\n", ["--set", "quiet=perhaps"], "--set quiet=perhaps: "),
        ("jobs: 1\n", ["--set", "kind=a=imag"], "--set kind=a=imag: 'imag' is not one of image,"),
        ("jobs: 1\n", ["--set", "on_existing=refuze"], "Did you mean 'refuse'?"),
    ],
)
def test_mistakes(cli: Cli, config: Path, text: str, flags: list[str], said: str) -> None:
    config.write_text(text)
    for command in (["pack", "a", "b", "--config", config], ["config", "check", config]):
        if "--limit" in flags and command[0] == "config":
            continue
        ended = cli(*command, *flags)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err
        assert ended.err.startswith("error: ")
        assert ended.err.count("\n") == 1
    document = json.loads(cli("pack", "a", "b", "--config", config, *flags, "--json").out)
    assert document["error"]["type"] == "UsageError"


def test_no_config(cli: Cli, config: Path) -> None:
    config.write_text("limit: 1\n")
    for command in (["pack", "a", "b", "--config"], ["config", "check"]):
        ended = cli(*command, config.with_name("pakc.yaml"))
        assert ended.code == 2
        assert "no config at" in ended.err
        assert "Did you mean 'pack.yaml'?" in ended.err
    assert cli("config", "check", config.parent).code == 2


def test_errors_are_json_when_the_config_says_so(cli: Cli, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("source: nowhere\ndataset: ds\njson: true\n")
    assert json.loads(cli("pack", "--config", config).out)["error"]["type"] == "NotFoundError"
    assert cli("pack", "--config", config, "--set", "json=false").out == ""
    assert cli("pack", "--set", "json=false", "--config", config).out == ""
    monkeypatch.setenv("TOOLKIT_JSON", "0")
    assert cli("pack", "--config", config).out == ""
    config.write_text("source: nowhere\ndataset: ds\ndebug: true\n")
    assert "Traceback" in cli("pack", "--config", config).err
    assert "Traceback" not in cli("pack", "--config", config, "--set", "debug=no").err
    assert "Traceback" in cli("pack", "--config", config, "--set", "debug=no", "--debug").err


# --- toolkit config ----------------------------------------------------------------------------------------------


def test_check_says_where_values_come_from(cli: Cli, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("limit: 1\njobs: 2\n")
    monkeypatch.setenv("TOOLKIT_SHARD_SIZE", "1MB")
    document = json.loads(cli("config", "check", config, "--set", "jobs=3").out)
    found = {
        key: (document["options"][key], document["from"][key]) for key in ("limit", "jobs", "shard_size", "source")
    }
    assert found == {
        "limit": (1, "config"),
        "jobs": (3, "set"),
        "shard_size": (1_000_000, "environment"),
        "source": (None, "default"),
    }
    monkeypatch.setenv("TOOLKIT_SHARD_SIZE", "lots")
    ended = cli("config", "check", config)
    assert ended.code == 2
    assert "TOOLKIT_SHARD_SIZE: 'lots' is not a size" in ended.err
    monkeypatch.delenv("TOOLKIT_SHARD_SIZE")
    config.write_text("shard_size: 1000\n")
    assert "too small" in cli("config", "check", config).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("map: {a: b}\ncolumns: [b]", "leave --columns out"),
        ("map: {a: b}\nkind: {c: image}", "--kind names 'c', which --map hasn't"),
        ("columns: [img, img]", "names 'img' twice"),
        ("rename: {img: x, cap: x}", "two fields would become the column 'x'"),
        ("columns: [img, cap]\nrename: {img: x, cap: x}", "two fields would become the column 'x'"),
        ("map: {__key__: img}", "'__key__' can't name a column"),
        ("rename: {img: __key__}", "'__key__' can't name a column"),
        ("classes: []", "no class names"),
        ("classes: [a, a]", "'a' is both id 0 and id 1"),
        ('dataset: "a\\0b"', "has a NUL character"),
        ('source: "a\\0b"', "has a NUL character"),
        ("dataset: a@sha256:0123456789ab", "give the folder alone"),
        ('user_metadata: {a: "\\ud800"}', "'\\\\ud800' is not valid UTF-8"),
        (
            "tfrecord_raw: true\nlabel_mode: imagefolder",
            "and --tfrecord-raw (tfrecord) together: leave one of them out",
        ),
        ("source_kind: text\nimage_encoding: raw", "a source of kind text has no images"),
        ("tokenizer: bytes\nimage_encoding: jpeg:90", "means nothing with --tokenizer"),
    ],
)
def test_check_refuses_what_options_alone_tell(cli: Cli, config: Path, text: str, said: str) -> None:
    config.write_text(text)
    ended = cli("config", "check", config)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "unexpected" not in ended.err


@pytest.mark.parametrize(
    "text", ["columns: [img, cap]\nrename: {img: x, other: x}", "key: id\nrename: {img: x, id: x}", "shuffle_seed: 1"]
)
def test_check_passes_what_an_input_may_fit(cli: Cli, config: Path, text: str) -> None:
    config.write_text(text)
    ended = cli("config", "check", config)
    assert (ended.code, ended.err) == (0, "")


def test_schema(cli: Cli) -> None:
    found = schema(cli)
    assert list(found["properties"]) == list(KEYS)
    assert found["properties"]["limit"]["description"] == "At most N samples of each split."
    assert all(one["description"] for one in found["properties"].values())
    assert not fits({"limt": 3}, found)
    assert not fits({"limit": "many"}, found)
    assert not fits([], found)
    assert fits({}, found)


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_the_schema_takes_our_configs(cli: Cli, file: Path) -> None:
    import yaml

    assert fits(yaml.safe_load(file.read_text()), schema(cli))


def test_config_alone_is_help(cli: Cli) -> None:
    ended = cli("config")
    assert ended.code == 0
    assert "schema" in ended.out
    assert "check" in ended.out
    assert cli("config", "shcema").code == 2
    assert "Did you mean" in cli("config", "shcema").err


def test_as_a_program(flowers: Path, config: Path) -> None:
    config.write_text(f"source: {flowers}\ndataset: ds\nquiet: true\n")
    assert program("pack", "--config", config).code == 0
