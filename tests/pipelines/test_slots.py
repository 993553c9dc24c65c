from __future__ import annotations

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError
from toolkit.format.encodings import Encoding, ImageEncoding
from toolkit.format.media import IMAGE_TYPE, RAW_IMAGE_TYPE
from toolkit.format.schema import image_column, label_column

COLUMNS = (image_column("image"), label_column("label", "0" * 64))
SCHEMA = pa.schema({"image": IMAGE_TYPE, "label": pa.int64()})


def test_slots_are_immutable_data() -> None:
    base = slot("image").decode_image()
    small, large = base.resize_short(32), base.resize_short(64)
    assert base.steps != small.steps != large.steps
    assert small == slot("image").decode_image().resize_short(32)
    assert hash(small) == hash(slot("image").decode_image().resize_short(32))
    assert pickle.loads(pickle.dumps(large)) == large
    assert repr(small) == 'slot("image").decode_image().resize_short(32)'


def test_describe_says_what_changes_samples() -> None:
    one = toolkit.pipeline(slot("image").decode_image().resize_short(32))
    assert one.describe() == toolkit.pipeline(slot("image").decode_image(max_pixels=9).resize_short(32)).describe()
    assert one.describe() != toolkit.pipeline(slot("image").decode_image().resize_short(33)).describe()
    assert one.required_columns == ("image",)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: slot("image").resize_short(32), r"step 1 resize_short\(32\): expected uint8 .* put \.decode_image"),
        (lambda: slot("label").decode_image(), "expected an image column, got a label column"),
        (lambda: slot("image").decode_image().decode_image(), r"step 2 decode_image\(\).*decode once"),
        (lambda: slot("image").decode_image().resize_short(70_000), "slot 'image'.*65535"),
        (lambda: slot("image").decode_image().normalize("unit").resize_short(3), "move normalize to the end"),
    ],
)
def test_steps_that_do_not_fit_are_named(build: object, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        toolkit.pipeline(build()).compile(COLUMNS, SCHEMA)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.normalize("imagnet"), "Did you mean 'imagenet'"),
        (lambda s: s.normalize("imagenet", (1, 1, 1)), "leave std out"),
        (lambda s: s.normalize(b"abc", b"def"), "mean must have three values in a tuple or list"),
        (lambda s: s.normalize((1, 2), (1, 1, 1)), "three values"),
        (lambda s: s.normalize((0, 0, 0), (1, 0, 1)), "must be positive"),
        (lambda s: s.resize_short(0), r"size must be an int in 1\.\.65535, got 0"),
        (lambda s: s.center_crop((3, -1)), r"width must be an int in 1\.\.65535, got -1"),
        (lambda s: s.center_crop((1, 2, 3)), "one number or"),
        (lambda s: s.normalize((0, 0, float("nan")), (1, 1, 1)), "must be a finite number"),
        (lambda s: s.normalize((0, 0, 0), (1, 1e-42, 1)), "no smaller than"),
        (lambda s: s.resize_short(2.5), r"size must be an int in 1\.\.65535, got 2\.5"),
    ],
)
def test_bad_arguments_are_refused_where_they_are_written(call: object, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        call(slot("image").decode_image())  # type: ignore[operator]


def test_two_slots_of_one_column_and_things_that_are_no_slots() -> None:
    with pytest.raises(PipelineError, match="join their steps"):
        toolkit.pipeline(slot("image"), slot("image"))
    with pytest.raises(PipelineError, match="got str"):
        toolkit.pipeline("image")  # type: ignore[arg-type]


def test_a_pipeline_reads_as_it_is_written() -> None:
    made = toolkit.pipeline(
        slot("image", name="small", optional=True, fill=0, sync="a").decode_image(mode="gray").resize((3, 4)),
        slot("label").scalar("int64"),
        batch_maps=[max],
    )
    assert repr(made) == (
        "pipeline(\n"
        '    slot("image", name="small", optional=True, fill=0, sync="a").decode_image(mode="gray").resize((3, 4)),\n'
        '    slot("label").scalar("int64"),\n'
        "    batch_maps=[max],\n"
        ")"
    )
    assert eval(repr(made), {"slot": slot, "pipeline": toolkit.pipeline, "max": max}) == made
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert made.required_columns == ("image", "label")


DECODED = slot("image").decode_image()
BASE = toolkit.pipeline(DECODED.random_crop(8), slot("label").scalar("int64"))


@pytest.mark.parametrize(
    "same",
    [
        toolkit.pipeline(slot("label").scalar("int64"), DECODED.random_crop(8)),
        toolkit.pipeline(slot("image").decode_image(max_bytes=1, truncated="warn").random_crop(8), *BASE.slots[1:]),
        toolkit.pipeline(DECODED.random_crop(8), slot("label", sync="other").scalar("int64")),
    ],
)
def test_describe_leaves_out_what_changes_no_sample(same: toolkit.Pipeline) -> None:
    assert same.describe() == BASE.describe()


def test_describe_takes_what_means_the_same_for_the_same() -> None:
    def describe(fill: float = 0, weights: tuple[float, ...] | None = None) -> str:
        way = toolkit.chain().hflip()
        steps = DECODED.one_of(way, toolkit.chain(), weights=weights)
        return toolkit.pipeline(steps, slot("label", optional=True, fill=fill).scalar("int64")).describe()

    assert describe(1) == describe(1.0) == describe(True) != describe(0) == describe(False)
    assert toolkit.pipeline(DECODED.hflip(-0.0)).describe() == toolkit.pipeline(DECODED.hflip(0.0)).describe()
    zeros = [DECODED.affine(5, shear=shear, center=(shear, 0)) for shear in (0, 0.0, -0.0)]
    assert len({toolkit.pipeline(each).describe() for each in zeros}) == len({repr(each) for each in zeros}) == 1
    assert describe(0.5) == describe(np.float64(0.5)) != describe(math.inf) != describe(math.nan)
    assert describe(weights=(1, 1)) == describe(weights=(2.5, 2.5)) == describe()
    assert describe(weights=(1, 3)) == describe(weights=(2, 6)) != describe(weights=(3, 1)) != describe()


@pytest.mark.parametrize("fill", [math.nan, math.inf, -math.inf, np.float64(0.25), True, "é\n"])
def test_a_fill_reads_as_code(fill: float | str) -> None:
    made = slot("x", optional=True, fill=fill)
    again = eval(repr(made), {"slot": slot})
    assert repr(again) == repr(made)
    assert again.fill == fill or again.fill != again.fill


@pytest.mark.parametrize(
    "other",
    [
        toolkit.pipeline(slot("image").decode_image(accuracy="fast").random_crop(8), *BASE.slots[1:]),
        toolkit.pipeline(slot("image").decode_image(exif=False).random_crop(8), *BASE.slots[1:]),
        toolkit.pipeline(slot("image", sync="own").decode_image().random_crop(8), *BASE.slots[1:]),
        toolkit.pipeline(slot("image", name="i").decode_image().random_crop(8), *BASE.slots[1:]),
        toolkit.pipeline(slot("image", optional=True, fill=1).decode_image().random_crop(8), *BASE.slots[1:]),
        toolkit.pipeline(DECODED.random_crop(8), slot("label").scalar("int32")),
        toolkit.pipeline(DECODED.random_crop(8)),
        toolkit.pipeline(*BASE.slots, batch_maps=[max]),
        toolkit.pipeline(*BASE.slots, batch_maps=[toolkit.batch_map(max, version=2)]),
        toolkit.pipeline(DECODED.crop(0, 0, 8, 8), *BASE.slots[1:]),
    ],
)
def test_describe_changes_with_what_does(other: toolkit.Pipeline) -> None:
    assert other.describe() != BASE.describe()


def test_slots_of_other_columns_draw_alike_and_second_views_on_their_own() -> None:
    groups = toolkit.pipeline(
        slot("image"), slot("mask"), slot("image", name="view"), slot("mask", name="mask of view"), slot("label")
    ).sync_groups
    assert groups == {"image": "", "mask": "", "label": "", "view": "#1", "mask of view": "#1"}


def test_sync_names_a_slot_or_a_group() -> None:
    groups = toolkit.pipeline(
        slot("image"),
        slot("image", name="large", sync="image"),
        slot("image", name="view"),
        slot("depth", sync="large"),
        slot("left", sync="pair"),
        slot("right", sync="pair"),
        slot("own", sync="own"),
    ).sync_groups
    assert groups == {
        "image": "",
        "large": "",
        "view": "#1",
        "depth": "",
        "left": "pair",
        "right": "pair",
        "own": "own",
    }
    with pytest.raises(PipelineError, match="the slots a, b sync with each other in a circle"):
        toolkit.pipeline(slot("a", sync="b"), slot("b", sync="a"))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (toolkit.pipeline(slot("imgae")), r"no column 'imgae'; it has image, label\. Did you mean 'image'"),
        (toolkit.pipeline(slot("image", name="label")), "the column 'label' passes through under that name"),
        (toolkit.pipeline(slot("image").scalar("int64")), r"got an image column: put \.decode_image\(\) there"),
        (toolkit.pipeline(slot("image").text()), "expected text or bytes, got an image column"),
        (toolkit.pipeline(slot("label").text()), "got a label column"),
        (toolkit.pipeline(slot("label").array("int64", (1,))), r"read by \.scalar\(dtype\)"),
        (toolkit.pipeline(slot("label").npy()), "got a label column"),
        (toolkit.pipeline(slot("label", optional=True, fill=300).scalar("uint8")), "fill=300 doesn't fit"),
        (toolkit.pipeline(slot("label", optional=True, fill=1.5).scalar("uint8")), "fill=1.5 doesn't fit"),
        (toolkit.pipeline(slot("label", optional=True, fill="x").scalar("uint8")), "give a number"),
    ],
)
def test_slots_that_do_not_fit_the_dataset(made: toolkit.Pipeline, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        made.compile(COLUMNS, SCHEMA)


def test_a_column_of_pixels_takes_image_steps_alone() -> None:
    columns, schema = (image_column("image", ImageEncoding(Encoding.RAW)),), pa.schema({"image": RAW_IMAGE_TYPE})
    (compiled,) = toolkit.pipeline(slot("image").decode_image().center_crop(4)).compile(columns, schema)
    assert compiled.output.fixed_shape == (4, 4, 3)
    for made in (slot("image").bytes(), slot("image").array("uint8", (4,)), slot("image").scalar("uint8")):
        with pytest.raises(PipelineError, match="got an image column"):
            toolkit.pipeline(made).compile(columns, schema)


def test_explain_shows_types_and_what_runs() -> None:
    made = toolkit.pipeline(
        slot("image", optional=True, fill=0).decode_image().resize_short(256).random_crop(224).normalize("imagenet"),
        slot("label", name="target").scalar("int64").one_hot(10),
        batch_maps=[max],
    )
    assert made.explain().splitlines()[1:] == [
        "├─ image: a stored value, optional, fill 0, draws in group '' of generator 2",
        "│  ├─ decode_image()         uint8 (?, ?, 3) HWC        native",
        "│  ├─ resize_short(256)      uint8 (?, ?, 3) HWC        native",
        "│  ├─ random_crop(224)       uint8 (224, 224, 3) HWC    native, random",
        '│  └─ normalize("imagenet")  float32 (3, 224, 224) CHW  native',
        "├─ target: a stored value 'label'",
        '│  ├─ scalar("int64")  int64          numpy',
        "│  └─ one_hot(10)      float32 (10,)  numpy",
        "└─ batch maps",
        "   └─ max",
    ]
    assert made.describe().startswith(made.explain().splitlines()[0].removeprefix("pipeline "))


def test_a_slot_syncs_with_no_group_of_toolkits_own() -> None:
    for sync in ("", "#1", "#"):
        with pytest.raises(PipelineError, match=rf"^slot 'image': sync='{sync}' is how toolkit calls"):
            slot("image", sync=sync)
    assert toolkit.pipeline(slot("image", sync="1#")).sync_groups == {"image": "1#"}


@pytest.mark.parametrize("option", ["name", "sync", "fill"])
def test_a_text_that_cannot_be_encoded_is_refused_where_it_is_written(option: str) -> None:
    with pytest.raises(PipelineError, match=rf"^slot 'x': {option} must be a text that UTF-8 can hold, got "):
        slot("x", optional=True, **{option: "\ud800"})
    with pytest.raises(PipelineError, match="column must be a text that UTF-8 can hold"):
        slot("\udfff")
    with pytest.raises(PipelineError, match="step hflip: name must be a text that UTF-8 can hold"):
        DECODED.hflip(name="a\udc80")
