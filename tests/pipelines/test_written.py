"""Pipelines as YAML: round trips, what hands write, and every fault with its line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit
from toolkit import chain, slot
from toolkit.errors import NotFoundError, PipelineError

Pipeline = toolkit.Pipeline

WHOLE = toolkit.pipeline(
    slot("image")
    .decode_image(mode="rgb", exif=False)
    .maybe(chain().color_jitter(brightness=0.4, hue=0.1).grayscale(channels=3), p=0.8)
    .one_of(chain().hflip(1.0).one_of(chain(), chain().vflip()), chain(), weights=(1, 2.5))
    .random_resized_crop(224, scale=(0.2, 1.0), filter="bicubic")
    .resize((20, 30))
    .normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.1)),
    slot("image", name="small", sync="image").decode_image().resize_short(12).center_crop(10),
    slot("label", optional=True, fill=-1).scalar("int64"),
    slot("vector", name="värde: #1", optional=True, fill="yes").array("float32", (None, 3)),
    batch_maps=[
        toolkit.mixup_or_cutmix(0.8, 1.0, columns=("image", "small"), classes=9, smoothing=0.1, mode="batch"),
        toolkit.mixup(0.2),
        toolkit.resizemix(name="again"),
        toolkit.label_smoothing(0.1, label="label"),
        toolkit.normalize_batch("half", columns="small"),
        toolkit.normalize_batch((0.5, 0.4, 0.3), (0.2, 0.2, 0.1)),
        toolkit.pad_to_longest("värde: #1", multiple_of=8, value=-1.0),
    ],
)

WRITTEN = """\
version: 1
slots:
- column: image
  steps:
  - decode_image
  - maybe:
      chain:
      - color_jitter:
          brightness: [0.6, 1.4]
      - hflip
      p: 0.8
  - one_of:
      chains:
      - [vflip]
      - []
      weights: [1.0, 3.0]
  - {resize_short: 256}
  - {center_crop: 224}
