"""What a new step on pixels costs: a class, a kernel in a file of its own, its name in the table, and this test.

The files of tests/new_ops/ are put into a copy of the package and compiled there: each form of a kernel has one that
is tried, whether or not toolkit's own steps use it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NEW = ROOT / "tests/new_ops"
WORDS = ("turn_round", "scale_channels", "even_out", "transpose")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("TOOLKIT_SANITIZED" in os.environ, reason="it compiles a module of its own, without sanitizers"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of toolkit that has the new ops."""
    folder = tmp_path_factory.mktemp("new_ops")
    shutil.copytree(ROOT / "toolkit", folder / "toolkit", ignore=shutil.ignore_patterns("__pycache__"))
    program = folder / "toolkit/_native/image/program"
    for kernel in NEW.glob("*.c"):
        shutil.copy(kernel, program / "ops")
    table = program / "ops.h"
    text = table.read_text()
    assert text.count("    OP(resize)  ") == 1
    table.write_text(text.replace("    OP(resize)  ", "".join(f"    OP({word})" for word in (*WORDS, "resize"))))
    compile_program(folder)
    return folder


def test_a_new_step_on_pixels(dataset: Path, copy: Path) -> None:
    use(copy, "use_turn_round.py", dataset)


def test_kernels_of_all_forms(copy: Path) -> None:
    use(copy, "use_forms.py")


def use(copy: Path, script: str, *args: object) -> None:
    """Run a script of new_ops/ over the copy."""
    run([sys.executable, NEW / script, *args], copy, {"PYTHONPATH": f"{copy}:{ROOT / 'tests'}", "PATH": "/usr/bin"})


def compile_program(folder: Path) -> None:
    """Compile toolkit._native.image.program anew, quickly."""
    source, made = Path("toolkit/_native/image/program.pyx"), folder / "program.c"
    run([sys.executable, "-m", "cython", "-3", "-I", ".", source, "-o", made], folder)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    objects = sorted((folder / source.with_suffix("")).rglob("*.c"))
    include = ["-Itoolkit/_native", f"-I{sysconfig.get_path('include')}"]
    flags = ["-O0", "-w", "-std=gnu11", "-shared", "-fPIC", *include]
    libraries = shlex.split(subprocess.check_output(["pkg-config", "--cflags", "--libs", "libjpeg"], text=True))
    out = folder / f"toolkit/_native/image/program{suffix}"
    run(["gcc", *flags, made, *objects, *libraries, "-lm", "-o", out], folder)


def run(command: list[object], folder: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
