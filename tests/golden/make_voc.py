"""Write tests/golden/voc: a small VOCdevkit, and what torchvision's VOCDetection and VOCSegmentation read of it.

    python tests/golden/make_voc.py

Run with torchvision 0.28 and Pillow 13. The annotations are written as those of 2007 are, as those of 2012 are
(corners in another order, with fractions; parts), and as labelImg writes them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torchvision.datasets import VOCDetection, VOCSegmentation

HERE = Path(__file__).parent / "voc"
DEVKIT = HERE / "VOCdevkit"
SIZE = (40, 30)
LISTS = {
    "VOC2007": {"train": ["000005", "000007"], "val": ["000009"], "test": ["000012"]},
    "VOC2012": {"train": ["2008_000002"], "val": ["2008_000003"]},
}

OBJECT_2007 = """\t<object>
\t\t<name>{name}</name>
\t\t<pose>{pose}</pose>
\t\t<truncated>{truncated}</truncated>
\t\t<difficult>{difficult}</difficult>
\t\t<bndbox>
\t\t\t<xmin>{box[0]}</xmin>
\t\t\t<ymin>{box[1]}</ymin>
\t\t\t<xmax>{box[2]}</xmax>
\t\t\t<ymax>{box[3]}</ymax>
\t\t</bndbox>
\t</object>
"""
OBJECT_2012 = """\t<object>
\t\t<name>{name}</name>
\t\t<bndbox>
\t\t\t<xmax>{box[2]}</xmax>
\t\t\t<xmin>{box[0]}</xmin>
\t\t\t<ymax>{box[3]}</ymax>
\t\t\t<ymin>{box[1]}</ymin>
\t\t</bndbox>
\t\t<difficult>{difficult}</difficult>
\t\t<occluded>{occluded}</occluded>
\t\t<pose>{pose}</pose>
\t\t<truncated>{truncated}</truncated>
{parts}\t</object>
"""
PART = """\t\t<part>
\t\t\t<name>head</name>
\t\t\t<bndbox>
\t\t\t\t<xmax>9.5</xmax>
\t\t\t\t<xmin>3</xmin>
\t\t\t\t<ymax>8</ymax>
\t\t\t\t<ymin>2</ymin>
\t\t\t</bndbox>
\t\t</part>
"""
FRAME = """<annotation>
\t<folder>{year}</folder>
\t<filename>{name}.jpg</filename>
\t<source>
\t\t<database>The VOC{digits} Database</database>
\t\t<annotation>PASCAL VOC{digits}</annotation>
\t\t<image>flickr</image>
\t</source>
\t<size>
\t\t<width>40</width>
\t\t<height>30</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>{segmented}</segmented>
{objects}</annotation>
"""
LABELIMG = """<annotation verified="yes">
    <folder>JPEGImages</folder>
    <filename>{name}.jpg</filename>
    <path>C:\\photos\\{name}.jpg</path>
    <source>
        <database>Unknown</database>
    </source>
    <size>
        <width>40</width>
        <height>30</height>
        <depth>3</depth>
    </size>
    <segmented>0</segmented>
    <object>
        <name>person</name>
        <pose>Unspecified</pose>
        <truncated>0</truncated>
        <difficult>1</difficult>
        <bndbox>
            <xmin>1</xmin>
            <ymin>1</ymin>
            <xmax>40</xmax>
            <ymax>30</ymax>
        </bndbox>
    </object>
