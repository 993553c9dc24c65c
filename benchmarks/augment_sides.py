"""The sides of benchmarks/augment.py: each gives batches of the same photographs, augmented as it can."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from image_sides import BATCH_SIZE, CROP, MEAN, STD, photographs_of_torchvision, runs_libturbojpeg

__all__ = ["AGAINST_TORCHVISION", "CASES", "SIDES"]

SCALE = (0.08, 1.0)
CROPS, CROP_SIDE, CROP_SCALE = 6, 96, (0.05, 0.3)
JITTER = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}
BLUR = 23
CASES = ("rand_augment", "simclr", "trivial", "crops")
AGAINST_TORCHVISION = ("rand_augment", "simclr", "trivial")

Task = dict[str, Any]
Batches = Iterator[Any]  # arrays of (n, ...); of crops the first


def _toolkit(task: Task) -> tuple[str, Batches]:
    import toolkit

    loader = toolkit.open(task["dataset"]).loader(
        toolkit.pipeline(*_slots(task["case"]), batch_maps=_batch_steps(task)),
        batch_size=task.get("batch_size", BATCH_SIZE),
        threads=task["threads"],
        remainder="drop" if task["case"] in ("mixup", "cutmix", "neither") else "keep",
        output="numpy",
    )
    return f"toolkit {toolkit.__version__}", (batch["image"] for batch in loader)


def _slots(case: str) -> list[Any]:
    from toolkit import chain, slot

    decoded = slot("image").decode_image()
    if case == "crops":
        return [
            slot("image", name="image" if not i else f"image{i}")
            .decode_image()
            .random_resized_crop(CROP_SIDE, scale=CROP_SCALE)
            .normalize(MEAN, STD)
            for i in range(CROPS)
        ]
    cut = decoded.random_resized_crop(CROP, scale=SCALE).hflip()
    if case == "rand_augment":
        cut = cut.rand_augment(2, 9)
    elif case == "simclr":
        cut = (
            cut.maybe(chain().color_jitter(**JITTER), p=0.8)
            .grayscale(channels=3, p=0.2)
            .gaussian_blur(BLUR, (0.1, 2.0), p=0.5)
        )
    elif case == "trivial":
        cut = cut.trivial_augment_wide()
    finished = cut.normalize(MEAN, STD)
    if case == "trivial":
        finished = finished.random_erasing(p=0.25)
    return [finished, *([slot("label").scalar("int64")] if case in ("mixup", "cutmix", "neither") else [])]


def _batch_steps(task: Task) -> list[Any]:
    import toolkit

    if task["case"] not in ("mixup", "cutmix"):
        return []
    return [getattr(toolkit, task["case"])(alpha=1.0, classes=task["classes"])]


def _dataio(task: Task) -> tuple[str, Batches]:
    os.environ["DATAIO_CPU_WORKERS"] = os.environ["DATAIO_IO_WORKERS"] = "1"
    import dataio
    from dataio import transforms

    cases: dict[str, Callable[[Any], Any]] = {
        "rand_augment": lambda slot: slot.rand_augment(n=2, m=9),
        "simclr": lambda slot: (
            slot.sometimes(transforms.color_jitter(**JITTER), prob=0.8)
            .grayscale(num_output_channels=3, prob=0.2)
            .sometimes(transforms.gaussian_blur(kernel_size=BLUR, sigma_lo=0.1, sigma_hi=2.0), prob=0.5)
        ),
        "trivial": lambda slot: slot.trivial_augment_wide().random_erasing(prob=0.25),  # of pixels: it erases no floats
    }
    case = task["case"]
    if case == "crops":
        slots = [
            dataio.slot(f"image{i}")
            .decode_image()
            .random_resized_crop(h=CROP_SIDE, w=CROP_SIDE, scale=CROP_SCALE, interp="bilinear")
            .normalize(mean=MEAN, std=STD)
            for i in range(CROPS)
        ]
        records = [{f"image{i}": file for i in range(CROPS)} for file in task["files"]]
    else:
        cut = dataio.slot("image0").decode_image()
        cut = cut.random_resized_crop(h=CROP, w=CROP, scale=SCALE, interp="bilinear").hflip(prob=0.5)
        slots = [cases[case](cut).normalize(mean=MEAN, std=STD)]
        records = [{"image0": file} for file in task["files"]]
    pipeline = dataio.pipeline(*slots, dataio.batch(BATCH_SIZE, prefetch=4))

    def batches() -> Batches:
        with pipeline.bind(records).run("numpy", on_failure="strict") as loader:
            for batch in loader:
                made = [np.asarray(batch[f"image{i}"]) for i in range(len(slots))]
                yield made[0]

    turbo = runs_libturbojpeg()
    return f"dataio-rs {_version('dataio-rs')} {'with' if turbo else 'without'} libturbojpeg", batches()


def _torchvision(task: Task) -> tuple[str, Batches]:
    def steps(v2: Any, torch: Any) -> list[Any]:
        cut = [v2.RandomResizedCrop(CROP, SCALE), v2.RandomHorizontalFlip()]
        finish = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        cases = {
            "rand_augment": [*cut, v2.RandAugment(2, 9), *finish],
            "simclr": [
                *cut,
                v2.RandomApply([v2.ColorJitter(**JITTER)], p=0.8),
                v2.RandomGrayscale(0.2),
                v2.RandomApply([v2.GaussianBlur(BLUR, (0.1, 2.0))], p=0.5),
                *finish,
            ],
            "trivial": [*cut, v2.TrivialAugmentWide(), *finish, v2.RandomErasing(0.25)],
        }
        return cases[task["case"]]

    return photographs_of_torchvision(task, steps)


def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution)


SIDES: dict[str, Callable[[Task], tuple[str, Batches]]] = {
    "toolkit": _toolkit,
    "dataio": _dataio,
    "dataio_plain": _dataio,
    "torchvision": _torchvision,
    "neither": lambda task: _toolkit(task | {"case": "neither"}),
    "mixup": lambda task: _toolkit(task | {"case": "mixup"}),
    "cutmix": lambda task: _toolkit(task | {"case": "cutmix"}),
}
