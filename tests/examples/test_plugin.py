"""The example of a plugin keeps the contracts, and works as it is installed; a broken one beside it breaks nothing."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from contracts.output import ListsContract
from contracts.source import Bad, SourceContract
from contracts.step import SAMPLES, StepContract
from made_plugins import EXAMPLE, install, install_example
from pictures import make_folder
from waiting import PATIENCE

from toolkit.errors import SourceError
from toolkit.loader.outputs import registry
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.pipelines.registry import STEPS, forget

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example, as if it were installed in this process."""
    monkeypatch.syspath_prepend(install_example(tmp_path / "site"))
    monkeypatch.setattr(registry, "_loaded", {})
    yield
    if "noise" in STEPS:
        forget("noise")
    for module in [name for name in sys.modules if name.partition(".")[0] == "toolkit_example"]:
        del sys.modules[module]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    make_folder(tmp_path / "src", {"train/ant": 10, "train/bee": 8, "val/ant": 10, "val/bee": 10})
    pack(PackJob(source=str(tmp_path / "src"), dataset=str(tmp_path / "ds")))
    return tmp_path / "ds"


@pytest.mark.usefixtures("installed")
class TestNoise(StepContract):
    word = "noise"
    arguments = 'sigma=0.25, name="x"'
    before = '.array("float32", (3,))'
    values = pa.array([np.arange(3, dtype=np.float32).tobytes()] * SAMPLES)


@pytest.mark.usefixtures("installed")
class TestLists(ListsContract):
    """The example's."""


def write_rows(path: Path, rows: int, start: int = 0) -> None:
    path.parent.mkdir(exist_ok=True)
    save_rows(path, np.arange(start, start + 3 * rows).reshape(rows, 3))


def save_rows(path: Path, rows: np.ndarray[Any, np.dtype[Any]]) -> None:
    path.write_bytes(b"ROWS" + struct.pack("<I", rows.shape[1]) + rows.astype("<f4").tobytes())


@pytest.mark.usefixtures("installed")
class TestRows(SourceContract):
    kind = "rows"

    def good(self, root: Path) -> Path:
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            write_rows(root / f"in/{name}.rows", rows)
        return root / "in"

    def bad(self, root: Path) -> Bad:
        save_rows(root / "x.rows", np.array([[1, 2], [3, np.nan], [5, 6]]))
        return Bad(root / "x.rows", "x.rows", "x.rows#1")

    def test_files_that_are_none_of_it_are_named(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "in/a.rows", 4)
        save_rows(tmp_path / "in/b.rows", np.zeros((4, 2)))
        with pytest.raises(SourceError, match=r"b\.rows' has rows of 2 numbers, and '.*a\.rows' of 3: pack them apart"):
            self.source(tmp_path / "in").survey()
        (tmp_path / "in/b.rows").write_bytes((tmp_path / "in/a.rows").read_bytes()[:-1])
        with pytest.raises(SourceError, match=r"b\.rows' is no \.rows file, or ends within a row"):
            self.source(tmp_path / "in").survey()
        save_rows(tmp_path / "in/b.rows", np.zeros((0, 3)))
        assert self.source(tmp_path / "in").survey().skipped_names == {"empty": ("b.rows",)}

    def test_a_value_that_is_too_large_is_rejected(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "in/a.rows", 4)
        source = self.source(tmp_path / "in", max_value_bytes=11)
        survey = source.survey()
        (rows,) = source.read(survey, survey.slices[0])
        assert [one.key for one in rows.rejects] == [f"a.rows#{i}" for i in range(4)]


USE = """
import toolkit
from toolkit import slot

images = slot("image").decode_image().resize((2, 2)).normalize("unit")
ds = toolkit.open("ds", split="train")


def load(images, **options):
    return [batch["image"] for batch in ds.loader(toolkit.pipeline(images), batch_size=2, seed=1, **options)]


plain, noisy = load(images, output="lists"), load(images.noise(0.5), output="lists")
assert plain != noisy == load(images.noise(0.5), output="lists", threads=2)
assert isinstance(noisy[0][0][0][0][0], float)
assert load(images)[0].tolist() == plain[0]
print(images.noise(0.5))
"""


