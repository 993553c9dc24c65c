"""A query that was checked, and how it is written for polars."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from toolkit.checks.sql.tokens import Kind, Token, place_of, written
from toolkit.checks.sql.walk import Walk

__all__ = ["Statement"]

_COMPARISONS = frozenset({"!=", "<", "<=", "<=>", "<>", "=", "==", ">", ">="})


class Statement:
    """A query that may run.

    Attributes:
        tables: The tables that it takes rows from.
        names: All names in it: of columns, and of anything else.
        is_wild: Whether it may ask for columns without naming them.
        sql: What polars gets; expand_stars() changes it.
    """

    def __init__(self, sql: str, tables: Mapping[str, Collection[str]], default: str | None) -> None:
        """Check a query.

        Args:
            sql: What the user wrote.
            tables: The names of tables, each with those of its columns.
            default: The table that is meant where a SELECT of its columns has no FROM; None: it must be said.

        Raises:
            UsageError: It isn't one SELECT over these tables alone.
        """
        self._walk = walk = Walk(sql, tables, default)
        self.tables = frozenset(walk.used)
        self.names = frozenset(token.value for token in walk.tokens if token.is_name)
        self.is_wild = walk.is_wild
        self.expand_stars({})

    def expand_stars(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Write the names of columns for each star that stands for one of these tables."""
        walk = self._walk
        made: list[Token] = []
        skipped: set[int] = set()
        for number, token in enumerate(walk.tokens):
            if number in walk.missing_from and walk.default is not None:
                made += [Token(Kind.WORD, "from", token.start), Token(Kind.QUOTED, walk.default, token.start)]
            if number in skipped:
                continue
            names = columns.get(walk.stars.get(number, ""))
            if names is not None:
                left_out, behind = _excluded(walk.tokens, number)
                if left_out <= set(names):
                    if made[-1].is_sign("."):  # t.*
                        del made[-2:]
                    made += _listed([name for name in names if name not in left_out], token.start)
                    skipped = set(range(number, behind))
                    continue
            name = walk.renamed.get(number)
            made.append(token if name is None else Token(Kind.QUOTED, name, token.start))
        self._tokens = made
        self.sql, self._starts = written(made)

    def compared_with_number(self, names: Collection[str | None]) -> str | None:
        """Return the first of those names that a number is compared with, as in `label = 3` and `label in (3, 4)`."""
        tokens = [*self._walk.tokens, *self._walk.tokens[-1:] * 4]
        for number, token in enumerate(self._walk.tokens):
            if not (token.is_name and token.value in names):
                continue
            behind = tokens[number + 1 : number + 5]
            if behind[0].word == "not":
                del behind[0]
            if behind[0].value in _COMPARISONS or behind[0].word in {"between", "in"}:
                first = behind[2] if behind[1].is_sign("(") else behind[1]
                if first.kind is Kind.NUMBER:
                    return token.value
            before = tokens[max(number - 2, 0) : number]
            if len(before) == 2 and before[0].kind is Kind.NUMBER and before[1].value in _COMPARISONS:
                return token.value
        return None

    def place(self, column: int) -> str:
        """Return where in the user's text the character number `column`, from 1, of `sql` comes from."""
        before = [token for token, start in zip(self._tokens, self._starts, strict=False) if start < column]
        return place_of(self._walk.sql, before[-1].start) if before else ""


def _excluded(tokens: Sequence[Token], star: int) -> tuple[set[str], int]:
    """Return the names that EXCLUDE behind a star names, and the number of the token behind it."""
    after = star + 1
    if tokens[after].word not in {"except", "exclude"}:
        if tokens[after].word in {"ilike", "rename", "replace"}:
            return {""}, after  # no column is called so: the star stays
        return set(), after
    if tokens[after + 1].is_name:
        return {tokens[after + 1].value}, after + 2
    end = next(number for number in range(after, len(tokens)) if tokens[number].is_sign(")"))
    return {token.value for token in tokens[after + 2 : end] if token.is_name}, end + 1


def _listed(names: Sequence[str], start: int) -> list[Token]:
    made: list[Token] = []
    for name in names:
        made += [Token(Kind.SIGN, ",", start), Token(Kind.QUOTED, name, start)]
    return made[1:]
