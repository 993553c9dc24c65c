"""What toolkit finds on this machine: versions, codecs, loops in use, which PIL runs, processors, memory."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

from toolkit.checks.plugins import PluginFacts, plugin_facts
from toolkit.loader.outputs.registry import every
from toolkit.memory.system import SystemMemory
from toolkit.pipelines.image.geometry import RESIZES_AS
from toolkit.pipelines.image.libjpeg import libjpeg_turbo
from toolkit.processors import processors
from toolkit.storage.roots import has_openat2
from toolkit.version import __version__

__all__ = ["Component", "Environment", "doctor", "pil_flavour"]

_LIBRARIES = ("numpy", "pyarrow", "polars", "PIL", "msgspec", "xxhash", "fsspec", "yaml", "typer", "rich")
_DISTRIBUTIONS = {"PIL": "pillow", "yaml": "PyYAML"}
_NATIVE = ("image.program", "image.encode", "shards.body", "order.permute")
_REBUILD = "build the extensions: pip install -e . (needs a C compiler and the headers of libjpeg-turbo)"
_CODECS = {"JPEG": "jpg", "PNG": "zlib", "WebP": "webp", "TIFF": "libtiff", "JPEG 2000": "jpg_2000"}


@dataclass(frozen=True, kw_only=True)
class Component:
    """A part that is there or not.

    Attributes:
        version: Its version; None when it isn't there.
        needed: Whether toolkit works without it.
        ok: It is there and can be used.
        detail: What else is worth knowing.
        fix: What to do when it isn't ok, or not what was meant.
    """

    name: str
    version: str | None
    needed: bool
    ok: bool
    detail: str = ""
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything `toolkit doctor` shows; memory in bytes, None where the system doesn't tell.

    `ok` says nothing of plugins: what doesn't use one that is broken works.
    """

    toolkit: str
    python: str
    platform: str
    processor: str
    processors: int
    processors_usable: int
    memory_bytes: int | None
    memory_available_bytes: int | None
    memory_limit_bytes: int | None
    memory_limit_source: str | None
    components: tuple[Component, ...]
    plugins: tuple[PluginFacts, ...]

    @property
    def ok(self) -> bool:
        """Whether everything needed works."""
        return all(component.ok for component in self.components if component.needed)

    def brief(self) -> dict[str, object]:
        """Return what a benchmark's figures depend on."""
        versions = {
            c.name: f"{c.version} {c.detail}" if c.name == "PIL" else c.version for c in self.components if c.ok
        }
        return {
            "toolkit": self.toolkit,
            "python": self.python,
            "platform": self.platform,
            "processor": self.processor,
            "processors_usable": self.processors_usable,
            "memory_bytes": self.memory_bytes,
            "versions": versions,
        }


def doctor(system: SystemMemory | None = None) -> Environment:
    """Look at this machine. Imports every library it reports, so that a broken one is found.

    The memory limit is the one with the least room, that of a control group or the machine's: the one that
    toolkit.set_memory_guard("auto") goes by.
    """
    components = [
        *(_library(name) for name in _LIBRARIES),
        *(_native(name) for name in _NATIVE),
        _guarded("libjpeg-turbo", _libjpeg_turbo),
        _guarded("SIMD level", _simd),
        _guarded("CRC32C", _crc32c),
        _openat2(),
        Component(
            name="resizes",
            version=RESIZES_AS,
            needed=True,
            ok=True,
            detail="is what they equal, and Pillow-SIMD 12; Pillow 13 differs with bicubic and lanczos",
        ),
        *_codecs(),
        *(_library(output.package, output.install) for output in every() if output.package),
    ]
    system = SystemMemory() if system is None else system
    machine, tightest = system.machine(), system.tightest()
    return Environment(
        toolkit=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        processor=_processor(),
        processors=os.cpu_count() or 1,
        processors_usable=processors(),
        memory_bytes=machine.get("MemTotal", _total_bytes()),
        memory_available_bytes=machine.get("MemAvailable"),
        memory_limit_bytes=tightest.limit if tightest else None,
        memory_limit_source=tightest.source if tightest else None,
        components=tuple(components),
        plugins=plugin_facts(),
    )


