"""What is released installs: sdist and wheel, each into a clean environment, and each packs and loads.

Nothing is fetched: the environments see the packages that run the tests, all but toolkit itself.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from pictures import make_folder

ROOT = Path(__file__).parents[2]
LOAD = """
import sys, toolkit
steps = toolkit.slot("image").decode_image().resize_short(8).center_crop(8)
dataset = toolkit.open(sys.argv[1], split="train")
with dataset.loader(toolkit.pipeline(steps), batch_size=4, shuffle="full", seed=0) as loader:
    shapes = [batch["image"].shape for batch in loader]
print(toolkit.__file__, len(dataset), shapes)
"""
_DOCUMENTS = ("README.md", "SECURITY.md", "LICENSE")
_SOURCES = ("toolkit", "requirements", "setup.py", "pyproject.toml", "MANIFEST.in", *_DOCUMENTS)
_MADE = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")


def run(*command: str | Path, cwd: Path, fails: bool = False, **variables: str) -> str:
    """Run a program without what would lead it to the repository; return what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "TOOLKIT_"))}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**environment, **variables}, capture_output=True, text=True, timeout=500
    )
    assert (done.returncode != 0) == fails, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the repository holds, without what was compiled in it."""
    folder = tmp_path_factory.mktemp("release") / "sources"
    folder.mkdir()
    for name in _SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=_MADE)
        else:
            shutil.copy(path, folder / name)
    return folder


@pytest.fixture(scope="module")
def sdist(sources: Path) -> Path:
    script = "from setuptools import build_meta; build_meta.build_sdist('../dist')"
    run(sys.executable, "-c", script, cwd=sources)
    (found,) = (sources.parent / "dist").glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel that is made from the sdist, as a release makes it."""
    out = sdist.parent / "wheel"
    pip(Path(sys.executable), "wheel", "--wheel-dir", out, sdist, cwd=sdist.parent)
    (found,) = out.glob("*.whl")
    return found


def pip(python: Path, action: str, *arguments: str | Path, cwd: Path, **variables: str) -> None:
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "--python", python, action, *options, *arguments, cwd=cwd, **variables)


