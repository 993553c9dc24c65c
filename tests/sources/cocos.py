"""COCO annotations to write, good and bad."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pictures import encode, picture

WIDTH, HEIGHT = 24, 16
CATEGORIES = ({"id": 7, "name": "cat"}, {"id": 2, "name": "dog"})


def image(number: int, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": number, "file_name": name or f"{number}.jpg", "width": WIDTH, "height": HEIGHT, **more}


def box(number: int, of: int, category: int = 7, **more: Any) -> dict[str, Any]:
    return {"id": number, "image_id": of, "category_id": category, "bbox": [1, 2, 3.5, 4], **more}


def document(
    images: Sequence[dict[str, Any]],
    annotations: Sequence[dict[str, Any]] = (),
    categories: Sequence[dict[str, Any]] = CATEGORIES,
) -> dict[str, Any]:
    return {"images": list(images), "annotations": list(annotations), "categories": list(categories)}


def write(path: Path, made: dict[str, Any] | str | bytes) -> Path:
    """Write a file of annotations, as text or to be made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made) if isinstance(made, dict) else made
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def photos(root: Path, *names: str, width: int = WIDTH, height: int = HEIGHT) -> None:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encode(picture(number, width, height)))
