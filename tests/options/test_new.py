"""What a new option costs: one field. It is found in flag, twin, YAML, schema, keyword, journal and echo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pictures import make_folder

ROOT = Path(__file__).parents[2]
FIELD = '    dummy: int = option(Whole(0), "A number that SOURCE has no use for.", 7, in_journal=True)\n'

# A program with one more field in one file.
PROGRAM = r"""
import contextlib, io, json, os, runpy, sys, types
from pathlib import Path

root, field, folder = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
home = root / "toolkit/pack/job.py"
before = "    source_kind: str | None = option("
text = home.read_text()
assert text.count(before) == 1
module = types.ModuleType("toolkit.pack.job")
sys.modules[module.__name__] = module
exec(compile(text.replace(before, field + before), str(home), "exec"), vars(module))

from toolkit.cli.main import run

os.chdir(folder)


def said(*args, code=0):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        ended = run(args)
    assert ended == code, (args, ended, err.getvalue())
    return out.getvalue() + err.getvalue()


def echoed(*args):
    return json.loads(said("pack", "photos", "ds", "--dry-run", "--json", *args))["options"]["dummy"]


found = {"help": said("pack", "--help"), "default": echoed(), "flag": echoed("--dummy", "1")}
os.environ["TOOLKIT_DUMMY"] = "2"
found["twin"] = echoed()
del os.environ["TOOLKIT_DUMMY"]
Path("pack.yaml").write_text("dummy: 3\n")
found["yaml"] = echoed("--config", "pack.yaml")
found["checked"] = json.loads(said("config", "check", "pack.yaml"))["options"]["dummy"]
found["schema"] = json.loads(said("config", "schema"))["properties"]["dummy"]
Path("pack.yaml").write_text("dummy: -3\n")
found["refused"] = said("config", "check", "pack.yaml", code=2)

front = {}
source = runpy.run_path(str(root / "scripts/make_pack.py"))["front"]()
exec(compile(source, "front", "exec"), front)
found["keyword"] = source
result = front["pack"]("photos", "python", dummy=4)
found["result"] = result.options["dummy"]

import toolkit.pack.run
assembling = sys.modules["toolkit.pack.run"]
assemble = assembling.assemble


def stop(*_):
    raise KeyboardInterrupt


assembling.assemble = stop
said("pack", "photos", "stopped", "--dummy", "5", code=130)
assembling.assemble = assemble
found["journal"] = json.loads(Path("stopped/.journal/job.json").read_text())["dummy"]
found["differs"] = said("pack", "photos", "stopped", code=2)
said("pack", "photos", "stopped", "--dummy", "5")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("new")
    make_folder(folder / "photos", {"cat": 2, "dog": 2})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), FIELD, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_flag_and_twin(found: dict[str, Any]) -> None:
    text = " ".join(found["help"].split())
    assert "--dummy N A number that SOURCE has no use for. [env var: TOOLKIT_DUMMY; default: 7]" in text
    assert (found["default"], found["flag"], found["twin"]) == (7, 1, 2)


def test_yaml_and_schema(found: dict[str, Any]) -> None:
    assert (found["yaml"], found["checked"]) == (3, 3)
    said = {"description": "A number that SOURCE has no use for.", "type": "integer", "minimum": 0}
    assert found["schema"] == said
    assert "pack.yaml:1: dummy: expected a whole number of at least 0, got -3" in found["refused"]


def test_keyword(found: dict[str, Any]) -> None:
    assert "    dummy: int = 7,\n" in found["keyword"]
    assert "        dummy: A number that `source` has no use for.\n" in found["keyword"]
    assert found["result"] == 4


def test_journal(found: dict[str, Any]) -> None:
    assert found["journal"] == 5
    assert "dummy: then 5, now 7" in found["differs"]