def clean_environment(folder: Path) -> Path:
    """Make an environment that has every package but toolkit; return its python."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages, python = folder / "packages", folder / "bin/python"
    packages.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(place).iterdir():
            # Links, one by one: pip would else find the toolkit that runs the tests, and replace it.
            if not path.name.startswith(("toolkit", "__editable__")) and path.suffix != ".pth":
                (packages / path.name).symlink_to(path)
    inside = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    Path(inside, "packages.pth").write_text(f"{packages}\n")
    run(python, "-c", "import toolkit", cwd=folder, fails=True)
    return python


def check_it_works(python: Path, folder: Path) -> None:
    program = python.with_name("toolkit")
    found = json.loads(run(program, "doctor", "--json", cwd=folder))
    assert found["ok"], found
    make_folder(folder / "photos", {"cat": 4, "dog": 4})
    run(program, "pack", "photos", "dataset", cwd=folder)
    run(program, "verify", "dataset", "--full", cwd=folder)
    place, rows, shapes = run(python, "-W", "error", "-c", LOAD, "dataset", cwd=folder).strip().split(" ", 2)
    assert Path(place).is_relative_to(python.parents[1])
    assert (rows, shapes) == ("8", "[(4, 8, 8, 3), (4, 8, 8, 3)]")


@pytest.mark.slow
def test_an_sdist_has_every_source_and_nothing_made(sdist: Path) -> None:
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    native = {str(path.relative_to(ROOT)) for path in (ROOT / "toolkit/_native").rglob("*")}
    wanted = {name for name in native if name.endswith((".py", ".pyx", ".pxd", ".pxi", ".pyi", ".c", ".h"))}
    assert len(wanted) > 40
    there = {name for name in names if name.startswith("toolkit/_native/") and Path(name).suffix}
    assert there == wanted
    assert not [name for name in names if name.startswith("build")]
    assert {"LICENSE", "README.md", "SECURITY.md", "requirements/system.txt", "toolkit/py.typed"} <= names


@pytest.mark.slow
def test_a_wheel_holds_what_runs_and_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    assert {Path(name).suffix for name in names if ".dist-info/" not in name} == {".py", ".pyi", ".so", ".typed"}
    modules = [name for name in names if name.endswith(".so")]
    assert len(modules) == len(list((ROOT / "toolkit/_native").rglob("*.pyx"))) + 1  # and what they share
    assert wheel.stat().st_size < 2_500_000, wheel.stat().st_size


@pytest.mark.slow
def test_a_wheel_installs_and_works(wheel: Path, tmp_path: Path) -> None:
    python = clean_environment(tmp_path / "environment")
    pip(python, "install", wheel, cwd=tmp_path)
    check_it_works(python, tmp_path)
    modules = list((tmp_path / "environment").rglob("_native/*/*.so"))
    assert modules
    for module in modules:
        shown = run("readelf", "--wide", "--dynamic", "--program-headers", "--sections", module, cwd=tmp_path)
        assert "BIND_NOW" in shown, module
        assert "GNU_RELRO" in shown, module
        assert ".symtab" not in shown, module
        assert ".debug_info" not in shown, module
    imported = run("readelf", "--wide", "--dyn-syms", *modules, cwd=tmp_path)
    assert "__stack_chk_fail" in imported


@pytest.mark.slow
def test_an_sdist_installs_and_works(sdist: Path, tmp_path: Path) -> None:
    python = clean_environment(tmp_path / "environment")
    # Quick to compile; what it compiles to is looked at in the wheel.
    pip(python, "install", sdist, cwd=tmp_path, CFLAGS="-O0 -w -U_FORTIFY_SOURCE")
    check_it_works(python, tmp_path)


def test_a_build_without_sources_of_modules_fails(tmp_path: Path) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(
        ROOT / "toolkit", tmp_path / "toolkit", ignore=shutil.ignore_patterns("*.pyx", "*.so", "__pycache__")
    )
    script = "import sys; from setuptools import build_meta; build_meta.build_wheel('dist')"
    said = run(sys.executable, "-c", script, cwd=tmp_path, fails=True)
    assert "no .pyx file in" in said
    assert not list(tmp_path.glob("dist/*.whl"))


def test_a_build_names_the_system_packages_that_are_missing(tmp_path: Path) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md", "requirements"):
        path = ROOT / name
        shutil.copytree(path, tmp_path / name) if path.is_dir() else shutil.copy(path, tmp_path / name)
    (tmp_path / "toolkit/_native/room").mkdir(parents=True)
    (tmp_path / "toolkit/_native/room/one.pyx").touch()
    script = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    said = run(sys.executable, "-c", script, cwd=tmp_path, fails=True, PATH="/nowhere", CC="gcc")
    assert "apt-get install pkg-config libjpeg-dev (Fedora: dnf install pkgconf-pkg-config libjpeg-turbo-devel)" in said


def test_documents_name_the_same_system_packages() -> None:
    rows = [line.split() for line in (ROOT / "requirements/system.txt").read_text().splitlines() if line[:1] != "#"]
    needed = [row for row in rows if row[0] == "build"]
    assert len(needed) >= 4
    readme = (ROOT / "README.md").read_text()
    assert f"sudo apt-get install {' '.join(row[2] for row in needed)} " in readme
    assert f"sudo dnf install {' '.join(row[3] for row in needed)} " in readme
    assert f"sudo apt-get install {' '.join(row[2] for row in rows if row[0] == 'dev')}\n" in readme
    workflow = (ROOT / "configs/github_workflow.yaml").read_text()
    assert f"sudo apt-get install -y {' '.join(row[2] for row in needed)}\n" in workflow


def test_every_pin_of_a_registry_has_hashes() -> None:
    for name in ("dev.txt", "simd.txt"):
        text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert lines
        for line in lines:
            assert "==" in line.split()[0], line
            assert "--hash=sha256:" in line, line
    assert [line for line in (ROOT / "requirements/torch.txt").read_text().splitlines() if line[:1] != "#"] == [
        "torch==2.13.0",
        "torchvision==0.28.0",
    ]
