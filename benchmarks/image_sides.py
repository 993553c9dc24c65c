"""The sides of benchmarks/image_pipeline.py: each gives batches of the same photographs, in order.

Every side has one worker, and loads as its documentation recommends. It imports its packages when it is made, so that
the others' processes are spared them. Nothing here measures.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from turns import BenchmarkError

__all__ = ["SIDES", "decode_floor", "photographs_of_torchvision", "runs_libturbojpeg"]

BATCH_SIZE = 64
RESIZE, CROP = 256, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)

Task = dict[str, Any]
Batches = Iterator[Any]  # arrays of (n, ...): float32 CHW, normalised, or uint8 HWC


def _toolkit(task: Task, **decode: str) -> tuple[str, Batches]:
    import toolkit

    slot: Any = toolkit.slot("image")
    try:
        slot = slot.decode_image(**decode)
        if task["case"] == "train":
            slot = slot.random_resized_crop(CROP, scale=SCALE, ratio=RATIO).hflip()
        else:
            slot = slot.resize_short(RESIZE).center_crop(CROP)
    except (AttributeError, TypeError) as error:
        raise BenchmarkError(f"slots have no such step: {error}") from error
    pipeline = toolkit.pipeline(slot.normalize(MEAN, STD))
    loader = toolkit.open(task["dataset"]).loader(
        pipeline, batch_size=BATCH_SIZE, threads=task["threads"], output="numpy"
    )
    name = " ".join(["toolkit", toolkit.__version__, *decode.values()])
    return name, (batch["image"] for batch in loader)


def _dataio(task: Task) -> tuple[str, Batches]:
    os.environ["DATAIO_CPU_WORKERS"] = os.environ["DATAIO_IO_WORKERS"] = "1"
    import dataio

    slot = dataio.slot("image").decode_image()
    if task["case"] == "train":
        slot = slot.random_resized_crop(h=CROP, w=CROP, scale=SCALE, ratio=RATIO, interp="bilinear").hflip(prob=0.5)
    else:
        slot = slot.resize_short(size=RESIZE, interp="bilinear").center_crop(h=CROP, w=CROP)
    pipeline = dataio.pipeline(slot.normalize(mean=MEAN, std=STD), dataio.batch(BATCH_SIZE, prefetch=4))

    def batches() -> Batches:
        with pipeline.bind([{"image": file} for file in task["files"]]).run("numpy", on_failure="strict") as loader:
            for batch in loader:
                yield batch["image"]

    turbo = runs_libturbojpeg()
    return f"dataio-rs {_version('dataio-rs')} {'with' if turbo else 'without'} libturbojpeg", batches()


def _mlx(task: Task) -> tuple[str, Batches]:
    import mlx.data as dx

    buffer = dx.buffer_from_vector([{"image": file.encode()} for file in task["files"]]).load_image("image")
    if task["case"] == "train":
        buffer = buffer.image_random_area_crop("image", SCALE, RATIO).image_resize("image", CROP, CROP)
        buffer = buffer.image_random_h_flip("image", 0.5)
    else:
        buffer = buffer.image_resize_smallest_side("image", RESIZE).image_center_crop("image", CROP, CROP)
    stream = buffer.ordered_prefetch(BATCH_SIZE, 1).batch(BATCH_SIZE)
    return f"mlx-data {_version('mlx-data')}, uint8", (batch["image"] for batch in stream)


def _torchvision(task: Task) -> tuple[str, Batches]:
    def steps(v2: Any, torch: Any) -> list[Any]:
        size: list[Any] = [v2.Resize(RESIZE), v2.CenterCrop(CROP)]
        if task["case"] == "train":
            size = [v2.RandomResizedCrop(CROP, SCALE, RATIO), v2.RandomHorizontalFlip()]
        return [*size, v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]

    return photographs_of_torchvision(task, steps)


def photographs_of_torchvision(task: Task, steps: Callable[[Any, Any], list[Any]]) -> tuple[str, Batches]:
    """Return torchvision's ImageFolder with the transforms that steps(v2, torch) gives, by its name."""
    import PIL
    import torch
    import torchvision_operators  # noqa: F401 - before torchvision

    torch.set_num_threads(1)
    from torchvision.datasets import ImageFolder, folder
    from torchvision.transforms import v2

    dataset = ImageFolder(task["source"], v2.Compose(steps(v2, torch)), loader=folder.pil_loader)
    behind = {os.path.realpath(path): number for number, (path, _) in enumerate(dataset.samples)}
    order = [behind[file] for file in task["files"]]
    loader = torch.utils.data.DataLoader(dataset, BATCH_SIZE, sampler=order, num_workers=0)
    name = f"torchvision {_version('torchvision')} ImageFolder, PIL {PIL.__version__}"
    return name, (images.numpy() for images, _ in loader)


def _spdl(task: Task) -> tuple[str, Batches]:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    if task["case"] == "train":
        raise BenchmarkError("it has no random_resized_crop")
    size = f"scale={RESIZE}:{RESIZE}:force_original_aspect_ratio=increase:flags=bilinear,crop={CROP}:{CROP}"
    scale = (1 / (255 * np.array(STD))).astype(np.float32)[:, None, None]
    bias = (-np.array(MEAN) / STD).astype(np.float32)[:, None, None]

    def load(files: list[str]) -> Any:
        pixels = [
            spdl.io.to_numpy(spdl.io.load_image(file, filter_desc=f"{size},format=pix_fmts=rgb24")) for file in files
        ]
        return np.stack(pixels).transpose(0, 3, 1, 2) * scale + bias

    files = task["files"]
    parts = [files[start : start + BATCH_SIZE] for start in range(0, len(files), BATCH_SIZE)]
    pipeline = PipelineBuilder().add_source(parts).pipe(load, concurrency=1).add_sink(4).build(num_threads=1)

    def batches() -> Batches:
        with pipeline.auto_stop():
            yield from pipeline

    return f"SPDL {_version('spdl')}", batches()


def decode_floor(files: list[str]) -> None:
    """Decode the files through libjpeg-turbo at 1/8 scale and drop the pixels."""
    from toolkit._native.image.program import Scratch, _decode_eighth

    scratch = Scratch()
    for file in files:
        with open(file, "rb") as opened:
            _decode_eighth(opened.read(), scratch)


def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution)


def runs_libturbojpeg() -> bool:
    """Say whether dataio-rs finds its faster decoder."""
    return any("libturbojpeg" in line for line in _maps()) or _loads("libturbojpeg.so.0")


def _maps() -> list[str]:
    with open("/proc/self/maps", encoding="ascii", errors="replace") as opened:
        return opened.read().splitlines()


def _loads(library: str) -> bool:
    import ctypes

    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


SIDES: dict[str, Callable[[Task], tuple[str, Batches]]] = {
    "exact": _toolkit,
    "fast": lambda task: _toolkit(task, accuracy="fast"),
    "dataio": _dataio,
    "dataio_plain": _dataio,
    "mlx": _mlx,
    "torchvision": _torchvision,
    "spdl": _spdl,
}
