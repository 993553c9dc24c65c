"""Walk through a query: its tables, the names in it, its stars; and refuse what isn't one SELECT over those tables.

It follows queries, subqueries, FROM and parentheses, no expressions: those are polars' business. It refuses what it
doesn't know: any name before a parenthesis must be a function of the list, any name in a FROM a table or a subquery's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from toolkit.checks.sql.cursor import SET_OPERATIONS, Cursor, is_operand
from toolkit.checks.sql.functions import BEFORE_PARENTHESES, FUNCTIONS, READERS
from toolkit.checks.sql.tokens import Kind, Token
from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import listed, short

__all__ = ["Walk"]

_BEHIND_FROM = frozenset({"fetch", "group", "having", "limit", "offset", "order", "qualify", "where", "window"})
_JOINS = frozenset(
    {"anti", "cross", "full", "inner", "join", "left", "natural", "on", "outer", "right", "semi", "using"}
)
_STATEMENT_WORDS = """
alter analyze attach begin call comment commit copy create deallocate declare delete describe detach do drop execute
explain export grant import insert install kill load lock merge pragma prepare refresh rename replace reset revoke
rollback set show start truncate unload update use vacuum
"""
_STATEMENTS = frozenset(_STATEMENT_WORDS.split())
_QUERY = frozenset({"select", "values", "with"})


@dataclass(slots=True)
class _Select:
    """A SELECT that is walked through: how deep its own columns lie, its stars, and what its FROM names."""

    depth: int
    stars: list[int] = field(default_factory=list)
    factors: list[str | None] = field(default_factory=list)  # None: a subquery or UNNEST


class Walk(Cursor):
    """Goes through the tokens of a query once.

    Attributes:
        used: The tables that it takes rows from.
        is_wild: Whether it may ask for columns without naming them: *, COLUMNS('…'), NATURAL JOIN.
        stars: The table that each star stands for, by the number of its token; only those of one table.
        missing_from: The numbers of the tokens that a FROM goes before.
        renamed: How tables are called, by the numbers of the tokens that spell them otherwise.
    """

    def __init__(self, sql: str, tables: Mapping[str, Collection[str]], default: str | None) -> None:
        super().__init__(sql)
        self.tables = tables
        self.default = default
        self.used: set[str] = set()
        self.is_wild = False
        self.missing_from: list[int] = []
        self.renamed: dict[int, str] = {}
        self.stars: dict[int, str] = {}
        self._selects: list[_Select] = []
        self._inner: set[int] = set()  # numbers of tokens that belong to a query within the one that is gone through
        self._statement()

    # --- queries ----------------------------------------------------------------------------------------------------

    def _statement(self) -> None:
        word = self.now.word
        if word in _STATEMENTS:
            raise self.fault(
                f"{word.upper()}: a query reads, and does nothing else. It is one SELECT, or WITH … SELECT"
            )
        self._query(frozenset())
        if self.now.kind is not Kind.END:
            raise self.fault(f"expected the end of the query, found {self.shown()}")

    def _query(self, scope: frozenset[str]) -> None:
        """Go through WITH, SELECTs and what is between and behind them, to a closing parenthesis or the end."""
        self.deeper()
        start = self.at
        if self.now.word == "with":
            scope = self._subqueries(scope)
        self._term(scope)
        while not self.is_over():
            if self.is_set_operation():
                self.set_operation()
                self._term(scope)
            else:
                self._element(scope)
        self.depth -= 1
        self._inner.update(range(start, self.at))

    def _subqueries(self, scope: frozenset[str]) -> frozenset[str]:
        """Go through WITH name AS (query), …; return the names that are known behind it."""
        self.skip()
        if self.now.word == "recursive":
            raise self.fault("WITH RECURSIVE: a subquery can't take rows from itself here")
        while True:
            name = self.now
            if not name.is_name:
                raise self.fault(f"expected the name of a subquery, found {self.shown()}")
            self.skip()
            self._column_list()
            if self.now.word != "as":
                raise self.fault(f"expected AS, found {self.shown()}")
            self.skip()
            self.expect("(")
            self._query(scope)
            self.expect(")")
            scope |= {name.value}
            if not self.now.is_sign(","):
                return scope
            self.skip()

    def _term(self, scope: frozenset[str]) -> None:
        """Go through one SELECT, VALUES, or query in parentheses."""
        if self.now.is_sign("("):
            self.skip()
            self._query(scope)
            self.expect(")")
        elif self.now.word == "select":
            self._select(scope)
        elif self.now.word == "values":
            self.skip()
            while not self.is_over() and not self.is_set_operation():
                self._element(scope)
        else:
            hint = did_you_mean(self.now.word, ["select", "with"]) if self.now.word else ""
            raise self.fault(f"expected SELECT, found {self.shown()}.{hint}")

    def _select(self, scope: frozenset[str]) -> None:
        """Go through a SELECT and what stands behind its FROM."""
        self.skip()
        start = self.at
        self._selects.append(_Select(self.depth))
        from_here: int | None = None
        has_from = False
        while not self.is_over() and not self.is_set_operation():
            if self.is_from():
                has_from = True
                self.skip()
                self._tables_of(scope)
            else:
                if from_here is None and self.is_clause(_BEHIND_FROM):
                    from_here = self.at
                self._element(scope)
        if not has_from and self._asks_for_columns(start):
            if self.default is None:
                raise self.fault(
                    f"the query has no FROM, and there are several splits: say FROM and one of {listed(self.tables)}",
                    self.tokens[start - 1],
                )
            self.used.add(self.default)
            self._selects[-1].factors.append(self.default)
            self.missing_from.append(self.at if from_here is None else from_here)

        made = self._selects.pop()
        if len(made.factors) == 1 and made.factors[0] is not None:
            self.stars |= dict.fromkeys(made.stars, made.factors[0])

    def _asks_for_columns(self, start: int) -> bool:
        """Return whether the tokens since `start` name a column of the table that is meant, or all of them."""
        columns = set(next(iter(self.tables.values()), ()) if self.default is None else self.tables[self.default])
        for number in sorted({*range(start, self.at)} - self._inner):
            token, before, after = self.tokens[number], self.tokens[number - 1], self.tokens[number + 1]
            if token.is_sign("*") and (before.is_sign("(") or not is_operand(before)):
                return True
            if token.is_name and token.value in columns and before.word != "as" and not after.is_sign("("):
                return True
        return False

    # --- FROM -------------------------------------------------------------------------------------------------------

    def _tables_of(self, scope: frozenset[str]) -> None:
        """Go through what a FROM takes rows from, to what comes behind it."""
        self._table(scope)
        while not self.is_over() and not self.is_set_operation() and not self.is_clause(_BEHIND_FROM):
            if self.now.is_sign(",") or self.now.word == "join":
                self.count("joins")
                self.skip()
                self._table(scope)
            else:
                if self.now.word == "natural":
                    self.is_wild = True
                self._element(scope)

    def _table(self, scope: frozenset[str]) -> None:
        """Go through one table, subquery or UNNEST(…), with its other name."""
        token = self.now
        if token.is_sign("("):
            self.deeper()
            self.skip()
            if self.now.word in _QUERY:
                self._query(scope)
                self._selects[-1].factors.append(None)
            else:
                self._tables_of(scope)
            self.expect(")")
            self.depth -= 1
        elif token.word == "unnest" and self.ahead.is_sign("("):
            self._element(scope)
            self._selects[-1].factors.append(None)
        elif not token.is_name:
            raise self.fault(f"expected a table, found {self.shown()}: there are {listed(self.tables)}")
        else:
            self._named(token, scope)
        if self.now.word == "as":
            self.skip()
        if self.now.is_name and not (self.is_clause(_BEHIND_FROM | _JOINS | SET_OPERATIONS) or self.now.word == "with"):
            self.skip()
            self._column_list()

    def _named(self, token: Token, scope: frozenset[str]) -> None:
        """Go through the name of a table or subquery."""
        after = self.ahead
        if after.is_sign("("):
            raise self._no_function(token)
        if token.word == "lateral":
            raise self.fault("LATERAL can't stand in a query here")
        if after.is_sign("."):
            raise self.fault(f"{token.value}.…: a table has one name, and the dataset has {listed(self.tables)}")
        name = None
        if token.value not in scope:
            name = self._known_table(token)
            if name != token.value:
                self.renamed[self.at] = name
            self.used.add(name)
        self._selects[-1].factors.append(name)
        self.skip()

    def _known_table(self, token: Token) -> str:
        if token.value in self.tables:
            return token.value
        alike = [name for name in self.tables if name.lower() == token.word]
        if len(alike) == 1:
            return alike[0]
        name = short(token.value, 60, quoted=True)
        raise self.fault(
            f"there is no table {name}; there are {listed(self.tables)}.{did_you_mean(token.value, self.tables)}", token
        )

    def _column_list(self) -> None:
        """Go through (a, b), the names that columns get."""
        if not self.now.is_sign("("):
            return
        self.skip()
        while True:
            if not self.now.is_name:
                raise self.fault(f"expected the name of a column, found {self.shown()}")
            self.skip()
            if self.now.is_sign(")"):
                break
            self.expect(",")
        self.skip()

    # --- expressions ------------------------------------------------------------------------------------------------

    def _element(self, scope: frozenset[str]) -> None:
        """Go through one token, or through what is in parentheses with the name of the function before them."""
        token = self.now
        if token.is_sign("("):
            self._parentheses(scope)
            return
        if token.word == "select" and not self.is_spelt_out():
            if self.behind.word not in {*SET_OPERATIONS, "all", "distinct", "name"}:
                raise self.fault("SELECT can't stand here: a subquery stands in parentheses")
            self._select(scope)
            return
        if token.is_name and self.ahead.is_sign("("):
            if token.word not in BEFORE_PARENTHESES:
                self._function(token)
            self.skip()
            self._parentheses(scope)
            return
        if self.is_star():
            # count(*) names no column, and so does no other function that takes it.
            counted = self.behind.is_sign("(") and self.ahead.is_sign(")")
            self.is_wild = self.is_wild or not counted
            if self._selects and self._selects[-1].depth == self.depth:
                self._selects[-1].stars.append(self.at)
        if (token.kind is Kind.SIGN and token.value not in {",", ".", ":"}) or token.word in {"and", "or", "when"}:
            self.count("operators")
        self.skip()

    def _function(self, token: Token) -> None:
        """Raise UsageError unless the name before a parenthesis is a function that a query may call."""
        name = token.value.lower()
        if not token.value.isascii() or name not in FUNCTIONS or self.behind.is_sign("."):
            raise self._no_function(token)
        self.is_wild = self.is_wild or name == "columns"

    def _no_function(self, token: Token) -> UsageError:
        name = token.value.lower()
        shown = short(token.value, 60)
        if name.startswith(READERS) or name.endswith("_scan"):
            what = "a query reads the dataset's own tables, and no files"
            return self.fault(f"{shown}(…): {what}: {listed(self.tables)}", token)
        if name in FUNCTIONS:
            return self.fault(f"{shown}(…) can't stand here", token)
        return self.fault(f"there is no function {shown}(…).{did_you_mean(name, sorted(FUNCTIONS))}", token)

    def _parentheses(self, scope: frozenset[str]) -> None:
        """Go through what is in parentheses: a query, or expressions."""
        self.deeper()
        self.expect("(")
        if self.now.word in _QUERY:
            self._query(scope)
        else:
            if self.now.word == "from":
                raise self.fault(f"expected SELECT, found {self.shown()}")
            while not self.is_over():
                if self.is_set_operation():
                    self.set_operation()
                else:
                    self._element(scope)
        self.expect(")")
        self.depth -= 1
