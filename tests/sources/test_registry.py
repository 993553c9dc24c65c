"""Every kind of source says all that the rest of toolkit asks, without a library that reads it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest

from toolkit.sources import registry
from toolkit.sources.options import InputOptions
from toolkit.sources.skips import WORDS
from toolkit.sources.spec import COMMON


@pytest.mark.parametrize("name", registry.names())
def test_a_kind_says_what_is_asked(name: str) -> None:
    spec = registry.named(name)
    assert spec.name == name
    assert spec.accepts >= COMMON
    assert spec.accepts <= {field.name for field in fields(InputOptions)}
    assert not spec.skips.keys() & WORDS.keys()
    for text in (spec.title, spec.sign, spec.survey_text, *(word for pair in spec.skips.values() for word in pair)):
        assert text
        assert not text.endswith(".")


def test_every_option_is_taken_by_some_kind() -> None:
    taken = {name for spec in registry.every() for name in spec.accepts}
    assert taken == {field.name for field in fields(InputOptions)}


def test_specs_load_no_library_that_reads() -> None:
    code = (
        "import sys\n"
        "from toolkit.sources import registry\n"
        "registry.every()\n"
        "heavy = {'numpy', 'pyarrow', 'msgspec', 'PIL', 'tokenizers', 'zstandard'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
        "kinds = [name for name in sys.modules if name.startswith('toolkit.sources.kinds.')]\n"
        "assert not [name for name in kinds if name.endswith('.source')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
