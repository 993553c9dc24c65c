from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError
from toolkit.format.schema import IMAGE_TYPE, image_column, label_column
from toolkit.pipelines.build import compile_pipeline

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
        compile_pipeline(toolkit.pipeline(build()), COLUMNS, SCHEMA)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.normalize("imagnet"), "Did you mean 'imagenet'"),
        (lambda s: s.normalize("imagenet", (1, 1, 1)), "leave std out"),
        (lambda s: s.normalize((1, 2), (1, 1, 1)), "three values"),
        (lambda s: s.normalize((0, 0, 0), (1, 0, 1)), "must be positive"),
        (lambda s: s.resize_short(0), "size must be a positive int, got 0"),
        (lambda s: s.center_crop((3, -1)), "width must be a positive int"),
        (lambda s: s.center_crop((1, 2, 3)), "one number or"),
        (lambda s: s.normalize((0, 0, float("nan")), (1, 1, 1)), "must be a finite number"),
        (lambda s: s.normalize((0, 0, 0), (1, 1e-42, 1)), "no smaller than"),
        (lambda s: s.resize_short(2.5), "positive int, got 2.5"),
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
