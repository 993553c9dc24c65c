"""What tables of JSON lines are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.file_names import JSON_LINES
from toolkit.sources.spec import COMMON, PATHS, TABLES, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "JsonLinesSpec"]


class JsonLinesSpec(SourceSpec):
    """Files with a JSON object a line, which has more than a text."""

    name = "jsonl"
    title = "tables of JSON lines"
    sign = "JSON lines by name (.jsonl .ndjson) and by more fields than text"
    survey_text = "files are read once, for the types of their values"
    accepts = COMMON | TABLES | PATHS | {"encoding"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {"blank_lines": ("blank line", "blank lines")}
    is_faint = 1
    texts_by = "text"  # which reads one field, and nothing twice
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is called as JSON lines are, and is no corpus of texts alone."""
        if not path.lower().endswith(JSON_LINES):
            return False
        from toolkit.sources.first_line import is_json_table

        return is_json_table(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.jsonl.source import JsonLinesSource

        return JsonLinesSource(options)


SPEC = JsonLinesSpec()
