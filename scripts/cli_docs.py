"""Write the help texts into docs/cli.md, between the marks; with --check only say whether they are up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
_BLOCK = re.compile(r"(<!-- help: (?P<command>[\w ]+) -->\n)```text\n.*?```\n", re.DOTALL)


def help_text(command: str) -> str:
    """Return what `command --help` prints, at 100 columns and without this machine's environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLKIT_")}
    words = [sys.executable, "-m", "toolkit.cli.main", *command.split()[1:], "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**environment, "COLUMNS": "100"})
    return done.stdout.strip() + "\n"


def rendered(page: str) -> str:
    """Return the page with each marked block filled with today's help."""
    return _BLOCK.sub(lambda match: f"{match[1]}```text\n{help_text(match['command'])}```\n", page)


def main() -> int:
    """Write the page, or check it; return the exit code."""
    page = PAGE.read_text()
    new = rendered(page)
    if "--check" in sys.argv[1:]:
        if new != page:
            print(f"{PAGE} is out of date: run python scripts/cli_docs.py", file=sys.stderr)
        return int(new != page)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
