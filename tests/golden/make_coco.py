"""Write tests/golden/coco: a dataset laid out as COCO 2017 is, and what pycocotools reads from it.

    python tests/golden/make_coco.py

Run with pycocotools 2.0, numpy and Pillow; the tests need no pycocotools. Masks in the annotations are pycocotools'
own; tests/golden/coco.json has the annotations that COCO().loadAnns gives, and the masks of annToMask: their runs down
the columns, and the text that pycocotools compresses them to.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask as masks
from pycocotools.coco import COCO

ROOT = Path(__file__).parent / "coco"
HEIGHT, WIDTH = 24, 32
CATEGORIES = [(1, "person"), (3, "car"), (18, "dog"), (90, "toothbrush")]
JOINTS = ["nose", "left_eye", "right_eye"]
HEAD = {
    "info": {"description": "made up", "url": "http://example.org", "year": 2017},
    "licenses": [{"url": "http://example.org/by", "id": 1, "name": "made up"}],
}


def runs_of(mask: np.ndarray) -> list[int]:
    """The lengths of runs of a mask, zeros first, down the columns."""
    flat = mask.reshape(-1, order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff(np.concatenate(([0], edges, [flat.size]))).tolist()
    return lengths if flat[0] == 0 else [0, *lengths]


def counts_of(mask: np.ndarray) -> str:
    """The same, compressed by pycocotools."""
    return masks.encode(np.asfortranarray(mask))["counts"].decode()


def make_split(split: str, count: int, first: int, rng: np.random.Generator) -> dict[str, Any]:
    """Write a split's pictures; return its images and annotations."""
    images, instances, keypoints, captions = [], [], [], []
    (ROOT / split).mkdir()
    for number in range(count):
        image_id = first + 37 * number
        name = f"{image_id:012d}.jpg"
        Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)).save(ROOT / split / name, quality=30)
        images.append(
            {
                "license": 1,
                "file_name": name,
                "coco_url": f"http://example.org/{split}/{name}",
                "height": HEIGHT,
                "width": WIDTH,
                "date_captured": "2013-11-14 17:02:52",
                "flickr_url": f"http://example.org/{name}",
                "id": image_id,
            }
        )
        for place in range((0, 3, 1, 4, 2, 5)[number % 6]):
            category = CATEGORIES[int(rng.integers(len(CATEGORIES)))][0]
            left, top = (float(x) for x in rng.integers(0, 12, 2))
            wide, high = (round(float(x), 2) for x in 4 + 8 * rng.random(2))
            crowd = int(place == 3)
            if crowd:
                mask = (rng.random((HEIGHT, WIDTH)) < 0.3).astype(np.uint8)
                segmentation: Any = {"counts": runs_of(mask), "size": [HEIGHT, WIDTH]}
            elif place == 2:
                mask = np.zeros((HEIGHT, WIDTH), np.uint8)
                mask[int(top) : int(top) + 5, int(left) : int(left) + 9] = 1
                coded = masks.encode(np.asfortranarray(mask))
                segmentation = {"size": coded["size"], "counts": coded["counts"].decode()}
            else:
                right, bottom = left + wide, top + high
                segmentation = [[left, top, right, top, right, bottom, left, bottom]]
            one = {
                "segmentation": segmentation,
                "area": round(wide * high, 4),
                "iscrowd": crowd,
                "image_id": image_id,
                "bbox": [left, top, wide, high],
                "category_id": category,
                "id": image_id * 10 + place,
            }
            instances.append(one)
            if category == 1 and not crowd:
                points = [left, top, 2, left + 1, top, 1, 0, 0, 0]
                keypoints.append({**one, "num_keypoints": 2, "keypoints": points})
        captions += [{"image_id": image_id, "id": image_id * 100 + i, "caption": f"say {i} “{name}”"} for i in range(2)]
    return {"images": images, "instances": instances, "person_keypoints": keypoints, "captions": captions}


def write(split: str, made: dict[str, Any], rng: np.random.Generator) -> None:
    """Write the annotation files, annotations in any order."""
    person = {"keypoints": JOINTS, "skeleton": [[1, 2], [1, 3]]}
    for kind in ("instances", "person_keypoints", "captions"):
        document = {**HEAD, "images": made["images"], "annotations": list(made[kind])}
        rng.shuffle(document["annotations"])
        every = [{"supercategory": "thing", "id": i, "name": name} for i, name in CATEGORIES]
        if kind == "instances":
            document["categories"] = every
        elif kind == "person_keypoints":
            document["categories"] = [{**every[0], **person}]
        (ROOT / f"annotations/{kind}_{split}.json").write_text(json.dumps(document))


def expected(split: str) -> dict[str, Any]:
    """What pycocotools reads of a split, by the name of the image."""
    read = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for kind in ("instances", "person_keypoints", "captions"):
            read[kind] = COCO(str(ROOT / f"annotations/{kind}_{split}.json"))
    coco, found = read["instances"], {}
    for image_id in coco.getImgIds():
        annotations = coco.loadAnns(coco.getAnnIds(imgIds=[image_id]))
        made = [coco.annToMask(one) for one in annotations]
        name = coco.loadImgs([image_id])[0]["file_name"]
        found[f"{split}/{name}"] = {
            "image_id": image_id,
            "annotations": annotations,
            "names": [coco.loadCats([one["category_id"]])[0]["name"] for one in annotations],
            "masks": [{"counts": counts_of(one), "runs": runs_of(one)} for one in made],
            "keypoints": {
                one["id"]: [one["keypoints"], one["num_keypoints"]]
                for one in read["person_keypoints"].loadAnns(read["person_keypoints"].getAnnIds(imgIds=[image_id]))
            },
            "captions": [
                one["caption"] for one in read["captions"].loadAnns(read["captions"].getAnnIds(imgIds=[image_id]))
            ],
        }
    return found


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(ROOT, ignore_errors=True)
    (ROOT / "annotations").mkdir(parents=True)
    rng = np.random.default_rng(16)
    for split, count, first in (("train2017", 6, 9), ("val2017", 3, 139)):
        write(split, make_split(split, count, first, rng), rng)
    found = {split: expected(split) for split in ("train2017", "val2017")}
    (ROOT.parent / "coco.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
