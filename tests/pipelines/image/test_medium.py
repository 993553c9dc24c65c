"""Images as a medium, held to the contract of all media."""

from __future__ import annotations

from contracts.medium import MediumContract
from pictures import encode, picture

import toolkit
from toolkit.format.kinds import Kind
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import Medium

_JPEG = encode(picture(1, 40, 30), quality=90)


class TestImage(MediumContract):
    files = {  # noqa: RUF012
        "jpg": _JPEG,
        "png": encode(picture(2, 17, 9), "PNG"),
        "webp": encode(picture(3, 20, 31), "WEBP"),
        "tif": encode(picture(4, 8, 8), "TIFF"),
    }
    damaged = _JPEG[: len(_JPEG) // 2]
    encoding = "raw"

    @property
    def medium(self) -> Medium:
        medium = medium_of(Kind.IMAGE)
        assert medium is not None
        return medium

    def slot(self, *, optional: bool = False) -> toolkit.Slot:
        return toolkit.slot("x", optional=optional).decode_image()
