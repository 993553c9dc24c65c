"""What the members of a WebDataset sample are by name, which columns they become, and the values of their bytes.

Reads no file. A member called .gz is gunzipped, once, and is then what the rest of its name says: so webdataset's own
decoder has it. Members called .bz2, .xz and the like stay as they are, as they do there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.media import stored_medium
from toolkit.format.schema import Kind
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import Medium, UnfitMediumError
from toolkit.sources.contents import UnfitError, check_json, check_tensor, integer_of, label_of, text_of
from toolkit.sources.extensions import kind_named
from toolkit.sources.fields import Chosen, Field, choose_fields
from toolkit.sources.inflate import GZIP, InflateError, inflate
from toolkit.sources.kinds.webdataset.tar import FILE, FOLDER, LINK, SPARSE, Member
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions, VerifyImages
from toolkit.sources.payloads import check_payload, named_as

__all__ = [
    "GZIP_SUFFIX",
    "check_labels",
    "choose_parts",
    "column_name",
    "converter",
    "doubled_media",
    "is_gzip",
    "is_known",
    "read_parts",
    "safe_key",
    "skip_reason",
    "split_name",
    "unpacked",
    "unsafe",
]

GZIP_SUFFIX = ".gz"

_TYPES = {
    Kind.LABEL: pa.int64(),
    Kind.SCALAR: pa.int64(),
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
    Kind.TENSOR: pa.binary(),
    Kind.BYTES: pa.binary(),
    Kind.VALUE: pa.binary(),
}
_GZIP_BYTES = 64 * 1024
_CLASS_FIELDS = frozenset({"cls", "cls.gz"})
_SKIPPED_KINDS = {FOLDER: "folders", LINK: "links", SPARSE: "sparse"}

Converter = Callable[[memoryview], object]


def split_name(name: str) -> tuple[str, str]:
    """Return a member's key and extension, cut at the first dot of the file name; extension "" without one.

    As in webdataset, whose keys these are: the folder belongs to the key, the extension is in lower case.
    """
    slash = name.rfind("/") + 1
    dot = name.find(".", slash)
    return (name, "") if dot < 0 else (name[:dot], name[dot + 1 :].lower())


def skip_reason(member: Member) -> str | None:
    """Tell why a member belongs to no sample; what webdataset passes over, and hidden files."""
    if member.kind != FILE:
        return _SKIPPED_KINDS.get(member.kind, "other_types")
    name = member.name
    if name.startswith("/") or (".." in name and ".." in name.split("/")):
        return None  # to be told of, whatever else it is
    base = name[name.rfind("/") + 1 :]
    if base.startswith("."):
        return "hidden"
    if name.startswith("__"):
        top = name.partition("/")[0]
        if len(top) > 3 and top.endswith("__"):
            return "meta"
    return None if "." in base else "no_extension"


def unsafe(name: str) -> str | None:
    """Tell why a member's name can't be trusted or stored, or None."""
    if name.startswith("/") or (".." in name and ".." in name.split("/")):
        return f"its member {name!a} leads outside the archive"
    if "\0" in name:
        return f"its member {name!a} has a NUL in its name"
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            return f"its member {name!a} has a name that is not valid UTF-8"
    return None


def safe_key(key: str) -> str:
    """Return a key for a report: as it is, or without what would lead elsewhere."""
    if unsafe(key) is None:
        return key
    parts = [part for part in key.replace("\0", "_").split("/") if part not in ("", ".", "..")]
    return printable("/".join(parts)) or "_"


def is_known(extension: str) -> bool:
    """Tell whether an extension's name says what it is: of what is gunzipped, only names tell."""
    return is_gzip(extension) or _named(extension) is not None


def is_gzip(extension: str) -> bool:
    """Tell whether the members of an extension are to be gunzipped."""
    return f".{extension}".endswith(GZIP_SUFFIX)


def unpacked(data: memoryview, most: int) -> memoryview:
    """Return what a gzip member holds.

    Raises:
        UnfitError: They are no whole gzip data, or of more than `most` bytes: what is more is never made.
    """
    # In pieces: what is left of one is copied again and again.
    given = iter([data[at : at + _GZIP_BYTES] for at in range(0, len(data), _GZIP_BYTES)])
    made = bytearray()
    try:
        for piece in inflate(lambda: bytes(next(given, b"")), GZIP):
            if len(made) + len(piece) > most:
                raise UnfitError(
                    f"gunzipped, it has more bytes than a value may have ({most}); --max-value-bytes says how many"
                )
            made += piece
    except InflateError as error:
        raise UnfitError(f"no gzip data that can be read: {error}") from error
    return memoryview(made).toreadonly()


def column_name(extension: str) -> str:
    """Return what the column of an extension is called when it has one of its own."""
    return "label" if extension == "cls" else _identifier(extension)