</annotation>
"""


def annotations() -> dict[tuple[str, str], str]:
    def thing(name: str, box: tuple[object, ...], template: str = OBJECT_2007, **more: Any) -> str:
        said = {"pose": "Left", "truncated": 0, "difficult": 0, "occluded": 1, "parts": "", **more}
        return template.format(name=name, box=box, **said)

    def frame(year: str, name: str, *objects: str, segmented: int = 0) -> str:
        return FRAME.format(year=year, digits=year[3:], name=name, segmented=segmented, objects="".join(objects))

    chairs = [thing("chair", (5 + i, 6, 20 + i, 25), truncated=i, pose="Rear") for i in range(2)]
    return {
        ("VOC2007", "000005"): frame("VOC2007", "000005", *chairs, thing("dog", (1, 1, 40, 30), difficult=1)),
        ("VOC2007", "000007"): frame("VOC2007", "000007", thing("car", (3, 4, 38, 29)), segmented=1),
        ("VOC2007", "000009"): frame("VOC2007", "000009"),
        ("VOC2007", "000012"): LABELIMG.format(name="000012"),
        ("VOC2012", "2008_000002"): frame(
            "VOC2012", "2008_000002", thing("tvmonitor", (34.5, 11, 38.25, 29), OBJECT_2012)
        ),
        ("VOC2012", "2008_000003"): frame(
            "VOC2012",
            "2008_000003",
            thing("person", (2, 1, 39, 30), OBJECT_2012, parts=PART * 2, pose="Frontal", occluded=0),
            thing("train", (1, 1.5, 12, 30), OBJECT_2012, truncated=1),
            segmented=1,
        ),
    }


def write() -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    for number, ((year, name), text) in enumerate(annotations().items()):
        for folder in ("JPEGImages", "Annotations", "ImageSets/Main", "ImageSets/Segmentation"):
            (DEVKIT / year / folder).mkdir(parents=True, exist_ok=True)
        (DEVKIT / year / "Annotations" / f"{name}.xml").write_text(text)
        colours = np.random.default_rng(number).integers(0, 256, (3, 4, 3), np.uint8)
        picture = Image.fromarray(colours).resize(SIZE, Image.Resampling.BICUBIC)
        picture.save(DEVKIT / year / "JPEGImages" / f"{name}.jpg", quality=80)
        if "<segmented>1" in text:
            for folder, colour in (("SegmentationClass", 7), ("SegmentationObject", 1)):
                mask = Image.new("P", SIZE)
                mask.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0] + [200, 64, 32] * 253)
                mask.paste(colour, (4, 5, 20, 20))
                mask.paste(255, (20, 5, 22, 20))
                (DEVKIT / year / folder).mkdir(exist_ok=True)
                mask.save(DEVKIT / year / folder / f"{name}.png")
    for year, lists in LISTS.items():
        for split, names in lists.items():
            (DEVKIT / year / f"ImageSets/Main/{split}.txt").write_text("".join(f"{name}\n" for name in names))
        both = lists["train"] + lists["val"]
        (DEVKIT / year / "ImageSets/Main/trainval.txt").write_text("".join(f"{name}\n" for name in both))
        masked = sorted(path.stem for path in (DEVKIT / year / "SegmentationClass").glob("*.png"))
        for split in ("train", "val"):
            names = [name for name in masked if name in lists[split]]
            (DEVKIT / year / f"ImageSets/Segmentation/{split}.txt").write_text("".join(f"{name}\n" for name in names))


def read() -> dict[str, Any]:
    detection, masks = {}, {}
    for year, lists in LISTS.items():
        for split in lists:
            told = VOCDetection(str(HERE), year=year[3:], image_set=split)
            for (_, target), path in zip(told, told.images, strict=True):
                key = Path(path).relative_to(DEVKIT).as_posix()
                detection[key] = {"split": split, **target}
            if split == "test":
                continue
            told = VOCSegmentation(str(HERE), year=year[3:], image_set=split)
            for (_, mask), path in zip(told, told.images, strict=True):
                key = Path(path).relative_to(DEVKIT).as_posix()
                masks[key] = hashlib.sha256(np.asarray(mask).tobytes()).hexdigest()
    return {"detection": detection, "masks": masks}


if __name__ == "__main__":
    write()
    (HERE / "torchvision.json").write_text(json.dumps(read(), indent=1, sort_keys=True) + "\n")
