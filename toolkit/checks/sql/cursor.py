"""A place among the tokens of a query, and what stands there."""

from __future__ import annotations

from collections.abc import Collection

from toolkit.checks.sql.tokens import Kind, Token, place_of, tokens_of
from toolkit.errors import UsageError
from toolkit.escapes import short

__all__ = ["SET_OPERATIONS", "Cursor", "is_operand"]

_DEEPEST = 40  # parentheses in parentheses: polars' parser gives up at 50
_MOST = {
    "set operations": 100,
    "joins": 100,
    "operators": 1000,
}  # beyond these polars takes minutes, or a thread's stack

SET_OPERATIONS = frozenset({"except", "intersect", "minus", "union"})
_NO_VALUE = frozenset(
    {"all", "and", "as", "by", "case", "distinct", "else", "end", "from", "in", "is", "not", "null", "or", "select"}
)


class Cursor:
    """Where one is among the tokens of a query.

    Attributes:
        sql: The query as it was written.
        tokens: Its tokens, with the END.
        at: The number of the token here.
        depth: How deep in parentheses and subqueries it lies.
    """

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = tokens_of(sql)
        self.at = 0
        self.depth = 0
        self._counts = dict.fromkeys(_MOST, 0)

    @property
    def now(self) -> Token:
        """The token here."""
        return self.tokens[self.at]

    @property
    def ahead(self) -> Token:
        """The token behind this one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    @property
    def behind(self) -> Token:
        """The token before this one."""
        return self.tokens[self.at - 1] if self.at else Token(Kind.END, "", 0)

    def skip(self) -> None:
        """Go on to the next token."""
        if self.now.kind is not Kind.END:
            self.at += 1

    def expect(self, sign: str) -> None:
        """Go on behind a sign. Raises UsageError when something else stands here."""
        if not self.now.is_sign(sign):
            raise self.fault(f"expected {sign!r}, found {self.shown()}")
        self.skip()

    def fault(self, what: str, token: Token | None = None) -> UsageError:
        """Return the error that says what is wrong, and where: here, or at a token."""
        return UsageError(f"{what}{place_of(self.sql, (token or self.now).start)}")

    def shown(self) -> str:
        """Return the token here, for people."""
        return "the end of the query" if self.now.kind is Kind.END else short(self.now.value, 60, quoted=True)

    def count(self, what: str) -> None:
        """Count what a query may have a limited number of. Raises UsageError."""
        self._counts[what] += 1
        if self._counts[what] > _MOST[what]:
            raise self.fault(f"the query has more than {_MOST[what]:,} {what}")

    def deeper(self) -> None:
        """Go into parentheses. Raises UsageError when there are too many."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fault(f"parentheses lie more than {_DEEPEST} deep")

    def is_over(self) -> bool:
        """Return whether the query, or what is in parentheses, ends here."""
        return self.now.kind is Kind.END or self.now.is_sign(")")

    def is_spelt_out(self) -> bool:
        """Return whether a word can only be a name: behind a dot, or AS."""
        return self.behind.is_sign(".") or self.behind.word == "as"

    def is_clause(self, words: Collection[str]) -> bool:
        """Return whether one of these keywords stands here, and not a column that is called so."""
        return self.now.word in words and not self.is_spelt_out() and not self.ahead.is_sign(".")

    def is_from(self) -> bool:
        """Return whether a FROM begins here, and isn't that of IS [NOT] DISTINCT FROM."""
        before = self.tokens[self.at - 2].word if self.at > 1 else ""
        return self.is_clause({"from"}) and not (self.behind.word == "distinct" and before in {"is", "not"})

    def is_set_operation(self) -> bool:
        """Return whether UNION and the like stand here; SELECT * EXCEPT (…) is none."""
        if self.behind.is_sign("*") and self.now.word == "except":
            return False
        return self.is_clause(SET_OPERATIONS)

    def set_operation(self) -> None:
        """Go on behind UNION ALL and the like."""
        self.count("set operations")
        self.skip()
        if self.now.word in {"all", "distinct"}:
            self.skip()
        if self.now.word == "by" and self.ahead.word == "name":
            self.skip()
            self.skip()

    def is_star(self) -> bool:
        """Return whether a * stands here that doesn't multiply: it has no value before it."""
        return self.now.is_sign("*") and not is_operand(self.behind)


def is_operand(token: Token) -> bool:
    """Return whether a token ends a value: a name, a number, a text, a closing parenthesis."""
    if token.kind is Kind.SIGN:
        return token.value in {")", "]"}
    return token.kind is not Kind.END and token.word not in _NO_VALUE
