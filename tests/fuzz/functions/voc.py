"""Annotations of Pascal VOC against ElementTree: the same elements, or refused by both, or for what VOC lacks there."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from fuzz.inputs import refused

from toolkit.sources.contents import UnfitError
from toolkit.sources.kinds.voc.annotation import Annotation, read_annotation


def _tree(data: bytes) -> ET.Element | None:
    if re.search(rb"<!(?:DOCTYPE|ENTITY)", data.replace(b"\0", b""), re.IGNORECASE):
        return None  # not for ElementTree
    try:
        return ET.fromstring(data)
    except (ET.ParseError, ValueError, LookupError):  # of encodings that expat doesn't know
        return None


def _agree(said: Annotation, root: ET.Element) -> None:
    assert root.tag == "annotation"
    objects = root.findall("object")
    assert len(objects) == len(said.things)
    assert said.parts == sum(len(node.findall("part")) for node in objects)
    for thing, node in zip(said.things, objects, strict=True):
        assert thing.name == _text(node.find("name"))
        corners = [_text(node.find(f"bndbox/{corner}")) for corner in ("xmin", "ymin", "xmax", "ymax")]
        assert thing.box == tuple(map(float, corners)), (thing.box, corners)
        for flag, value in (("difficult", thing.difficult), ("truncated", thing.truncated)):
            text = _text(node.find(flag))
            assert value == (int(text) if text else None), (flag, value)


def _text(node: ET.Element | None) -> str:
    """The text of an element and what stands behind its children, as it is without them."""
    if node is None:
        return ""
    return "".join([node.text or "", *(child.tail or "" for child in node)]).strip()


def fuzz(data: bytes) -> object:
    """Use one input."""
    root = _tree(data)
    try:
        said = read_annotation(data)
    except UnfitError as error:
        reason = refused(error)
        assert not reason.startswith("no well-formed XML") or root is None, reason
        return re.sub(r"[0-9]+|'.*?'", "", reason)[:30]
    assert root is not None or re.search(rb"encoding", data) or data[:1] in b"\xff\xfe\xef", data[:100]
    if root is not None:
        _agree(said, root)
    return len(said.things), said.parts, said.filename is None, said.size is None


def seeds() -> list[bytes]:
    """Return annotations of several tools, in several encodings, and what is none."""
    folder = Path(__file__).resolve().parents[2] / "golden/voc/VOCdevkit"
    made = [path.read_bytes() for path in sorted(folder.rglob("*.xml"))]
    text = '<?xml version="1.0" encoding="{}"?><annotation><object><name>é</name><bndbox><xmin>1</xmin><ymin>2e0</ymin>'
    text += "<xmax>+3.</xmax><ymax>.5e1</ymax></bndbox><!-- x --><difficult> 1\n</difficult></object></annotation>"
    made += [text.format(name).encode(name) for name in ("utf-8", "utf-16", "latin-1", "windows-1252", "utf-8-sig")]
    made.append(b'<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;&amp;&#x41;<![CDATA[<]]></annotation>')
    return made