class Installed:
    """A folder that pip installed the example into, and what is run with it."""

    paths: ClassVar[list[str]] = [str(ROOT)]

    def __init__(self, site: Path, work: Path) -> None:
        self.site, self.work = site, work

    def run(self, *command: object, code: int = 0) -> str:
        """Run a program of Python's with the folder on its path; return what it printed."""
        known = {name: value for name, value in os.environ.items() if not name.startswith("TOOLKIT_")}
        known["PYTHONPATH"] = os.pathsep.join([*self.paths, str(self.site)])
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=self.work,
            env=known,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def toolkit(self, *arguments: object, code: int = 0) -> str:
        """Run the command line."""
        return self.run("-m", "toolkit.cli.main", *arguments, code=code)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed by pip from a copy of its folder."""
    base = tmp_path_factory.mktemp("plugin")
    sources = shutil.copytree(EXAMPLE, base / "sources")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(base / "site")]
    command = [sys.executable, "-m", "pip", "install", *options, str(sources)]
    done = subprocess.run(command, cwd=base, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return base / "site"


@pytest.fixture
def program(site: Path, tmp_path: Path) -> Installed:
    """The example in a folder that a test may add packages to, and one to work in with a dataset."""
    work = tmp_path / "work"
    work.mkdir()
    made = Installed(Path(shutil.copytree(site, tmp_path / "site")), work)
    make_folder(work / "photos", {"train/ant": 3, "train/bee": 3})
    pack(PackJob(source=str(work / "photos"), dataset=str(work / "ds")))
    return made


def test_it_works_as_it_is_installed(program: Installed) -> None:
    said = program.run("-W", "error", "-c", USE)
    assert said == 'slot("image").decode_image().resize((2, 2)).normalize("unit").noise(0.5)\n'.replace(
        "noise(0.5)", "noise(sigma=0.5)"
    )
    bench = program.toolkit("bench", "ds", "--output", "lists", "--repeats", "1", "--threads", "1", "--json")
    assert json.loads(bench)["schema"] == "toolkit.bench/1"
    assert "is not one of numpy, torch, jax, lists. Did you mean 'lists'?" in program.toolkit(
        "bench", "ds", "--output", "list", code=2
    )
    write_rows(program.work / "in/train.rows", 5)
    assert "the headers of files are read" in program.toolkit("pack", "in", "rows", "--dry-run")
    program.toolkit("pack", "in", "rows")
    assert "is not one of coco" in program.toolkit("pack", "in", "rows2", "--source-kind", "row", code=2)
    program.toolkit("pack", "in", "rows2", "--source-kind", "rows")
    (program.work / "pack.yaml").write_text("source: in\ndataset: rows3\nsource_kind: rows\n")
    assert '"source_kind": "rows"' in program.toolkit("config", "check", "pack.yaml")
    assert "rows" in json.loads(program.toolkit("config", "schema"))["properties"]["source_kind"]["enum"]
    pack_it = "import toolkit; print(toolkit.pack('in', 'rows4', source_kind='rows').samples)"
    assert program.run("-c", pack_it) == "5\n"
    load = "import toolkit; print(toolkit.open('rows')[4]['x'], toolkit.open('rows2').pin == toolkit.open('rows').pin)"
    assert program.run("-c", load) == "[12.0, 13.0, 14.0] True\n"
    shown = program.toolkit("doctor")
    assert "source  rows   toolkit-example 1.0  ok     toolkit_example.rows:SPEC" in shown
    assert "step    noise  toolkit-example 1.0  ok     toolkit_example.noise:Noise" in shown
    assert "output  lists  toolkit-example 1.0  ok     toolkit_example.lists:SPEC" in shown


def test_broken_plugins_break_nothing_else(program: Installed) -> None:
    points = {
        "toolkit.steps": {"noise2": "made_broken:Noise", "hflip": "made_broken:Flip", "odd name": "made_broken:Odd"},
        "toolkit.sources": {"odd": "made_broken:SPEC", "text": "made_broken:SPEC"},
        "toolkit.outputs": {"numpy": "made_broken:SPEC", "odd": "made_broken:SPEC"},
    }
    install(program.site, "made-broken", points, module="raise RuntimeError('\\x1b[31mred')")
    install(program.site, "made-rival", {"toolkit.outputs": {"lists": "made_rival:SPEC"}}, version="2")
    assert "Usage: toolkit" in program.toolkit("--help")
    assert "Usage: toolkit pack" in program.toolkit("pack", "--help")
    program.toolkit("pack", "photos", "again")
    program.toolkit("verify", "again")
    uses_none = USE.partition("plain, noisy")[0] + "print(load(images)[0].shape, toolkit.chain().hflip())"
    assert program.run("-W", "error", "-c", uses_none) == "(2, 3, 2, 2) chain().hflip()\n"

    document = json.loads(program.toolkit("doctor", "--json"))
    assert document["ok"]
    states = {(one["kind"], one["name"], one["package"]): one["fault"] for one in document["plugins"]}
    red = "it can't be imported: RuntimeError: \x1b[31mred. Update made-broken, or uninstall it"
    target = "of made-broken 1.0 (entry point made_broken"
    assert states[("step", "noise", "toolkit-example 1.0")] == ""
    assert states[("step", "noise2", "made-broken 1.0")] == f"the step 'noise2' {target}:Noise): {red}"
    assert states[("step", "hflip", "made-broken 1.0")] == f"the step 'hflip' {target}:Flip): {red}"
    assert states[("step", "odd name", "made-broken 1.0")] == f"the step 'odd name' {target}:Odd): {red}"
    assert states[("output", "numpy", "made-broken 1.0")] == f"the output 'numpy' {target}:SPEC): {red}"
    both = "the output 'lists' is added by made-rival 2 (entry point made_rival:SPEC) and toolkit-example 1.0 "
    assert states[("output", "lists", "toolkit-example 1.0")].startswith(both)
    assert "uninstall all but one" in states[("output", "lists", "toolkit-example 1.0")]
    shown = program.toolkit("doctor")
    assert "\x1b" not in shown
    assert "step    noise2    made-broken 1.0      broken  made_broken:Noise" in shown

    for code, said in {
        "slot('x').noise2()": f"PluginWordError: the step 'noise2' {target}:Noise): it can't be imported: RuntimeError",
        "toolkit.open('ds').loader(batch_size=2, output='odd')": f"PluginError: the output 'odd' {target}:SPEC): it",
        "toolkit.open('ds').loader(batch_size=2, output='lists')": f"PluginError: {both}",
    }.items():
        assert said in program.run("-c", f"import toolkit; from toolkit import slot; {code}", code=1)