"""


def test_a_pipeline_reads_back_as_it_was() -> None:
    made = Pipeline.from_yaml(WHOLE.to_yaml())
    assert made == WHOLE
    assert made.describe() == WHOLE.describe()
    assert made.to_yaml() == WHOLE.to_yaml()


def test_it_is_written_for_people() -> None:
    jitter = chain().color_jitter(brightness=0.4).hflip()
    image = slot("image").decode_image().maybe(jitter, p=0.8).one_of(chain().vflip(), chain(), weights=(1, 3))
    made = toolkit.pipeline(image.resize_short(256).center_crop(224))
    assert made.to_yaml() == WRITTEN
    assert Pipeline.from_yaml(WRITTEN) == made


def test_hands_may_write_arguments_by_name_or_the_first_alone(tmp_path: Path) -> None:
    text = "version: 1\nslots:\n- column: image\n  steps: [decode_image: {mode: gray}, resize: [3, 4], crop: {top: 1, "
    text += "left: 0, height: 2, width: 2}]\n"
    made = toolkit.pipeline(slot("image").decode_image(mode="gray").resize((3, 4)).crop(1, 0, 2, 2))
    assert Pipeline.from_yaml(text) == made
    path = tmp_path / "augment.yaml"
    path.write_text("# a comment\n" + text, "utf-8")
    assert Pipeline.from_yaml(path) == made


@given(
    st.text(min_size=1).filter(lambda text: text.isprintable()),
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=9)),
)
def test_names_and_fills_of_all_kinds(name: str, fill: object) -> None:
    made = toolkit.pipeline(slot(name, name=name, optional=True, fill=fill).text())  # type: ignore[arg-type]
    again = Pipeline.from_yaml(made.to_yaml())
    if isinstance(fill, float) and math.isnan(fill):
        assert isinstance(again.slots[0].fill, float)
        assert math.isnan(again.slots[0].fill)
    else:
        assert again == made
        assert type(again.slots[0].fill) is type(fill)


@pytest.mark.parametrize("broken", ["\x85", "a\x85b", "\u2028", "a\u2029 b", " \r\n", "a\n", "\n", "x" * 200 + "\x85y"])
def test_texts_with_line_breaks(broken: str) -> None:
    made = toolkit.pipeline(slot("image", name="x", sync=broken, optional=True, fill=broken).text())
    assert Pipeline.from_yaml(made.to_yaml()) == made


def test_a_function_is_refused_by_name() -> None:
    image = slot("image").decode_image()
    with pytest.raises(PipelineError, match=r"slot 'image', step python\(.*len.*can't be written as YAML"):
        toolkit.pipeline(image.python(len, "int64")).to_yaml()
    with pytest.raises(PipelineError, match=r"batch map .*dict.*can't be written as YAML"):
        toolkit.pipeline(image, batch_maps=[dict]).to_yaml()


BEGIN = "version: 1\nslots:\n- column: image\n  steps:\n  - decode_image\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the YAML holds no pipeline"),
        ("augment.yaml", r"to read the file, give pathlib.Path\('augment.yaml'\)"),
        ("version: 1", "slots is missing"),
        ("version: 1\nslot: []", r"the YAML:2: unknown key 'slot'. Did you mean 'slots'\?"),
        ("version: 2\nslots: []", "the YAML:1: version 2 isn't known: this toolkit reads 1"),
        ("version: 1\nslots: 3", "the YAML:2: slots must be a list, got 3"),
        ("version: 1\nslots:\n- 3", "the YAML:3: a slot is column: and steps:, got 3"),
        ("version: 1\nslots:\n- name: a", "the YAML:3: column is missing"),
        ("version: true\nslots: []", "the YAML:1: version True isn't known"),
        ("version: 1\nslots:\n- column: [1]", "the YAML:3: slot .*column must be a text"),
        ("version: 1\nslots:\n- column: a\n  stpes: []", "the YAML:4: unknown key 'stpes'. Did you mean 'steps'"),
        ("version: 1\nslots:\n- column: a\n  fill: 1", "the YAML:3: .*fill=1 is only for optional=True"),
        ("version: 1\nslots:\n- column: a\n- column: a", "two slots are called 'a'"),
        ("version: 1\nslots:\n- column: a\n  steps: text", "the YAML:4: steps must be a list, got 'text'"),
        (BEGIN + "  - resize_shrt: 3", "the YAML:6: no step is called 'resize_shrt'. Did you mean 'resize_short'"),
        (BEGIN + "  - with_step: 3", "the YAML:6: no step is called 'with_step'"),
        (BEGIN + "  - 3", "the YAML:6: a step is a word"),
        (BEGIN + "  - {hflip: 1, vflip: 1}", "the YAML:6: a step is a word"),
        (BEGIN + "  - resize_short: 0", "the YAML:6: slot 'image', step resize_short: size must be"),
        (BEGIN + "  - hflip: {p: 1.2}", "the YAML:6: slot 'image', step hflip: p must be within 0..1, got 1.2"),
        (BEGIN + "  - hflip: {q: 1}", "the YAML:6: hflip.* got an unexpected keyword argument 'q'"),
        (BEGIN + "  - hflip: {1: 1}", "the YAML:6: hflip.* got an unexpected keyword argument '1'"),
        (
            BEGIN + "  - maybe:\n      p: 1\n      chain:\n      - hflip: {p: 2}",
            "the YAML:9: chain, step hflip: p must",
        ),
        (BEGIN + "  - one_of: {chains: 3}", "the YAML:6: chains must be a list, got 3"),
        (BEGIN + "  - normalize: imagenet\n  - hflip", "the YAML:7: slot 'image', step 3 hflip.*: expected"),
        (BEGIN + "  - python: {fn: os.system, schema: object}", "the YAML:6: .*expected a function, got 'os.system'"),
        ("version: 1\nslots: !!python/object:os.system []", "the YAML:2: the tag"),
        ("version: 1\nversion: 1", "the YAML:2: 'version' is given twice"),
        (BEGIN + "batch_maps: mixup", "the YAML:6: batch_maps must be a list, got 'mixup'"),
        (BEGIN + "batch_maps:\n- mixpu: 0.2", "the YAML:7: no batch step is called 'mixpu'. Did you mean 'mixup'"),
        (BEGIN + "batch_maps:\n- 3", "the YAML:7: a batch step is a word"),
        (BEGIN + "batch_maps:\n- mixup: {alpha: -1}", "the YAML:7: batch step mixup: alpha must"),
        (BEGIN + "batch_maps:\n- mixup: {alpha: 1, lable: a}", "the YAML:7: .*'lable'"),
        (BEGIN + "batch_maps:\n- mixup", "the YAML:7: .*alpha"),
    ],
)
def test_what_cannot_be_is_an_error_with_its_line(text: str, says: str) -> None:
    with pytest.raises(PipelineError, match=f"^{says}" if says.startswith("the YAML") else says):
        Pipeline.from_yaml(text)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no pipeline at"):
        Pipeline.from_yaml(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4")
    with pytest.raises(PipelineError, match=r"latin\.yaml:1: not UTF-8"):
        Pipeline.from_yaml(tmp_path / "latin.yaml")
