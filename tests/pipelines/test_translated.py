"""Translations of torchvision's transforms give torchvision's pixels; what has no equal is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_steps as steps
import numpy as np
import pyarrow as pa
import pytest
import torch
from keyed_rows import keyed
from pictures import picture
from PIL import Image
from torchvision_transforms import v1, v2

import toolkit
from toolkit import chain, slot
from toolkit.errors import PipelineError
from toolkit.format.media import IMAGE_TYPE

GOLDEN = Path(__file__).parents[1] / "golden/hf_processors.npz"  # of make_hf_processors.py beside it
SIZES = [(61, 47), (48, 64), (33, 33), (90, 31)]  # height and width


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    """Pictures of odd sizes that are no noise."""
    return [picture(seed, width, height) for seed, (height, width) in enumerate(SIZES)]


@pytest.fixture
def ds(commit_rows: Callable[..., str], tmp_path: Path, pictures: list[Image.Image]) -> toolkit.Dataset:
    rows = []
    for i, each in enumerate(pictures):
        each.save(tmp_path / f"{i}.png")
        rows.append({"bytes": (tmp_path / f"{i}.png").read_bytes(), "path": f"{i}.png"})
    commit_rows(tmp_path / "ds", {"train": [[keyed({"image": pa.array(rows, IMAGE_TYPE)})]]})
    return toolkit.open(tmp_path / "ds")


def run(ds: toolkit.Dataset, made: toolkit.Chain) -> list[np.ndarray]:
    """What a chain makes of every picture."""
    found = ds.loader(toolkit.pipeline(slot("image").decode_image().then(made)), batch_size=1, threads=1)
    return [np.asarray(batch["image"][0]) for batch in found]


FIXED = [
    v2.Resize(24),
    v1.Resize((20, 31), v1.InterpolationMode.BICUBIC),
    v1.Resize([17], v1.InterpolationMode.NEAREST),
    v2.Resize(29, v1.InterpolationMode.LANCZOS),
    v1.CenterCrop(20),
    v2.CenterCrop((25, 80)),
    v1.Pad((3, 4), fill=7),
    v2.Pad([1, 2, 3, 4]),
    v1.Grayscale(3),
    v2.Grayscale(1),
    v2.RandomHorizontalFlip(1.0),
    v1.RandomVerticalFlip(1.0),
    v2.RandomInvert(1.0),
    v1.RandomPosterize(3, p=1.0),
    v2.RandomSolarize(100, p=1.0),
    v1.RandomAutocontrast(1.0),
    v2.RandomEqualize(1.0),
    v2.RandomAdjustSharpness(1.7, p=1.0),
    v2.RandomGrayscale(1.0),
    v2.RandomApply([v2.RandomHorizontalFlip(1.0)], p=1.0),
    v2.RandomChoice([v2.RandomVerticalFlip(1.0), v2.RandomHorizontalFlip(1.0)], p=[0, 1]),
    v2.ColorJitter(brightness=(1.3, 1.3)),
    v1.RandomRotation((25, 25)),
    v2.RandomRotation((-70, -70), v1.InterpolationMode.BILINEAR, expand=True, fill=9),
    v2.RandomRotation((33, 33), v1.InterpolationMode.NEAREST, center=(5, 20), fill=(1, 200, 90)),
    v1.RandomAffine((20, 20), scale=(1.2, 1.2), shear=(10, 10, -5, -5), interpolation=v1.InterpolationMode.BILINEAR),
    v2.RandomAffine((-40, -40), center=(10, 12), fill=77),
    v2.RandomPerspective(p=0.0),
]


@pytest.mark.parametrize("transform", FIXED, ids=str)
def test_what_draws_nothing_gives_the_same_pixels(
    ds: toolkit.Dataset, pictures: list[Image.Image], transform: Any
) -> None:
    for got, each in zip(run(ds, toolkit.from_torchvision(transform)), pictures, strict=True):
        wanted = np.asarray(transform(each)).reshape(got.shape)
        away = np.abs(got.astype(int) - wanted)  # Pillow-SIMD rounds resizes and gray otherwise than Pillow
        assert away.max() <= 1
        assert away.mean() < 0.05


@pytest.mark.parametrize(
    "finish",
    [
        [v1.ToTensor(), v1.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.1))],
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485,), (0.2,)), v2.ToPureTensor()],
        [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)],
        [v1.ToTensor(), v1.RandomHorizontalFlip(1.0)],
        [v2.PILToTensor()],
    ],
    ids=str,
)
def test_tensors_are_written_alike(ds: toolkit.Dataset, pictures: list[Image.Image], finish: list[Any]) -> None:
    transform = v1.Compose([v1.Resize(40), v1.CenterCrop(32), *finish])
    made = toolkit.from_torchvision(transform)
    for got, each in zip(run(ds, made), pictures, strict=True):
        wanted = np.asarray(transform(each))
        assert got.dtype == wanted.dtype
        level = 1 if got.dtype == np.uint8 else 1 / 255 / 0.1  # of the least std
        away = np.abs(got.astype(float) - wanted)
        assert away.max() < 1.001 * level
        assert np.mean(away > 2e-6) < 0.05


def test_what_draws_has_the_same_parameters() -> None:
    given = v2.Compose(
        [
            v2.RandomResizedCrop(20, scale=(0.2, 0.9), ratio=(0.8, 1.5), interpolation=v1.InterpolationMode.BICUBIC),
            v1.RandomCrop(32, padding=4),
            v2.RandomHorizontalFlip(0.3),
            v1.RandomVerticalFlip(0.2),
            [v2.ColorJitter(0.4, 0.3, (0.1, 1.9), 0.1)],
            v1.RandomRotation(30, fill=3),
            v2.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), 5),
            v2.RandomPerspective(0.4, p=0.3),
            v1.RandAugment(3, 11),
            v2.AutoAugment(v2.AutoAugmentPolicy.SVHN, fill=(1, 2, 3)),
            v2.TrivialAugmentWide(interpolation=v1.InterpolationMode.BILINEAR),
            v1.AugMix(severity=4, alpha=0.5),
            v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5),
            v2.RandomChoice([v2.RandomSolarize(128, p=0.2), v2.RandomEqualize(0.1)], p=[3, 1]),
        ]
    )
    assert toolkit.from_torchvision(given) == (
        chain()
        .random_resized_crop(20, scale=(0.2, 0.9), ratio=(0.8, 1.5), filter="bicubic")
        .pad(4)
        .random_crop(32)
        .hflip(0.3)
        .vflip(0.2)
        .color_jitter(brightness=0.4, contrast=0.3, saturation=(0.1, 1.9), hue=0.1)
        .rotate(30, fill=3)
        .affine(10, (0.1, 0.2), (0.8, 1.2), 5)
        .perspective(0.4, p=0.3)
        .rand_augment(3, 11, filter="nearest", fill=0)
        .auto_augment("svhn", fill=(1, 2, 3))
        .trivial_augment_wide(filter="bilinear")
        .aug_mix(4, alpha=0.5)
        .maybe(chain().gaussian_blur(23, (0.1, 2.0)))
        .one_of(chain().solarize(128.0, p=0.2), chain().equalize(0.1), weights=(0.75, 0.25))
    )


@pytest.mark.parametrize("value", [0, (0.1, 0.2, 0.3), "random"])
def test_erasing_stands_behind_normalize(value: Any) -> None:
    erase = v1.RandomErasing(0.3, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=value)
    made = toolkit.from_torchvision([v1.ToTensor(), v1.Normalize((0.5,), (0.2,)), erase])
    given = tuple(value) if isinstance(value, tuple) else value
    wanted = chain().normalize((0.5,), (0.2,)).random_erasing(0.3, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=given)
    assert made == wanted
    v2_erase = v2.RandomErasing(0.3, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=value)
    assert toolkit.from_torchvision([v1.ToTensor(), v1.Normalize((0.5,), (0.2,)), v2_erase]) == wanted


@pytest.mark.parametrize(
    ("transform", "says"),
    [
        (v1.RandomErasing(), "behind ToTensor"),
        ([v1.ToTensor(), v1.RandomErasing(), v1.Normalize((0.5,), (0.5,))], "transform 3, Normalize"),
        ([v1.ToTensor(), v1.RandomErasing(), v1.RandomHorizontalFlip()], "transform 3.*behind RandomErasing"),
        (v2.Lambda(len), "transform 1, Lambda.*no step that does the same"),
        (len, "len is no transform of torchvision's: call it with python"),
        ([v1.Resize(20), v2.RandomZoomOut()], "transform 2, RandomZoomOut.*no step that does the same"),
        (v1.Resize(20, max_size=30), "there is nothing like max_size=30"),
        (v1.Resize(20, v1.InterpolationMode.BOX), "there is no filter 'box'"),
        (v2.Pad(2, padding_mode="reflect"), "there is nothing like padding_mode=reflect"),
        (v1.Pad(2, fill=(1, 2, 3)), "fill is one number here"),
        (v1.RandomCrop(20, pad_if_needed=True), "pad_if_needed"),
        (v2.GaussianBlur((3, 5)), "as high as wide"),
        (v2.Grayscale(2), "1 channel or 3"),
        ([v2.ToImage(), v2.Resize(20)], "transform 2, Resize.*in front of ToTensor or ToImage"),
        ([v1.Normalize((0.5,), (0.5,))], "behind ToTensor"),
        ([v1.ToTensor(), v1.Normalize((0.5,), (0.5,)), v1.Normalize((0.5,), (0.5,))], "must stand once"),
        (v2.ToDtype(torch.float32, scale=True), "in front of ToImage"),
        ([v2.ToImage(), v2.ToDtype(torch.float32)], "scale=True"),
        ([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)], "only ToDtype"),
        (v2.RandomApply([v2.ToImage()], p=0.1), "must run on images"),
    ],
)
def test_what_has_no_equal_is_named(transform: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=f"can't be translated.*{says}" if "transform" not in says else says):
        toolkit.from_torchvision(transform)


def test_steps_of_the_chain_are_toolkits_own() -> None:
    (resize,) = toolkit.from_torchvision(v1.Resize(24)).steps
    assert isinstance(resize, steps.ResizeShort)


def hf_configs() -> list[tuple[dict[str, Any], list[np.ndarray]]]:
    """Configs of processors, and what each gives of the first pictures."""
    with np.load(GOLDEN) as kept:
        numbers = range(sum(name.endswith("config") for name in kept))
        return [(json.loads(str(kept[f"{i}_config"])), [kept[f"{i}_{j}"] for j in range(2)]) for i in numbers]


@pytest.mark.parametrize(("config", "wanted"), hf_configs(), ids=lambda value: str(value)[:60])
def test_image_processors_give_the_same_tensors(
    ds: toolkit.Dataset, config: dict[str, Any], wanted: list[np.ndarray], tmp_path: Path
) -> None:
    made = toolkit.from_hf(config)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    assert toolkit.from_hf(tmp_path / "preprocessor_config.json") == made
    for got, one in zip(run(ds, made), wanted, strict=False):
        assert got.shape == one.shape
        level = 1 if got.dtype == np.uint8 else 1 / 255 / 0.2
        away = np.abs(got.astype(float) - one)  # one level where Pillow's releases resize otherwise
        assert away.max() < 1.001 * level
        assert np.mean(away > 2e-6) < 0.02


def test_what_old_configs_leave_out() -> None:
    old = {"feature_extractor_type": "ViTFeatureExtractor", "size": 224, "do_resize": True, "resample": 2}
    assert toolkit.from_hf(old) == chain().resize((224, 224)).normalize((0.5,) * 3, (0.5,) * 3)
    clip = toolkit.from_hf({"feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224})
    assert clip.steps[:2] == (chain().resize_short(224, filter="bicubic").center_crop(224, halves="down").steps)
    large = toolkit.from_hf({"image_processor_type": "ConvNextImageProcessorFast", "size": {"shortest_edge": 384}})
    assert large.steps[0] == chain().resize((384, 384), filter="bicubic").steps[0]


VIT = {"image_processor_type": "ViTImageProcessor"}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"image_processor_type": "VitImageProcessor"}, r"VitImageProcessor has no equal here. Did you mean 'ViT"),
        ({"image_processor_type": "SamImageProcessor"}, "SamImageProcessor has no equal here"),
        ({}, "None has no equal here"),
        ({**VIT, "do_pad": True}, "there is nothing like do_pad=True"),
        ({**VIT, "do_convert_rgb": False}, "do_convert_rgb=False"),
        ({**VIT, "resample": 5}, "there is no filter resample=5"),
        ({**VIT, "size": {"longest_edge": 9}}, "there is nothing like size={'longest_edge': 9}"),
        ({**VIT, "crop_pct": 0.9}, "there is nothing like crop_pct=0.9"),
        ({**VIT, "rescale_factor": 1 / 127.5}, "there is nothing like rescale_factor="),
        ({**VIT, "do_rescale": False}, "do_normalize without do_rescale"),
        ([], "a processor's config is a dict or a path, got list"),
    ],
)
def test_configs_that_have_no_equal(config: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        toolkit.from_hf(config)


def test_a_config_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(PipelineError, match=r"preprocessor_config\.json: no JSON"):
        toolkit.from_hf(tmp_path / "preprocessor_config.json")
