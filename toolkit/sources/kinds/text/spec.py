"""What text files are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.sources.file_names import JSON_LINES
from toolkit.sources.kinds.text.names import LINES, PLAIN, looks_like_text
from toolkit.sources.spec import COMMON, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "TextSpec"]


class TextSpec(SourceSpec):
    """Files of JSON lines and of plain text."""

    name = "text"
    title = "text files"
    sign = f"text by name ({' '.join(LINES + PLAIN)})"
    survey_text = "files are listed, and large plain ones are read once, to number their lines"
    accepts = COMMON | TOKENS | {"limit", "key"}
    has_images = False
    is_faint = 2  # a list of classes, a README: text lies beside anything

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is called as text files are, and is no table of JSON lines."""
        if not path.lower().endswith(JSON_LINES):
            return looks_like_text(path)
        from toolkit.sources.first_line import is_json_table

        return not is_json_table(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.text.source import TextSource

        return TextSource(options)


SPEC = TextSpec()
