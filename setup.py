"""Compiles toolkit/_native: each .pyx is one extension, joined with the .c files whose names start with its stem.

Everything else about the build stands in pyproject.toml.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

NATIVE = Path("toolkit/_native")
# Extension stem -> (pkg-config module, Debian package, Fedora package).
LIBJPEG = ("libjpeg", "libjpeg62-turbo-dev", "libjpeg-turbo-devel")
SYSTEM_LIBRARIES = {"encode": LIBJPEG, "image": LIBJPEG}
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-cast-function-type"]
# No fused multiplications and additions: results are those of numpy and PIL, bit for bit, on every machine.
COMPILE_ARGS = ["-O3", "-std=gnu11", "-ffp-contract=off", *WARNINGS]


def _pkg_config(module: str, debian: str, fedora: str) -> dict[str, list[str]]:
    """Return include and link flags of a system library, or stop the build with the command that installs it."""
    if shutil.which("pkg-config") is None:
        sys.exit("toolkit: pkg-config is missing. Install it: apt-get install pkg-config")
    if subprocess.run(["pkg-config", "--exists", module]).returncode != 0:
        sys.exit(
            f"toolkit: the headers of {module} are missing. Install them: apt-get install {debian} "
            f"(Fedora: dnf install {fedora})"
        )

    def flags(option: str) -> list[str]:
        return subprocess.check_output(["pkg-config", option, module], text=True).split()

    return {"extra_compile_args": flags("--cflags"), "extra_link_args": flags("--libs")}


def _extension(pyx: Path) -> Extension:
    system = SYSTEM_LIBRARIES.get(pyx.stem)
    flags = _pkg_config(*system) if system else {"extra_compile_args": [], "extra_link_args": []}
    sources = [pyx, *sorted(NATIVE.glob(f"{pyx.stem}_*.c"))]
    return Extension(
        f"toolkit._native.{pyx.stem}",
        [str(path) for path in sources],
        depends=[str(path) for path in sorted(NATIVE.glob("*.h"))],
        extra_compile_args=COMPILE_ARGS + flags["extra_compile_args"],
        extra_link_args=flags["extra_link_args"],
    )


setup(
    ext_modules=cythonize(
        [_extension(pyx) for pyx in sorted(NATIVE.glob("*.pyx"))],
        compiler_directives={"language_level": 3, "embedsignature": True, "freethreading_compatible": False},
    )
)