def choose_parts(
    extensions: Sequence[str], together: Collection[Kind], options: SourceOptions, seen: Mapping[str, Kind]
) -> list[Chosen]:
    """Return the columns to make of the extensions that were met.

    A field is an extension, or several that stand for one column, as webdataset writes them: "jpg;png".

    Args:
        extensions: In the order they were met.
        together: Media of which a sample has two with plain extensions, so these can't be one column.
        options: What is asked for.
        seen: Extensions whose names say nothing, and the media that their members begin as.

    Raises:
        UsageError: An option names a field or column that isn't there, or two columns would have one name.
    """
    alike: dict[Kind, list[str]] = {}
    for extension in extensions:
        kind = _plain_medium(extension, seen)
        if kind is not None:
            alike.setdefault(kind, []).append(extension)
    names: dict[str, str] = {}  # field -> column, as far as options say nothing
    for extension in extensions:
        kind = _plain_medium(extension, seen)
        if kind is None or (kind in together and len(alike[kind]) > 1):
            names[extension] = column_name(extension)
        else:
            names[";".join(alike[kind])] = kind.value
    for name in [*(options.map or {}).values(), *(options.columns or ())]:
        parts = read_parts(name)
        if name not in names and set(parts) <= set(extensions):
            kind = _plain_medium(parts[0], seen)
            names[name] = kind.value if kind is not None else names.get(parts[0], _identifier(parts[0]))
    fields = {name: _field(name, options, seen) for name in names}
    chosen = choose_fields(fields, replace(options, rename={**names, **options.rename}))
    return [replace(one, type=_type(one.kind)) for one in chosen]


def read_parts(field: str) -> tuple[str, ...]:
    """Return the extensions that a field stands for; the first that a sample has is its value."""
    return tuple(field.split(";"))


def check_labels(chosen: Iterable[Chosen], options: SourceOptions) -> None:
    """Refuse class names without a label column, and a label column without class names."""
    labels = [one.column for one in chosen if one.kind is Kind.LABEL]
    if labels and options.classes is None:
        raise UsageError(f"the column {labels[0]!r} is to be a label: give the names of its ids with --classes")
    if options.classes is not None and not labels:
        raise UsageError("--classes names the ids of a label, and no column is one: say which with --kind COLUMN=label")


def doubled_media(extensions: Iterable[str], seen: Mapping[str, Kind]) -> set[Kind]:
    """Return the media of which a sample with these extensions has two with plain ones; `seen`: see choose_parts()."""
    counts = Counter(_plain_medium(extension, seen) for extension in extensions)
    return {kind for kind, count in counts.items() if kind is not None and count > 1}


def converter(kind: Kind, classes: Sequence[str] | None, verify: VerifyImages) -> Converter:
    """Return what makes a value of a column of that kind from a member's bytes, or raises UnfitError."""
    medium = medium_of(kind)
    if medium is not None:
        return lambda data: _payload(medium, data, verify)
    match kind:
        case Kind.TEXT:
            return text_of
        case Kind.JSON:
            return _json
        case Kind.TENSOR:
            return _tensor
        case Kind.SCALAR:
            return integer_of
        case Kind.LABEL:
            names = tuple(classes or ())
            ids = {name: number for number, name in enumerate(names)}
            return lambda data: label_of(data, names, ids)
    return lambda data: data


def _plain_medium(extension: str, seen: Mapping[str, Kind]) -> Kind | None:
    """Return the medium of an extension of one part, by name or as seen; others have columns of their own."""
    named = named_as(extension)
    return seen.get(extension) if named is None and "." not in extension else named


def _named(extension: str) -> Kind | None:
    """Return the kind that an extension's last part names, the one before .gz; or None."""
    last = f".{extension}".removesuffix(GZIP_SUFFIX).rpartition(".")[2]
    return kind_named(last)


def _type(kind: Kind) -> pa.DataType:
    medium = stored_medium(kind)
    return _TYPES[kind] if medium is None else medium.source_form.type


def _field(name: str, options: SourceOptions, seen: Mapping[str, Kind]) -> Field:
    kinds = {seen.get(part) or _named(part) or Kind.BYTES for part in read_parts(name)}
    kind = kinds.pop() if len(kinds) == 1 else Kind.BYTES
    if _CLASS_FIELDS.issuperset(read_parts(name)) and options.classes is not None:
        kind = Kind.LABEL
    return Field(_type(kind), kind)


def _identifier(extension: str) -> str:
    name = re.sub(r"\W", "_", extension)
    return name if name.isidentifier() else f"_{name}"


def _payload(medium: Medium, data: memoryview, verify: VerifyImages) -> memoryview:
    try:
        check_payload(medium, data, verify)
    except UnfitMediumError as error:
        raise UnfitError(str(error)) from error
    return data


def _json(data: memoryview) -> str:
    text = text_of(data)
    check_json(text)
    return text


def _tensor(data: memoryview) -> memoryview:
    check_tensor(data)
    return data
