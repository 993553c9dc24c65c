"""Make the source of an input: what reads it, when the options are ones that its kind takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

from toolkit.errors import UsageError
from toolkit.options.option import flag_of
from toolkit.sources.base import Source
from toolkit.sources.detect import find_kind
from toolkit.sources.fields import check_fields
from toolkit.sources.options import InputOptions, PlacesWanted, SourceOptions
from toolkit.sources.registry import every, named, of_plugins
from toolkit.sources.spec import TOKENS, SourceSpec
from toolkit.sources.splits import check_name

__all__ = ["check_options", "make_source"]


def make_source(kind: str | None, options: SourceOptions) -> tuple[str, Source]:
    """Return the source of that kind, or of the kind that the input is found to be, and the kind.

    Raises:
        SourceError: The input is of no kind that is known.
        UsageError: There is no such kind, or an option means nothing for it.
    """
    found = kind or _told(options) or find_kind(options.paths)
    if kind is None and not TOKENS.isdisjoint(_given(options)):
        found = named(found).texts_by or found
    source = _source(named(found), options)
    if options.tokenizer is not None:
        from toolkit.sources.tokenized import TokenizedSource

        return found, TokenizedSource(source, options)
    return found, source


def check_options(kind: str | None, options: SourceOptions) -> None:
    """Refuse options that make_source() would refuse for an input of that kind, or of every kind. Reads nothing.

    Raises:
        UsageError: An option means nothing for the kind, or contradicts another.
    """
    faults = []
    for spec in _kinds_for(options) if kind is None else [named(kind)]:
        try:
            _source(spec, options)
            return
        except UsageError as error:
            faults.append(error)
    # What most kinds say: the others have reasons of their own.
    said = Counter(map(str, faults)).most_common(1)[0][0]
    raise next(fault for fault in faults if str(fault) == said)


def _source(spec: SourceSpec, options: SourceOptions) -> Source:
    """Return what reads the input, or its texts where they are to become tokens."""
    if options.split is not None:
        check_name(options.split)
    if options.places is not PlacesWanted.NONE and not spec.in_place:
        raise UsageError(f"{_in_place_text(spec)}: pack it")
    if options.tokenizer is not None:
        from toolkit.sources.tokenized import check_tokenized, text_options

        check_tokenized(options)
        _check_accepted(spec, options)
        check_fields(options)
        return spec.make(text_options(options, has_columns="columns" in spec.accepts))
    _check_accepted(spec, options)
    if "tokenizer" in spec.accepts:
        if options.eos or options.eos_token is not None:
            raise UsageError("--eos and --eos-token belong to tokens: give --tokenizer, or leave them out")
        if options.text_column is not None and "columns" in spec.accepts:
            raise UsageError(
                "--text-column names the field to tokenise: give --tokenizer, or choose fields with --columns"
            )
    check_fields(options)
    return spec.make(options)


def _in_place_text(spec: SourceSpec) -> str:
    """Say which kinds can stay where they are, and that this one can't."""
    others = ", ".join(one.name for one in every() if one.in_place)
    return f"values of {spec.title} can't stay where they are, as those of {others} can"


def _told(options: SourceOptions) -> str | None:
    """Return the kind that an option says the input is of, or None."""
    given = _given(options)
    return next((spec.name for spec in every() if spec.told_by in given), None)


def _kinds_for(options: SourceOptions) -> list[SourceSpec]:
    """Return the kinds that take all options that were given. Raises UsageError: none does."""
    given = _given(options)
    kinds = [spec for spec in every() if spec.accepts.issuperset(given)]
    # Plugins' kinds take milliseconds to find.
    kinds = kinds or [spec for spec in of_plugins()[0] if spec.accepts.issuperset(given)]
    if kinds:
        return kinds
    takers = {name: _takers(name) for name in given}
    said = [f"{flag_of(name)} ({', '.join(of)})" for name, of in takers.items() if len(of) < len(every())]
    raise UsageError(f"no kind of source takes {' and '.join(said)} together: leave one of them out")


def _check_accepted(spec: SourceSpec, options: SourceOptions) -> None:
    """Raise UsageError when an option was given that the kind doesn't take."""
    for name in _given(options):
        if name not in spec.accepts:
            raise UsageError(
                f"{flag_of(name)} means nothing for a source of kind {spec.name}: leave it out. "
                f"Kinds that take it: {', '.join(_takers(name))}"
            )


def _given(options: SourceOptions) -> list[str]:
    unused = SourceOptions(paths=(), slice_bytes=0)
    names = [field.name for field in fields(InputOptions)]
    return [name for name in names if getattr(options, name) != getattr(unused, name)]


def _takers(name: str) -> list[str]:
    return [spec.name for spec in every() if name in spec.accepts]
