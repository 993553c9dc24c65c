from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import SourceError, UsageError
from toolkit.options.option import options_of, take
from toolkit.sources.kinds.pairs.patterns import read_patterns
from toolkit.sources.options import InputOptions
from toolkit.sources.pair_option import PairPatterns, parse_patterns


def match(path: str, *patterns: str) -> tuple[str, str] | None:
    made = read_patterns(parse_patterns(",".join(patterns)))
    found = made.match(path)
    return None if found is None else (made.columns[found[0]], found[1])


# --- the option ---


def test_flags_yaml_and_python_say_the_same() -> None:
    wanted = {"image": ("images/{}.jpg",), "mask": ("masks/{}.png", "more/{}.{png,gif}")}
    text = "images/{}.jpg,mask=masks/{}.png,mask=more/{}.{png,gif}"
    assert parse_patterns(text) == PairPatterns().read(text) == wanted
    plain = {"image": "images/{}.jpg", "mask": ["masks/{}.png", "more/{}.{png,gif}"]}
    assert take(options_of(InputOptions), {"pair": plain})["pair"] == wanted
    assert PairPatterns().plain(wanted) == {**plain, "image": ["images/{}.jpg"]}
    assert PairPatterns().plain(None) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{}.jpg", {"image": ("{}.jpg",)}),
        (" x = {}.jpg , y = {}.png ", {"x": ("{}.jpg",), "y": ("{}.png",)}),
        ("a/b={}.jpg", {"image": ("a/b={}.jpg",)}),
        ("day=a/b={}.jpg", {"day": ("a/b={}.jpg",)}),
        ("{a,b}/{}.jpg", {"image": ("{a,b}/{}.jpg",)}),
    ],
)
def test_names_and_patterns(text: str, wanted: dict[str, Any]) -> None:
    assert parse_patterns(text) == wanted


@pytest.mark.parametrize("text", ["", "a/{}.jpg,", "a/{}.jpg,b/{}.png", "x=", " = ,", "x= "])
def test_what_is_no_list_of_patterns_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_patterns(text)


@pytest.mark.parametrize("given", [{"image": 1}, {"image": [1]}, ["images/{}.jpg"], {"": "x"}, {1: "x"}])
def test_other_types_are_faults(given: object) -> None:
    with pytest.raises(UsageError, match="pair"):
        take(options_of(InputOptions), {"pair": given})


# --- patterns ---


@pytest.mark.parametrize(
    "text",
    [
        "images/a.jpg",
        "{}/{}.jpg",
        "images/*/{}.jpg",
        "/images/{}.jpg",
        "../images/{}.jpg",
        "images/../{}.jpg",
        "a\0/{}.jpg",
        "images/{}.{jpg",
        "images/{}.jpg}",
        "{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}{q,r}/{}.jpg",
        "{}." + "{" + ",".join(map(str, range(300))) + "}",
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--pair"):
        read_patterns({"image": (text,)})


def test_no_pattern_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no pattern"):
        read_patterns({})
    with pytest.raises(UsageError, match="--pair image: there is no pattern"):
        read_patterns({"image": ()})
    with pytest.raises(UsageError, match=r"'a/\{\}\.jpg' twice"):
        read_patterns({"image": ("a/{}.jpg",), "mask": ("a/{}.{png,jpg}",)})


def test_a_stem_may_lie_in_folders() -> None:
    assert match("images/train/a.b.jpg", "images/{}.jpg") == ("image", "train/a.b")
    assert match("scene 1/image.png", "{}/image.png", "mask={}/mask.png") == ("image", "scene 1")
    assert match("scene 1/mask.png", "{}/image.png", "mask={}/mask.png") == ("mask", "scene 1")
    assert match("a.jpg", "./{}.jpg") == ("image", "a")
    assert match("images/.jpg", "images/{}.jpg") is None
    assert match("images/a.png", "images/{}.jpg") is None
    assert match("other/images/a.jpg", "images/{}.jpg") is None


def test_only_an_extensions_capitals_do_not_matter() -> None:
    assert match("images/a.JPG", "images/{}.jpg") == ("image", "a")
    assert match("images/a.jpg", "images/{}.JPG") == ("image", "a")
    assert match("Images/a.jpg", "images/{}.jpg") is None
    assert match("a_Mask.png", "{}_mask.png") is None
    assert match("a_mask.PNG", "{}_mask.png") == ("image", "a")
    assert match("İ.JPG", "{}.jpg") == ("image", "İ")


def test_choices() -> None:
    for name in ("a.jpg", "a.jpeg", "a.PNG"):
        assert match(f"x/{name}", "{x,y}/{}.{jpg,jpeg,png}") == ("image", "a")
    assert match("z/a.jpg", "{x,y}/{}.{jpg,png}") is None


def test_the_pattern_that_says_most_of_a_path_has_it() -> None:
    both = ("{}.png", "mask={}_mask.png")
    assert match("a.png", *both) == ("image", "a")
    assert match("a_mask.png", *both) == ("mask", "a")
    with pytest.raises(SourceError, match=r"'ab.png' fits two patterns equally: image=a\{\}\.png and mask=\{\}b\.png"):
        match("ab.png", "a{}.png", "mask={}b.png")


def test_folders_that_no_file_can_match_below() -> None:
    made = read_patterns({"image": ("images/a/{}.jpg",), "mask": ("masks/{}.png",)})
    assert [made.may_match_below(name) for name in ("images", "images/a", "images/a/b", "masks", "masks/x")] == [
        True
    ] * 5
    assert [made.may_match_below(name) for name in ("image", "images/b", "maskss", "raw")] == [False] * 4
    assert read_patterns({"image": ("{}.jpg",)}).may_match_below("anything")


NAMES = st.text(st.sampled_from("ab./_{},"), max_size=6)


@given(NAMES, NAMES, NAMES)
def test_a_path_that_is_made_of_a_stem_gives_it_back(before: str, behind: str, stem: str) -> None:
    try:
        made = read_patterns({"x": (f"{before}{{}}{behind}",)})
    except UsageError:
        return
    for pattern in made.every:
        if stem:
            assert pattern.stem(pattern.path(stem)) == stem
            found = made.match(pattern.path(stem))
            assert found is not None
            assert found[0] == 0
