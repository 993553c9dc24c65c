"""Packages with plugins, as an installer leaves them: a module, and a .dist-info that names the entry points."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples/plugin"

STEP = '''
"""A step."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.pipelines import fields
from toolkit.pipelines.state import State, ValueKind
from toolkit.pipelines.value_step import WholeArray, check_stored


@dataclass(frozen=True, slots=True)
class Clip(WholeArray):
    """Refuse numbers above `most`."""

    word = "clip"
    most: int = fields.whole(9, least=0)

    def after(self, state):
        check_stored(state, "a column of numbers", "only numbers are clipped", ValueKind.NUMBER)
        return State(ValueKind.SCALAR, "int64", ())

    def convert_all(self, values):
        return values // 2, values > self.most, f"is more than {self.most}"
'''

OUTPUT = '''
"""An output."""

from toolkit.loader.outputs.spec import OutputSpec
from toolkit.loader.outputs.values import each_inside


class Lists(OutputSpec):
    name = "lists"

    def _converter(self):
        return convert


def convert(values, dtype=None):
    return values.tolist() if hasattr(values, "dtype") else each_inside(values, lambda one: convert(one, dtype))


SPEC = Lists()
'''


def install(
    folder: Path,
    package: str,
    points: Mapping[str, Mapping[str, str]],
    *,
    version: str = "1.0",
    module: str | None = None,
) -> Path:
    """Put a package into a folder of packages, with its entry points by group and name; return the folder.

    Args:
        folder: Of packages: one that stands in sys.path.
        package: Its name; its module's has "_" for "-".
        points: Group -> name -> module:object.
        version: Of the package.
        module: The text of its one module; none when None.
    """
    name = package.replace("-", "_")
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = [f"[{group}]\n" + "".join(f"{n} = {t}\n" for n, t in names.items()) for group, names in points.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    if module is not None:
        (folder / f"{name}.py").write_text(module)
    return folder


def install_example(folder: Path) -> Path:
    """Put examples/plugin into a folder of packages, with what its pyproject.toml says; return the folder."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(folder, project["name"], project["entry-points"], version=project["version"])
    shutil.copytree(EXAMPLE / "toolkit_example", folder / "toolkit_example")
    return folder
