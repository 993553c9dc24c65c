"""One annotation file: what it says, as torchvision reads it, and what is no annotation."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.contents import UnfitError
from toolkit.sources.kinds.voc.annotation import read_annotation

GOLDEN = Path(__file__).parents[3] / "golden/voc"


def annotation(*objects: str, head: str = "", size: str = "<width>40</width><height>30</height>") -> str:
    return f"{head}<annotation><filename>a.jpg</filename><size>{size}</size>{''.join(objects)}</annotation>"


def thing(name: str = "dog", box: tuple[object, ...] = (1, 2, 3, 4), more: str = "") -> str:
    corners = "".join(f"<{tag}>{at}</{tag}>" for tag, at in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return f"<object><name>{name}</name>{more}<bndbox>{corners}</bndbox></object>"


def fault(text: str | bytes) -> str:
    with pytest.raises(UnfitError) as error:
        read_annotation(text if isinstance(text, bytes) else text.encode())
    return str(error.value)


def test_files_say_what_torchvision_reads() -> None:
    told = json.loads((GOLDEN / "torchvision.json").read_text())["detection"]
    assert len(told) == 6
    for key, target in told.items():
        path = GOLDEN / "VOCdevkit" / key.replace("JPEGImages", "Annotations").replace(".jpg", ".xml")
        said = read_annotation(path.read_bytes())
        wanted = target["annotation"]
        assert said.filename == wanted["filename"]
        assert said.size == (float(wanted["size"]["width"]), float(wanted["size"]["height"]))
        assert len(said.things) == len(wanted["object"])
        parts = 0
        for one, other in zip(said.things, wanted["object"], strict=True):
            assert one.name == other["name"]
            assert one.box == tuple(float(other["bndbox"][corner]) for corner in ("xmin", "ymin", "xmax", "ymax"))
            assert [one.difficult, one.truncated, one.occluded] == [
                int(other[flag]) if flag in other else None for flag in ("difficult", "truncated", "occluded")
            ]
            assert one.pose == other["pose"]
            parts += len(other.get("part", []))
        assert said.parts == parts


def test_what_a_file_may_leave_out() -> None:
    said = read_annotation(b"<annotation><object><name> a b </name><bndbox><xmin>1</xmin><ymin>2.50</ymin>"
                           b"<xmax>1</xmax><ymax>1e1</ymax></bndbox></object></annotation>")  # fmt: skip
    (one,) = said.things
    assert (said.filename, said.size, said.parts) == (None, None, 0)
    assert (one.name, one.box) == ("a b", (1.0, 2.5, 1.0, 10.0))
    assert (one.difficult, one.truncated, one.occluded, one.pose) == (None, None, None, None)
    assert read_annotation(b"<annotation/>").things == ()
    assert read_annotation(annotation(size="<width>0</width><height>0</height>").encode()).size is None
    assert read_annotation(annotation(thing(more="<pose></pose><difficult/>")).encode()).things[0].pose is None


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "utf-16"),
        ("gb2312", "GB2312"),
        ("iso-8859-1", "ISO-8859-1"),
        ("windows-1252", "windows-1252"),
    ],
)
def test_encodings(encoding: str, declared: str) -> None:
    name = "狗" if encoding not in ("iso-8859-1", "windows-1252") else "Möwe"
    head = f'<?xml version="1.0" encoding="{declared}"?>\n' if declared else ""
    assert read_annotation(annotation(thing(name), head=head).encode(encoding)).things[0].name == name


def test_encodings_that_are_not_read() -> None:
    for name in ("utf-7", "zlib_codec", "punycode", "rot13", "nothing"):
        told = fault(annotation(head=f'<?xml version="1.0" encoding="{name}"?>'))
        assert told == f"the encoding {name!r} is not read: save it as UTF-8"
    assert fault(b"<annotation>\xff</annotation>") == "not utf-8 text at byte 12"
    # What declares one thing and is another: the mark at its beginning counts.
    assert read_annotation(annotation(head='<?xml version="1.0" encoding="zlib"?>').encode("utf-8-sig")).things == ()


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha" * 10}">' for i in range(10))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize(
    "kind",
    [
        f"<!DOCTYPE a [{LAUGHS}]>",
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a SYSTEM "http://example.com/a.dtd">',
        '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://example.com/p">%p;]>',
        "<!doctype html>",
    ],
)
def test_document_types_are_refused_unread(kind: str, encoding: str) -> None:
    told = fault(annotation(thing("&l9;"), head=kind).encode(encoding))
    assert told.lower() == "<!doctype in it: xml with a document type or entities is not read"


@pytest.mark.parametrize(
    "head", [f"<!DOCTYPE a [{LAUGHS}]>", '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a>', ""]
)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_wide_text_without_a_mark_is_refused_unread(head: str, encoding: str) -> None:
    # Each byte of it is UTF-8, so nothing is found in it; expat tells it by itself, and expands what it holds.
    data = annotation(thing("&l1;" if "l1" in head else "a"), head=head).encode(encoding)
    assert fault(data) == "it holds the character NUL: save it as UTF-8"


def test_entities_without_a_document_type() -> None:
    assert "undefined entity" in fault(annotation(thing("&x;")))
    assert read_annotation(annotation(thing("a&amp;b &#x72d7;")).encode()).things[0].name == "a&b 狗"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no element found: line 1, column 0"),
        ("\0" * 100, "character NUL"),
        ("<annotation>", "no element found"),
        ("<annotation></object></annotation>", "mismatched tag: line 1, column 14"),
        ("<annotation/><annotation/>", "junk after document element"),
        ("\n<?xml version='1.0'?><annotation/>", "XML or text declaration not at start"),
        ("<annotations/>", "its root element is <annotations>, and must be <annotation>"),
        ("<html><annotation/></html>", "its root element is <html>"),
        ("<annotation>" + "<a>" * 40 + "</a>" * 40 + "</annotation>", "nested more than 32 deep"),
        ("<a>" * 10_000, "nested more than 32 deep"),
        (annotation("<object/>"), "object 1 has no <name>"),
        (annotation(thing(), thing(" ")), "object 2 has no <name>"),
        (annotation("<object><name>dog</name></object>"), "object 1 ('dog') has no <bndbox>"),
        (annotation(thing(box=("", 1, 1, 1))), "object 1 ('dog') has no <xmin>"),
        (annotation(thing(box=(1, 1, 1, "b"))), "object 1 ('dog') has 'b' as <ymax>, which is no number"),
        (annotation(thing(box=(1, "nan", 1, 1))), "has 'nan' as <ymin>, which is no number"),
        (annotation(thing(box=(1, "inf", 1, 1))), "has 'inf' as <ymin>"),
        (annotation(thing(box=(1, "1e999", 1, 1))), "has '1e999' as <ymin>"),
        (annotation(thing(box=(1, "1_0", 10, 10))), "has '1_0' as <ymin>"),
        (annotation(thing(box=(1, "١", 10, 10))), "as <ymin>, which is no number"),
        (annotation(thing(box=(1, "9" * 5000, 10, 10))), "9999…' as <ymin>, which is no number"),
        (annotation(thing(box=(50, 1, 40, 1))), "object 1 ('dog'): <xmin> 50 is above <xmax> 40"),
        (annotation(thing(box=(1, 5, 1, 4.5))), "object 1 ('dog'): <ymin> 5 is above <ymax> 4.5"),
        (annotation(thing(more="<truncated>yes</truncated>")), "has 'yes' as <truncated>, which is no whole number"),
        (annotation(thing(more="<difficult>0.5</difficult>")), "has '0.5' as <difficult>"),
        (annotation(thing(more=f"<occluded>{'9' * 30}</occluded>")), "as <occluded>, which is no whole number"),
        (annotation(thing(more="<name>cat</name>")), "object 1 has 2 <name>"),
        (annotation(thing(more="<bndbox/>")), "object 1 ('dog') has 2 <bndbox>"),
        (annotation(size="<width>a</width>"), "<size> has 'a' as <width>, which is no number"),
    ],
)
def test_what_is_no_annotation(text: str, told: str) -> None:
    assert told in fault(text)


def test_very_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.sources.kinds.voc.annotation._MOST_ELEMENTS", 1000)
    assert read_annotation(("<annotation>" + "<a/>" * 999 + "</annotation>").encode()).things == ()
    assert fault("<annotation>" + "<a/>" * 1000 + "</annotation>") == "it has more than 1,000 elements"


def test_a_text_in_many_pieces() -> None:
    """Joined one by one, these would be copied for minutes."""
    text = "<annotation><filename>" + "xyz<b/>" * 50_000 + "</filename></annotation>"
    assert read_annotation(text.encode()).filename == "xyz" * 50_000


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1),
            st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4),
            st.sampled_from([None, 0, 1]),
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read(objects: list[tuple[str, list[float], int | None]]) -> None:
    root = ET.Element("annotation")
    wanted = []
    for name, (a, b, c, d), difficult in objects:
        box = (min(a, c), min(b, d), max(a, c), max(b, d))
        node = ET.SubElement(root, "object")
        ET.SubElement(node, "name").text = name
        if difficult is not None:
            ET.SubElement(node, "difficult").text = str(difficult)
        corners = ET.SubElement(node, "bndbox")
        for tag, at in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True):
            ET.SubElement(corners, tag).text = repr(at)
        wanted.append((name, box, difficult))
    said = read_annotation(ET.tostring(root, "utf-8", xml_declaration=True))
    assert [(one.name, one.box, one.difficult) for one in said.things] == wanted
