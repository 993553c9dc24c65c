"""Label files of YOLO against NumPy's reading of their numbers; YAML files are read, or refused with their names."""

from __future__ import annotations

import math
import re

import numpy as np
from fuzz.inputs import File, refused

from toolkit.errors import NotFoundError, SourceError
from toolkit.sources.contents import UnfitError
from toolkit.sources.kinds.yolo.config import read_config
from toolkit.sources.kinds.yolo.labels import Form, read_labels

_CONFIG = File("data.yaml")
_LONGEST_CONFIG = 1500  # PyYAML is slow
_CLASSES = 3
_WIDTHS = {Form.BOX: 4, Form.POSE: 10}


def _labels(data: bytes, keypoints: tuple[int, int] | None) -> object:
    try:
        said = read_labels(data, _CLASSES, keypoints)
    except UnfitError as error:
        return re.sub(r"[0-9]+|'.*?'", "", refused(error))[:30]
    lines = [line.split() for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    rows = list(dict.fromkeys(tuple(np.array(line, np.float64).tolist()) for line in lines))
    assert said.repeated == len(lines) - len(rows)
    assert [(float(label), *values) for label, values in zip(said.ids, said.values, strict=True)] == rows
    assert all(0 <= label < _CLASSES for label in said.ids)
    for values in said.values:
        assert all(map(math.isfinite, values))
        assert len(values) == _WIDTHS.get(said.form, len(values))  # type: ignore[arg-type]
    return said.form, len(rows), said.repeated


def _config(data: bytes) -> object:
    path = _CONFIG.write(data)
    try:
        config = read_config(path, None, None)
    except (SourceError, NotFoundError) as error:
        said = str(error)
        said.encode()
        assert "data.yaml" in said, said
        return re.sub(r"[0-9]+|'.*?'", "", said.rpartition("data.yaml")[2])[:30]
    assert all(not place.startswith(("/", "..")) for places in config.splits.values() for place in places)
    return len(config.splits), config.classes is not None, config.keypoints is not None


def fuzz(data: bytes) -> object:
    """Use one input."""
    if data[:1] == b"#":
        return _config(data[:_LONGEST_CONFIG])
    return _labels(data, None), _labels(data, (2, 3))


def seeds() -> list[bytes]:
    """Return label files of all forms, and YAML files behind a "#"."""
    labels = [
        "0 0.5 0.25 1 .5\n2 0.1 0 0 1e-3\r\n", "1 .1 .1 .9 .1 .5 .9\n0 0 0 0 1 1 1 1 0", "0 0 0 1 1\n0 0.0 0 1 1\n",
        "0 .5 .5 1 1 .1 .2 2 .3 .4 0\n", "\n \n", "1.0 +.5 5e-1 0.50 1\n", "0 nan inf 1_0 0x1", "3 0 0 1 1", "0 0 0 1",
    ]  # fmt: skip
    configs = [
        "#\ntrain: .\nval: [., ./]\nnames: [a, b]\nkpt_shape: [17, 3]\nnc: 2\n",
        "#\npath: .\ntest: ../x\ntrain: data.yaml\nnames: {0: a, 1: b}\ndownload: |\n  x\n",
        "#\npath: ..\ntrain: /\nnames: [yes]\n",
        "#\ntrain: ~\nval: x\nnames: &a [*a]\n", "#\nnames: !!str 3\ntrain: 1\n",
    ]  # fmt: skip
    return [text.encode() for text in labels + configs]
