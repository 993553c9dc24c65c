"""What a kind of source is: one class that says what its inputs look like, which options it takes, and who reads them.

A subclass in spec.py of a folder of toolkit.sources.kinds, and its one instance there, SPEC, are all that the rest of
toolkit knows of a kind. That module imports what reads the inputs when a method needs it, and not before: names,
options and help lines of all kinds are looked at by programs that read none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["COMMON", "FIELDS", "PATHS", "TABLES", "TOKENS", "SourceSpec"]

COMMON = frozenset(
    {"split", "include", "exclude", "follow_links", "max_value_bytes", "verify_images", "shuffle_seed"},
)
"""Options that every kind takes: of files and names, and what a pack does itself where a source can't."""

FIELDS = frozenset({"map", "columns", "rename", "kind"})
"""Options that say which fields become which columns, for toolkit.sources.fields."""

TABLES = FIELDS | {"limit", "key", "label_mode", "require_labels", "classes", "missing"}
"""Options of kinds whose inputs are tables, for toolkit.sources.tables; those whose fields name files take more."""

PATHS = frozenset({"image_column", "root", "fetch_urls", "fetch_hosts"})
"""Options of kinds whose tables may name files, for toolkit.sources.tables."""

TOKENS = frozenset({"tokenizer", "text_column", "eos", "eos_token"})
"""Options of kinds that have texts: toolkit.sources.tokenized makes tokens of them, and the kind does nothing."""


class SourceSpec(ABC):
    """A kind of source. A subclass gives these attributes, looks_like() and make().

    Attributes:
        name: What --source-kind is given, and what the folder is called.
        title: What its inputs are called, for help and messages: "Parquet files".
        sign: How its files are found in a folder, for the message that nothing was: "Parquet by content".
        survey_text: What the survey reads, for a dry run: "footers are read".
        accepts: Names of the options that it takes, of toolkit.sources.options.InputOptions; others are refused.
        skips: Reasons of its own for which it passes something over: one, and many of them, in words.
        has_images: Some of its inputs hold images; what only images have is refused for others.
        is_folder: An input is one folder, and one file that looks_like() takes is enough, wherever below it lies.
        is_faint: Its files lie beside those of other kinds, so a folder is of this kind only if of no other, or only
            of such that are fainter: 0 is not faint, and 2 is fainter than 1.
        texts_by: The kind that reads the texts of its inputs, where they become tokens; None: it does so itself.
        told_by: The option that says that an input is of this kind, if there is one; no file says it then.
        renames: Its columns are called otherwise than its fields, unless options say how: `jpg` is `image`.
        in_place: Its media lie in its files as they are, and read() can say where.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sign: ClassVar[str]
    survey_text: ClassVar[str]
    accepts: ClassVar[frozenset[str]] = COMMON
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {}
    has_images: ClassVar[bool] = True
    is_folder: ClassVar[bool] = False
    is_faint: ClassVar[int] = 0
    texts_by: ClassVar[str | None] = None
    told_by: ClassVar[str | None] = None
    renames: ClassVar[bool] = False
    in_place: ClassVar[bool] = False

    @abstractmethod
    def looks_like(self, path: str) -> bool:
        """Tell whether the regular file at `path` is of this kind, by its content as far as content tells.

        Reads a few KiB at the most, and says no to anything else rather than raise. Raises StorageError: the file
        can't be read.
        """

    def takes_folder(self, path: str) -> bool:
        """Tell whether a folder as a whole is of this kind, by a file in it that says so; its files aren't asked then.

        Looks at a few names and reads a few KiB at the most. Raises StorageError: something can't be read.
        """
        return False

    def is_named(self, name: str) -> bool:
        """Tell whether a file is called as those of this kind are; for files whose content is damaged."""
        return False

    @abstractmethod
    def make(self, options: SourceOptions) -> Source:
        """Return what reads an input. Checks the options and reads nothing.

        Args:
            options: Those that it doesn't accept have their defaults; `tokenizer` is None.

        Raises:
            UsageError: An option has a value that this kind can't take, or contradicts another.
        """
