"""Published training recipes as pipelines: timm's, torchvision's reference, SimCLR's and DINO's.

    toolkit pack photos flowers
    python examples/recipes.py flowers --recipe timm

Prints the pipeline and how many samples an epoch delivered. Each recipe is a function to copy.
"""

from __future__ import annotations

import argparse
import sys
import time

import toolkit
from toolkit import chain, slot


def timm(size: int = 224) -> toolkit.Pipeline:
    """Return what timm's train.py does with --aa rand-m9-mstd0.5-inc1 --reprob 0.25 --mixup 0.8 --cutmix 1.0.

    Resizes are bilinear or bicubic, at random; labels are smoothed by 0.1.
    """
    crops = [chain().random_resized_crop(size, filter=each, name="crop") for each in ("bilinear", "bicubic")]
    image = (
        slot("image")
        .decode_image()
        .one_of(*crops)
        .hflip()
        .rand_augment(2, 9, ops="timm", magnitude_std=0.5, fill=(124, 116, 104))
        .normalize("imagenet")
        .random_erasing(0.25, scale=(0.02, 1 / 3), ratio=(0.3, 1 / 0.3), value="random")
    )
    mixed = toolkit.mixup_or_cutmix(0.8, 1.0, smoothing=0.1)
    return toolkit.pipeline(image, slot("label").scalar("int64"), batch_maps=[mixed])


def torchvision(size: int = 176) -> toolkit.Pipeline:
    """Return what torchvision's reference for classification does in its newer recipe."""
    image = (
        slot("image")
        .decode_image()
        .random_resized_crop(size)
        .hflip()
        .trivial_augment_wide(filter="bilinear")
        .normalize("imagenet")
        .random_erasing(0.1)
    )
    mixed = toolkit.mixup_or_cutmix(0.2, 1.0, smoothing=0.1)
    return toolkit.pipeline(image, slot("label").scalar("int64"), batch_maps=[mixed])


def simclr(size: int = 224) -> toolkit.Pipeline:
    """Return SimCLR's two views, with jitter of strength 1 and a blur over a tenth of the picture."""
    jitter = chain().color_jitter(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2)
    view = (
        chain()
        .random_resized_crop(size)
        .hflip()
        .maybe(jitter, p=0.8)
        .grayscale(channels=3, p=0.2)
        .gaussian_blur(size // 20 * 2 + 1, (0.1, 2.0), p=0.5)
        .normalize("imagenet")
    )
    views = [slot("image", name=name).decode_image().then(view) for name in ("view1", "view2")]
    return toolkit.pipeline(*views)


def dino(size: int = 224, small: int = 96) -> toolkit.Pipeline:
    """Return DINO's two global views and six local ones; the slots of one column share its decoding."""
    flip = chain().hflip().maybe(chain().color_jitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1), p=0.8)
    flip = flip.grayscale(channels=3, p=0.2)

    def view(name: str, side: int, scale: tuple[float, float], blur: float, solarize: float) -> toolkit.Slot:
        cut = slot("image", name=name).decode_image().random_resized_crop(side, scale=scale, filter="bicubic")
        blurred = cut.then(flip).gaussian_blur(None, (0.1, 2.0), p=blur)
        return blurred.solarize(128, p=solarize).normalize("imagenet")

    return toolkit.pipeline(
        view("global1", size, (0.4, 1.0), blur=1.0, solarize=0.0),
        view("global2", size, (0.4, 1.0), blur=0.1, solarize=0.2),
        *(view(f"local{i}", small, (0.05, 0.4), blur=0.5, solarize=0.0) for i in range(1, 7)),
    )


RECIPES = {"timm": timm, "torchvision": torchvision, "simclr": simclr, "dino": dino}


def main() -> int:
    """Run one epoch of a recipe; return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset, with labels for timm and torchvision")
    parser.add_argument("--recipe", choices=RECIPES, default="timm")
    parser.add_argument("--split", default="train")
    parser.add_argument("--size", type=int, help="pixels of a picture's side; default: the recipe's")
    parser.add_argument("--batch-size", type=int, default=32)
    given = parser.parse_args()

    pipeline = RECIPES[given.recipe](*([] if given.size is None else [given.size]))
    ds = toolkit.open(given.dataset, split=given.split)
    print(pipeline.explain(ds))
    samples, begun = 0, time.perf_counter()
    with ds.loader(pipeline, batch_size=given.batch_size, shuffle="full", seed=0, output="numpy") as loader:
        for batch in loader:
            samples += len(batch.positions)
            shapes = {name: batch[name].shape for name in batch}
    print(", ".join(f"{name} {shape}" for name, shape in shapes.items()))
    print(f"recipe={given.recipe} samples={samples} seconds={time.perf_counter() - begun:.1f} pin={ds.pin[:12]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
