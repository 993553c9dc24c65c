"""Compiles toolkit/_native: each .pyx is one extension, joined with the C files of the folder that has its name.

What Cython makes of a .pyx lies in build/cython, so all that lies in toolkit/_native was written by hand.

Everything else about the build stands in pyproject.toml. CFLAGS and LDFLAGS of the environment come last, so they win.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

NATIVE = Path("toolkit/_native")
SHARED = "toolkit._native._shared"  # what Cython would put into each extension that takes arrays: half of its size
SYSTEM_PACKAGES = Path("requirements/system.txt")
SYSTEM_LIBRARIES = {"image.encode": "libjpeg", "image.program": "libjpeg"}  # extension -> pkg-config module
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-cast-function-type"]
# No fused multiplications and additions: results are those of numpy and PIL, bit for bit, on every machine.
# Signed numbers wrap, as CPython's own flags have it; a distribution's may not. Nothing reads errno
# of sqrt, and with it no loop of roots becomes one of vectors.
LANGUAGE = ["-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fwrapv"]
HARDENING = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
LINK_ARGS = ["-Wl,-z,relro", "-Wl,-z,now"] if sys.platform == "linux" else []
# A wheel is for running; an editable install and a build in place keep what debuggers and profilers read: symbols, and
# tables for unwinding, which are a twelfth of a module and nothing here unwinds by.
FOR_WHEEL = sys.platform == "linux" and "bdist_wheel" in sys.argv
STRIP = ["-Wl,-s"] if FOR_WHEEL else []
NO_TABLES = ["-fno-asynchronous-unwind-tables"] if FOR_WHEEL else []


def _is_there(how: str) -> bool:
    kind, _, name = how.partition(":")
    if kind == "tool":
        return shutil.which(name) is not None or (name == "gcc" and bool(os.environ.get("CC") or shutil.which("cc")))
    if kind == "header":
        return Path(sysconfig.get_path("include"), name).exists()
    return shutil.which("pkg-config") is not None and subprocess.run(["pkg-config", "--exists", name]).returncode == 0


def _check_system() -> None:
    """Stop the build with the command that installs what is missing."""
    rows = [
        line.split() for line in SYSTEM_PACKAGES.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")
    ]
    missing = [(apt, dnf) for use, how, apt, dnf in rows if use == "build" and not _is_there(how)]
    if missing:
        apt, dnf = (" ".join(names) for names in zip(*missing, strict=True))
        sys.exit(f"toolkit: system packages are missing: apt-get install {apt} (Fedora: dnf install {dnf})")


def _pkg_config(option: str, module: str | None) -> list[str]:
    if module is None:
        return []
    return shlex.split(subprocess.check_output(["pkg-config", option, module], text=True))


def _of_environment(name: str) -> list[str]:
    return shlex.split(os.environ.get(name, ""))


def _extension(pyx: Path) -> Extension:
    name = ".".join(pyx.relative_to(NATIVE).with_suffix("").parts)
    library = SYSTEM_LIBRARIES.get(name)
    sources = [pyx, *sorted(pyx.with_suffix("").rglob("*.c"))]
    return Extension(
        f"toolkit._native.{name}",
        [str(path) for path in sources],
        include_dirs=[str(NATIVE)],
        depends=[str(path) for path in sorted(NATIVE.rglob("*.h"))],
        extra_compile_args=[
            *(*LANGUAGE, *HARDENING, *NO_TABLES, *WARNINGS, *_pkg_config("--cflags", library)),
            *_of_environment("CFLAGS"),
        ],
        extra_link_args=[*LINK_ARGS, *STRIP, *_pkg_config("--libs", library), *_of_environment("LDFLAGS")],
    )


def _shared() -> Extension:
    path = Path(*SHARED.split(".")).with_suffix(".c")  # which Cython makes
    return Extension(
        SHARED,
        [str(path)],
        extra_compile_args=[*LANGUAGE, *HARDENING, *NO_TABLES, *_of_environment("CFLAGS")],
        extra_link_args=[*LINK_ARGS, *STRIP, *_of_environment("LDFLAGS")],
    )


def _extensions() -> list[Extension]:
    found = sorted(NATIVE.rglob("*.pyx"))
    if not found:
        sys.exit(
            f"toolkit: no .pyx file in {NATIVE.resolve()}: these sources are incomplete, and nothing would be compiled"
        )
    _check_system()
    return [*map(_extension, found), _shared()]


setup(
    ext_modules=cythonize(
        _extensions(),
        build_dir="build/cython",
        shared_utility_qualified_name=SHARED,
        compiler_directives={"language_level": 3, "embedsignature": True, "freethreading_compatible": False},
    ),
    options={"build_ext": {"parallel": os.cpu_count()}},
)
