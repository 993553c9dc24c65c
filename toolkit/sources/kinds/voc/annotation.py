"""Read one annotation of Pascal VOC: XML without a document type, and numbers as they are written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from xml.parsers import expat

from toolkit.sources.contents import UnfitError

__all__ = ["MOST_BYTES", "Annotation", "Thing", "read_annotation"]

MOST_BYTES = 8 * 1024 * 1024  # of a file; VOC's own have some KiB
_MOST_DEPTH = 32  # VOC's own have five levels
_MOST_ELEMENTS = 250_000  # some ten make an object; each takes 0.3 KiB of memory
_SHOWN = 40  # characters of a text in a message

_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Not every codec that Python knows: some of them unpack, or mean something else than text.
_ENCODINGS = frozenset(
    {"utf-8", "utf8", "us-ascii", "ascii", "latin-1", "latin1", "gb2312", "gbk", "gb18030", "big5", "shift_jis"}
    | {"euc-jp", "euc-kr", "koi8-r", *(f"windows-125{i}" for i in range(9)), *(f"cp125{i}" for i in range(9))}
    | {f"iso-8859-{i}" for i in range(1, 17) if i != 12}
)
# What could name other files, or grow without end.
_DOCUMENT_TYPE = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in a picture. `box` is xmin, ymin, xmax, ymax; what a file doesn't say is None."""

    name: str
    box: tuple[float, ...]
    difficult: int | None
    truncated: int | None
    occluded: int | None
    pose: str | None


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a file says.

    Attributes:
        filename: Of the picture.
        size: Width and height of the picture, if they are given.
        things: The objects, in order.
        parts: How many parts of objects there are (heads, hands, feet), which aren't read.
    """

    filename: str | None
    size: tuple[float, float] | None
    things: tuple[Thing, ...]
    parts: int


class _Node:
    """An element: the pieces of its own text, and the elements in it."""

    __slots__ = ("children", "pieces", "tag")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.pieces: list[str] = []
        self.children: list[_Node] = []

    def one(self, tag: str, of: str) -> _Node | None:
        """Return the child of that name, or None. Raises UnfitError when there are several."""
        found = [child for child in self.children if child.tag == tag]
        if len(found) > 1:
            raise UnfitError(f"{of}has {len(found)} <{tag}>")
        return found[0] if found else None

    def said(self, tag: str, of: str) -> str | None:
        """Return the text of that child, or None when it isn't there or blank."""
        child = self.one(tag, of)
        return ("".join(child.pieces).strip() or None) if child is not None else None


def read_annotation(data: bytes) -> Annotation:
    """Return what an annotation file of these bytes says.

    Raises:
        UnfitError: It isn't one: no XML, with a document type, without what each object must have.
    """
    root = _parse(_text(data))
    if root.tag != "annotation":
        raise UnfitError(f"its root element is <{root.tag[:_SHOWN]}>, and must be <annotation>")
    objects = [child for child in root.children if child.tag == "object"]
    return Annotation(
        root.said("filename", "it "),
        _size(root),
        tuple(_thing(node, f"object {number}") for number, node in enumerate(objects, 1)),
        sum(child.tag == "part" for node in objects for child in node.children),
    )


def _text(data: bytes) -> str:
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if encoding is None:
        declared = _DECLARED.match(data)
        encoding = declared[1].decode().lower() if declared else "utf-8"
        if encoding not in _ENCODINGS:
            raise UnfitError(f"the encoding {encoding!r} is not read: save it as UTF-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnfitError(f"not {encoding} text at byte {error.start}") from error
    if "\0" in text:  # UTF-16 without a mark, which expat reads as such whatever it is told
        raise UnfitError("it holds the character NUL: save it as UTF-8")
    found = _DOCUMENT_TYPE.search(text)
    if found:
        raise UnfitError(f"{found[0]} in it: XML with a document type or entities is not read")
    return text


def _parse(text: str) -> _Node:
    """Return the root element. Given as a str, text is what was searched for a document type, whatever it declares."""
    top = _Node("")
    stack = [top]

    count = 0

    def start(tag: str, _: object) -> None:
        nonlocal count
        count += 1
        if count > _MOST_ELEMENTS:
            raise UnfitError(f"it has more than {_MOST_ELEMENTS:,} elements")
        if len(stack) > _MOST_DEPTH:
            raise UnfitError(f"elements are nested more than {_MOST_DEPTH} deep")
        node = _Node(tag)
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def characters(more: str) -> None:
        stack[-1].pieces.append(more)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise UnfitError(f"no well-formed XML: {error}") from error
    return top.children[0]


def _size(root: _Node) -> tuple[float, float] | None:
    node = root.one("size", "it ")
    if node is None:
        return None
    sides = [_number(node, side, "<size> ") for side in ("width", "height")]
    width, height = sides
    # Some programs write 0 for a picture that they haven't opened.
    return (width, height) if width and height else None


def _thing(node: _Node, of: str) -> Thing:
    name = node.said("name", f"{of} ")
    if name is None:
        raise UnfitError(f"{of} has no <name>")
    of = f"{of} ({_shown(name)})"
    corners = node.one("bndbox", f"{of} ")
    if corners is None:
        raise UnfitError(f"{of} has no <bndbox>")
    box = tuple(_needed(corners, corner, of) for corner in _CORNERS)
    for low, high in ((0, 2), (1, 3)):
        if box[low] > box[high]:
            raise UnfitError(f"{of}: <{_CORNERS[low]}> {box[low]:g} is above <{_CORNERS[high]}> {box[high]:g}")
    difficult, truncated, occluded = (_flag(node, tag, f"{of} ") for tag in ("difficult", "truncated", "occluded"))
    return Thing(name, box, difficult, truncated, occluded, node.said("pose", f"{of} "))


def _needed(node: _Node, tag: str, of: str) -> float:
    value = _number(node, tag, f"{of} ")
    if value is None:
        raise UnfitError(f"{of} has no <{tag}>")
    return value


def _number(node: _Node, tag: str, of: str) -> float | None:
    text = node.said(tag, of)
    if text is None:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise UnfitError(f"{of}has {_shown(text)} as <{tag}>, which is no number")
    return value


def _flag(node: _Node, tag: str, of: str) -> int | None:
    text = node.said(tag, of)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text):
        raise UnfitError(f"{of}has {_shown(text)} as <{tag}>, which is no whole number such as 0 or 1")
    return int(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
