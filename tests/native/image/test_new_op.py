"""What a new step on pixels costs: a class, a kernel in a file of its own, its name in the table, and this test."""

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

KERNEL = """/* Invert colours. */
#include "image/program/op.h"
#include "image/program/plan.h"

typedef struct {
    int64_t above;
} invert;

static const img_field invert_fields[] = {
    IMG_INTEGER_FIELD(invert, above, 0, 255),
    IMG_NO_FIELD,
};

static void turn_round(uint8_t *rgbx, int64_t count, const img_change *change) {
    for (int64_t i = 0; i < 4 * count; i++)
        rgbx[i] = rgbx[i] > change->level ? (uint8_t)(255 - rgbx[i]) : rgbx[i];
}

static int plan_invert(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.apply = turn_round, .level = (uint8_t)((const invert *)params)->above};
    return img_plan_change(b, &change);
}

IMG_DEFINE_OP(invert, IMG_POINT, invert, invert_fields, .plan = plan_invert);
"""

STEP = '''"""A step that inverts colours."""

from dataclasses import dataclass

from toolkit.pipelines import fields
from toolkit.pipelines.image.image_step import PixelStep, colours
from toolkit.pipelines.registry import register


@register
@dataclass(frozen=True, slots=True)
class Invert(PixelStep):
    """Turn values above `above` round: 255 - value."""

    word = "invert"
    above: int = fields.whole(0, least=0, most=255)

    def after(self, state):
        colours(state)
        return state
'''

USE = """
import sys
import numpy as np
import toolkit
from toolkit import slot
import invert_step

ds = toolkit.open(sys.argv[1], split="train", columns=["image"])
plain = slot("image").decode_image().resize_short(16).center_crop(12)
both = toolkit.pipeline(plain, slot("image", name="turned").then(toolkit.chain()).decode_image()
                        .resize_short(16).center_crop(12).invert(99).hflip(1.0))
assert ".invert(above=99)" in repr(both), both
for batch in ds.loader(both, batch_size=4):
    wanted = batch["image"].copy()
    wanted[wanted > 99] = 255 - wanted[wanted > 99]
    assert np.array_equal(batch["turned"], wanted[:, :, ::-1])
try:
    slot("image").decode_image().invert(256)
except toolkit.errors.PipelineError as error:
    assert "above" in str(error), error
else:
    raise SystemExit("256 was taken")
"""


@pytest.mark.slow
@pytest.mark.skipif("TOOLKIT_SANITIZED" in os.environ, reason="it compiles a module of its own, without sanitizers")
def test_a_new_step_on_pixels(dataset: Path, tmp_path: Path) -> None:
    package = tmp_path / "toolkit"
    shutil.copytree(ROOT / "toolkit", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "_native/image/program/ops/invert.c").write_text(KERNEL)
    table = package / "_native/image/program/ops.h"
    text = table.read_text()
    assert text.count("    OP(resize)  ") == 1
    table.write_text(text.replace("    OP(resize)  ", "    OP(invert) OP(resize)  "))
    (tmp_path / "invert_step.py").write_text(STEP)
    compile_program(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", USE, str(dataset)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


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


def run(command: list[object], folder: Path) -> None:
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
