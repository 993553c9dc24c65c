"""What kernels don't take is refused where it is written, and words take no more than kernels do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import toolkit
from toolkit import chain, slot
from toolkit._native.image.program import op_table
from toolkit.errors import PipelineError
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import image_column
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.fields import Argument
from toolkit.pipelines.registry import STEPS


def decoded() -> toolkit.Slot:
    return slot("image").decode_image()


def deep(levels: int) -> toolkit.Chain:
    """Return a flip within so many branches."""
    return chain().one_of(chain(), deep(levels - 1)) if levels else chain().hflip()


def flips(count: int) -> toolkit.Chain:
    """Return so many flips, one after the other."""
    made = chain()
    for _ in range(count):
        made = made.hflip()
    return made


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: flips(65), r"^chain, step 65 hflip\(\): expected at most 64 steps on pixels, got 65: leave some out"),
        (lambda: flips(40).then(flips(25)), r"^chain, step 65 hflip\(\): expected at most 64 steps on pixels"),
        (lambda: decoded().then(flips(64)).vflip(), r"^slot 'image', step 66 vflip\(\): expected at most 64 steps"),
        (lambda: flips(5).one_of(flips(60), chain()), r"^chain, step 6 one_of\(.*expected at most 64 .*, got 65"),
        (lambda: deep(9), r"^chain, step 1 one_of\(.*expected at most 8 branches of .* within each other, got 9"),
        (lambda: decoded().maybe(deep(8)), r"^slot 'image', step 2 maybe\(.*expected at most 8 branches"),
        (
            lambda: slot("image").decode_image(max_pixels=400).resize((20, 20)).pad(1),
            r"^slot 'image', step 3 pad\(1\): expected at most 400 pixels, got 22 x 22: .*decode_image\(max_pixels=\)",
        ),
        (lambda: decoded().resize((65_535, 65_535)), "expected at most 134217728 pixels, got 65535 x 65535"),
        (
            lambda: decoded().maybe(chain().one_of(chain(), chain().resize((20_000, 20_000)).center_crop(9))),
            r"^slot 'image', step 2 maybe\(.*expected at most 134217728 pixels, got 20000 x 20000",
        ),
    ],
)
def test_what_kernels_do_not_take_is_refused_where_it_is_written(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()


def test_what_kernels_take_is_not_refused() -> None:
    columns, schema = (image_column("image"),), pa.schema({"image": IMAGE_TYPE})
    for most in (flips(64), deep(8), flips(4).one_of(flips(60), flips(59)), chain().resize((65_535, 2))):
        toolkit.pipeline(decoded().then(most).normalize("half")).compile(columns, schema)


def test_what_python_runs_has_no_such_limits() -> None:
    values = chain().scalar("int64")
    for _ in range(70):
        values = values.maybe(chain().cast("int64"))
    nested = chain().cast("int64")
    for _ in range(10):
        nested = chain().maybe(nested)
    assert len(slot("x").then(values).then(nested).steps) == 72


# Fields that a step makes for its kernel, and those that it makes them of.
MADE: dict[str, tuple[set[str], set[str]]] = {
    "rotate": ({"centered"}, set()),
    "affine": ({"centered", "shear_x", "shear_y"}, {"shear"}),
    "shear": ({"centered"}, set()),
    "clahe": ({"rows", "columns"}, {"tiles"}),
}


def test_words_take_nothing_that_kernels_refuse() -> None:
    """Bounds stand in the fields of steps, which speak to people, and in those of kernels, which guard memory."""
    compared = 0
    for word, (_, taken) in op_table().items():
        declared = {field.name: field for field in dataclasses.fields(STEPS[word])}
        made, given = MADE.get(word, (set(), set()))
        assert taken.keys() - {"id"} - made == declared.keys() - {"name"} - given, word
        assert ("id" in taken) == ("name" in declared), word
        for name in taken.keys() - {"id"} - made:
            argument, bounds = Argument.of(declared[name]), taken[name]
            assert argument is not None
            if isinstance(bounds[0], str):
                assert {member.value for member in type(declared[name].default)} == set(bounds), (word, name)
            elif argument.annotation == "bool":
                assert bounds == (0, 1), (word, name)
            elif argument.least is None or argument.most is None:  # its check knows more than one pair of bounds
                for beyond in (bounds[0] - 1, bounds[1] + 1):
                    with pytest.raises(BadArgumentError):
                        argument.check(name, (beyond, beyond))
            else:
                assert bounds[0] <= argument.least < argument.most <= bounds[1], (word, name)
            compared += 1
    assert compared >= 30


@pytest.mark.parametrize("sides", [{"size": 65535}, {"size": 32768}, {"top": 40000, "bottom": 30000}, {"left": 65535}])
def test_padding_that_no_picture_has_room_for(sides: dict[str, int]) -> None:
    with pytest.raises(PipelineError, match=r"65535|32767"):
        slot("image").decode_image().pad(**sides)
    assert slot("image").decode_image().pad(32767).steps
    assert slot("image").decode_image().pad(top=65534).steps
    with pytest.raises(PipelineError, match=r"step 3 pad.*sides of at most 65535 pixels"):
        slot("image").decode_image().resize((60000, 1)).pad(3000)
