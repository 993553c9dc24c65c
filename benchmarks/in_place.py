"""Measure data where it lies: one front of the benchmarks about it.

python benchmarks/in_place.py --case verbs [OPTIONS of in_place_verbs.py]
python benchmarks/in_place.py --case query [OPTIONS of in_place_query.py]
python benchmarks/in_place.py --case read_bytes|read_decoded|index|open [OPTIONS of in_place_files.py]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import in_place_files
import in_place_query
import in_place_verbs

__all__ = ["main"]

CASES = ("verbs", "query", *in_place_files.CASES)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark of a case; return 0, 1 when a side failed, or 2 when there is no such case."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) < 2 or arguments[0] != "--case" or arguments[1] not in CASES:
        print(f"in_place: begin with --case {'|'.join(CASES)}", file=sys.stderr)
        return 2
    case, rest = arguments[1], arguments[2:]
    if case == "query":
        return in_place_query.main(rest)
    return in_place_verbs.main(rest) if case == "verbs" else in_place_files.main(["--cases", case, *rest])


if __name__ == "__main__":
    sys.exit(main())