def pil_flavour(version: str, installed: dict[str, str]) -> tuple[str, str]:
    """Return which PIL runs and what to do about it.

    Pillow-SIMD is Pillow plus patches under the same import name; only its versions end in ".post<n>".

    Args:
        version: PIL.__version__.
        installed: Versions of the distributions "pillow" and "pillow-simd" that are installed.
    """
    simd = installed.get("pillow-simd")
    if ".post" in version or (simd == version and installed.get("pillow") != version):
        return "Pillow-SIMD", ""
    if simd is not None:
        return (
            f"Pillow, which overwrote Pillow-SIMD {simd}",
            "pip uninstall -y pillow && pip install --force-reinstall --no-deps pillow-simd",
        )
    return "Pillow", ""


def _library(name: str, install: str = "") -> Component:
    needed = not install
    fix = install or f"pip install {_DISTRIBUTIONS.get(name, name)}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return Component(name=name, version=None, needed=needed, ok=False, detail="not installed", fix=fix)
        return _broken(name, error, needed, fix)
    except Exception as error:  # a library may fail in any way when its parts don't fit
        return _broken(name, error, needed, fix)
    version = str(getattr(module, "__version__", None) or _distribution_version(_DISTRIBUTIONS.get(name, name)) or "?")
    detail = hint = ""
    if name == "PIL":
        known = {dist: _distribution_version(dist) for dist in ("pillow", "pillow-simd")}
        detail, hint = pil_flavour(version, {dist: found for dist, found in known.items() if found})
    return Component(name=name, version=version, needed=needed, ok=True, detail=detail, fix=hint)


def _broken(name: str, error: Exception, needed: bool, fix: str) -> Component:
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return Component(name=name, version=None, needed=needed, ok=False, detail=f"can't be imported: {what}", fix=fix)


def _distribution_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _native(name: str) -> Component:
    full = f"toolkit._native.{name}"
    try:
        importlib.import_module(full)
    except Exception as error:
        return _broken(full, error, True, _REBUILD)
    return Component(name=full, version=__version__, needed=True, ok=True, detail="compiled")


def _guarded(name: str, find: Callable[[], tuple[str, str]]) -> Component:
    """Return the component that `find` (-> version, detail) tells about a native module, which may be missing."""
    try:
        version, detail = find()
    except Exception as error:
        return _broken(name, error, True, _REBUILD)
    return Component(name=name, version=version, needed=True, ok=True, detail=detail)


def _simd() -> tuple[str, str]:
    from toolkit._native.image.program import simd_level

    return simd_level(), "loops that resize and normalize images"


def _crc32c() -> tuple[str, str]:
    from toolkit._native.shards.sums import crc32c_backend

    return crc32c_backend(), "checksums of what is read"


def _openat2() -> Component:
    there = has_openat2()
    return Component(
        name="openat2",
        version="there" if there else None,
        needed=False,
        ok=there,
        detail="opens files of references below their roots"
        if there
        else "files of references are opened folder by folder: slower, and none behind a link is read",
        fix="" if there else "Linux 5.6 or later, and a container that lets programs call openat2",
    )


def _libjpeg_turbo() -> tuple[str, str]:
    """Return version and file of the libjpeg-turbo that toolkit's own decoder calls, not the one inside PIL."""
    from toolkit._native.image import program as image

    return libjpeg_turbo(image.__file__)


def _codecs() -> list[Component]:
    try:
        from PIL import features
    except Exception as error:
        return [_broken("codecs", error, True, "pip install pillow")]
    found = []
    for name, feature in _CODECS.items():
        there = bool(features.check(feature))
        found.append(
            Component(
                name=f"codec {name}",
                version=str(features.version(feature) or "?") if there else None,
                # What ImageFolder packs beside JPEG, which toolkit decodes itself, can be any of them.
                needed=name in ("JPEG", "PNG"),
                ok=there,
                detail="in PIL" if there else "PIL was built without it",
                fix="" if there else "install a wheel of pillow, or build it with this library",
            )
        )
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _total_bytes() -> int | None:
    """Return the machine's memory where there is no /proc to tell."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if sys.platform == "darwin" else None
