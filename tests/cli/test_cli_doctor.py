from __future__ import annotations

import importlib
import json

import numpy
import PIL
import pyarrow
import pytest
from command import Cli

import toolkit
from toolkit._native.image.program import simd_level
from toolkit._native.shards.sums import crc32c_backend
from toolkit.checks.doctor import pil_flavour
from toolkit.storage.roots import has_openat2


def test_json(cli: Cli) -> None:
    ended = cli("doctor", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert (document["schema"], document["ok"]) == ("toolkit.doctor/1", True)
    assert document["toolkit"] == toolkit.__version__
    assert document["processors_usable"] >= 1
    found = {component["name"]: component for component in document["components"]}
    assert found["numpy"]["version"] == numpy.__version__
    assert found["pyarrow"]["version"] == pyarrow.__version__
    assert found["PIL"]["version"] == PIL.__version__
    assert found["PIL"]["detail"].startswith("Pillow")
    assert found["SIMD level"]["version"] == simd_level()
    assert found["CRC32C"]["version"] == crc32c_backend()
    assert found["openat2"]["ok"] is has_openat2()
    assert not found["openat2"]["needed"]
    assert found["resizes"]["version"] == "Pillow 12"
    assert found["libjpeg-turbo"]["version"][0].isdigit()
    assert found["codec JPEG"]["ok"]
    assert not found["torch"]["needed"]


def test_for_people(cli: Cli) -> None:
    ended = cli("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert ended.last_line == "everything needed works"


def fail_to_import(monkeypatch: pytest.MonkeyPatch, broken: str, error: Exception) -> None:
    real = importlib.import_module

    def import_module(name: str, package: str | None = None) -> object:
        if name == broken:
            raise error
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", import_module)


def test_missing_optional(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_import(monkeypatch, "torch", ModuleNotFoundError("No module named 'torch'", name="torch"))
    ended = cli("doctor")
    assert ended.code == 0
    assert "torch: pip install 'toolkit[torch]'" in ended.out


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("polars", ModuleNotFoundError("No module named 'polars'", name="polars"), "polars: pip install polars"),
        ("pyarrow", ImportError("libarrow.so: wrong ELF class"), "wrong ELF class"),
        ("toolkit._native.image.program", ImportError("libjpeg.so.62: cannot open"), "pip install -e ."),
    ],
)
def test_broken(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, said: str) -> None:
    fail_to_import(monkeypatch, name, error)
    ended = cli("doctor")
    assert ended.code == 1
    assert said in ended.out
    assert ended.last_line.startswith("something needed is broken")
    assert json.loads(cli("doctor", "--json").out)["ok"] is False


@pytest.mark.parametrize(
    ("version", "installed", "flavour"),
    [
        ("11.0.0", {"pillow": "11.0.0"}, "Pillow"),
        ("9.5.0.post2", {"pillow-simd": "9.5.0.post2"}, "Pillow-SIMD"),
        ("9.5.0.post2", {"pillow-simd": "9.5.0.post2", "pillow": "11.0.0"}, "Pillow-SIMD"),
        ("9.5.0", {"pillow-simd": "9.5.0"}, "Pillow-SIMD"),
        (
            "11.0.0",
            {"pillow-simd": "9.5.0.post2", "pillow": "11.0.0"},
            "Pillow, which overwrote Pillow-SIMD 9.5.0.post2",
        ),
        ("11.0.0", {}, "Pillow"),
    ],
)
def test_which_pil_runs(version: str, installed: dict[str, str], flavour: str) -> None:
    found, fix = pil_flavour(version, installed)
    assert found == flavour
    assert bool(fix) is ("overwrote" in flavour)
