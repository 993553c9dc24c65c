"""Every registered step keeps the contract; and what a new one takes: one class in one file."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from contracts.step import SAMPLES, StepContract
from keyed_rows import keyed
from numpy.typing import NDArray
from pictures import encode, picture

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError
from toolkit.pipelines import fields
from toolkit.pipelines.families import FAMILIES
from toolkit.pipelines.registry import STEPS, forget, register
from toolkit.pipelines.state import State, ValueKind
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import WholeArray, check_stored

ROOT = Path(__file__).parents[2]


def npy_file(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def jitter(value: int, rng: np.random.Generator) -> int:
    return int(value + rng.integers(1 << 40))


PICTURES = pa.array([encode(picture(seed, 24, 18)) for seed in range(SAMPLES)])
NUMBERS = pa.array([seed % 7 for seed in range(SAMPLES)], pa.int64())
ROWS = [np.arange(2 * size, dtype="<i2").reshape(2, size) for size in range(SAMPLES)]
NO_PICTURE = b"no picture"

# Arguments of each word, all of them but at their defaults; the words that come before it; stored values, and one that
# it refuses.
EXAMPLES: dict[str, tuple[str, str, pa.Array, Any]] = {
    "decode_image": ('mode="gray", exif=False, truncated="warn", accuracy="fast"', "", PICTURES, NO_PICTURE),
    "random_erasing": (
        'p=0.75, scale=(0.25, 0.5), ratio=(0.5, 2.0), value=9.0, count=(1, 3), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "gaussian_noise": ('(3.0, 9.0), mean=2.0, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "speckle_noise": ('(0.25, 0.5), p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "salt_and_pepper": ('(0.25, 0.5), salt=0.25, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "clamp": ("10.0, 99.0", ".decode_image()", PICTURES, None),
    "cutout": ('(6, 4), holes=2, value=9.0, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "reshape": ("(3, -1)", ".decode_image()", PICTURES, None),
    "transpose": ("(2, 1, 0)", ".decode_image()", PICTURES, None),
    "resize": ('(4, 5), filter="nearest"', ".decode_image()", PICTURES, None),
    "resize_short": ('4, filter="lanczos"', ".decode_image()", PICTURES, None),
    "resize_long": ('4, filter="bicubic"', ".decode_image()", PICTURES, None),
    "cover": ('(4, 5), filter="bicubic"', ".decode_image()", PICTURES, None),
    "contain": ('(4, 5), fill=7, filter="bicubic"', ".decode_image()", PICTURES, None),
    "thumbnail": ('4, filter="bicubic"', ".decode_image()", PICTURES, None),
    "scale_jitter": (
        '(14, 15), scale_range=(0.5, 1.5), filter="bicubic", name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "five_crop": ("(4, 5)", ".decode_image()", PICTURES, None),
    "ten_crop": ("4, vertical=True", ".decode_image()", PICTURES, None),
    "tile": ("(6, 4)", ".decode_image()", PICTURES, None),
    "patchify": ("6", ".decode_image()", PICTURES, None),
    "crop": ("0, 1, 2, 3", ".decode_image()", PICTURES, None),
    "center_crop": ('(4, 5), halves="down"', ".decode_image()", PICTURES, None),
    "random_crop": ('4, name="x"', ".decode_image()", PICTURES, None),
    "random_resized_crop": (
        '4, scale=(0.5, 1.0), ratio=(1.0, 2.0), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "pad": ("top=1, left=2, bottom=3, right=4, fill=5", ".decode_image()", PICTURES, None),
    "hflip": ('p=0.25, name="x"', ".decode_image()", PICTURES, None),
    "vflip": ('p=0.25, name="x"', ".decode_image()", PICTURES, None),
    "rotate": (
        '(-45.0, 60.0), random_sign=True, filter="bilinear", expand=True, center=(3.0, 4.0), fill=9, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "shear_x": (
        '(0.1, 0.5), random_sign=True, filter="bilinear", fill=9, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "shear_y": (
        '(0.1, 0.5), random_sign=True, filter="bicubic", fill=(1, 2, 3), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "translate_x": (
        '(0.1, 0.5), unit="fraction", whole=False, random_sign=True, filter="bilinear", fill=9, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "translate_y": (
        '(0.1, 0.5), unit="fraction", whole=False, random_sign=True, filter="bilinear", fill=9, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "affine": (
        "degrees=(-45.0, 60.0), translate=(0.25, 0.5), scale=(0.5, 1.5), shear=(1.0, 2.0, 3.0, 4.0), "
        'filter="bilinear", fill=9, center=(3.0, 4.0), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "shear": (
        '(-45.0, 60.0), y=(5.0, 6.0), filter="bilinear", fill=9, center=(3.0, 4.0), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "perspective": (
        'distortion_scale=0.75, p=0.75, filter="bicubic", fill=(1, 2, 3), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "elastic": (
        'alpha=(60.0, 70.0), sigma=2.0, filter="nearest", fill=9, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "color_jitter": ('brightness=(0.5, 1.5), hue=(-0.25, 0.25), name="x"', ".decode_image()", PICTURES, None),
    "sharpness": ('(0.5, 1.5), mirror=True, p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "gaussian_blur": ('3, sigma=(0.5, 2.5), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "brightness": ('(0.5, 1.5), mirror=True, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "contrast": ('(0.5, 1.5), mirror=True, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "saturation": ('(0.5, 1.5), mirror=True, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "posterize": ('(1, 8), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "solarize": ('threshold=(0.0, 200.0), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "solarize_add": ('(-100, 100), threshold=100.0, p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "invert": ('p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "equalize": ('p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "autocontrast": ('cutoff=(1.0, 2.0), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "gamma": ('(0.5, 2.0), gain=0.75, p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "lut": (f'{tuple(range(255, -1, -1))}, p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "channel_shuffle": ('p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "channel_drop": ('channels=(1, 2), fill=9, p=0.75, name="x"', ".decode_image()", PICTURES, None),
    "color_temperature": ('(2000.0, 9000.0), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "grayscale": ('channels=3, p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "motion_blur": ('5, angle=(0.0, 90.0), direction=(-1.0, 1.0), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "median_blur": ('radius=(1, 3), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "unsharp_mask": (
        'radius=(0.5, 2.5), percent=(50, 300), threshold=0, p=0.5, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "rand_augment": (
        'num_ops=3, magnitude=5.5, ops="timm", magnitude_std=0.5, p=0.9, filter="bicubic", fill=(1, 2, 3), name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "auto_augment": ('policy="svhn", filter="random", fill=5, name="x"', ".decode_image()", PICTURES, None),
    "trivial_augment_wide": (
        'num_magnitude_bins=9, filter="bilinear", fill=5, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "three_augment": ('name="x"', ".decode_image()", PICTURES, None),
    "aug_mix": (
        'severity=4, mixture_width=2, chain_depth=2, alpha=0.5, all_ops=False, filter="nearest", fill=5, name="x"',
        ".decode_image()",
        PICTURES,
        None,
    ),
    "clahe": ('clip_limit=(2.0, 6.0), tiles=(2, 3), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "jpeg_compression": ('(5, 40), p=0.5, name="x"', ".decode_image()", PICTURES, None),
    "normalize": ("(0.5, 0.25, 0.75), (0.5, 0.5, 1.0)", ".decode_image()", PICTURES, None),
    "to_chw": ("", ".decode_image()", PICTURES, None),
    "to_hwc": ("", ".decode_image()", PICTURES, None),
    "cast": ('"float16"', ".decode_image()", PICTURES, None),
    "passthrough": ("", "", NUMBERS, None),
    "bytes": ("", "", PICTURES, None),
    "text": ('encoding="latin-1"', "", pa.array([b"\xe9%d" % seed for seed in range(SAMPLES)]), None),
    "json": ("", "", pa.array([f'{{"a": {seed}}}' for seed in range(SAMPLES)]), "{"),
    "array": ('"int16", (2, None)', "", pa.array([rows.tobytes() for rows in ROWS]), b"odd"),
    "npy": ('dtype="int16", shape=(2, None)', "", pa.array(list(map(npy_file, ROWS))), b"no file"),
    "as_image": ("", '.array("uint8", (4, 5, 3))', pa.array([bytes(range(i, i + 60)) for i in range(SAMPLES)]), None),
    "scalar": ('"int16"', "", NUMBERS, 1 << 20),
    "one_hot": ("7", '.scalar("int64")', NUMBERS, 7),
    "maybe": ('chain().hflip().maybe(chain().pad(2)), p=0.25, name="x"', ".decode_image()", PICTURES, None),
    "one_of": ('chain().hflip(p=1.0), chain(), weights=(1.0, 3.0), name="x"', ".decode_image()", PICTURES, None),
    "python": ('jitter, "int64", random=True, timeout=None, version=2, name="x"', "", NUMBERS, None),
}


class TestEveryStep(StepContract):
    names: ClassVar = {"jitter": jitter}

    @pytest.fixture(autouse=True, params=EXAMPLES)
    def one(self, request: pytest.FixtureRequest) -> None:
        self.word = request.param
        self.arguments, self.before, self.values, self.bad = EXAMPLES[self.word]

    def test_it_lies_in_a_family(self) -> None:
        assert self.kind.__module__ in {family.__name__ for family in FAMILIES}


def test_every_word_has_an_example() -> None:
    assert set(EXAMPLES) == set(STEPS)


def test_the_stub_is_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/make_words.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def clip() -> Iterator[type[Step]]:
    """A step of a third party's: all there is of it stands here."""

    @register
    class Clip(WholeArray):
        """Refuse numbers above `most`."""

        word = "clip"
        most: int = fields.whole(9, least=0)

        def after(self, state: State) -> State:
            """Take stored numbers."""
            check_stored(state, "a column of numbers", "only numbers are clipped", ValueKind.NUMBER)
            return State(ValueKind.SCALAR, "int64", ())

        def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
            """Halve, and say which are too large."""
            return values // 2, values > self.most, f"is more than {self.most}"

    yield Clip
    forget("clip")
    assert not hasattr(toolkit.Slot, "clip")


def test_a_new_step_is_one_class(clip: type[Step], tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    word: Any = slot("x")
    assert repr(word.clip()) == 'slot("x").clip()'
    assert repr(word.clip(3)) == 'slot("x").clip(most=3)'
    with pytest.raises(PipelineError, match="slot 'x', step clip: most must be an int of 0 or more, got -1"):
        word.clip(-1)
    with pytest.raises(TypeError, match=r"clip\(\) got an unexpected keyword argument 'least'"):
        word.clip(least=1)
    with pytest.raises(ValueError, match=r"the word 'clip' is taken: give .*Clip another"):
        register(clip)
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array(range(8), pa.int64())})]]})
    ds = toolkit.open(tmp_path / "ds")
    (batch,) = ds.loader(toolkit.pipeline(word.clip()), batch_size=8)
    assert batch["x"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    with pytest.raises(toolkit.errors.SampleError, match="7 is more than 6"):
        list(ds.loader(toolkit.pipeline(word.clip(6)), batch_size=8))
