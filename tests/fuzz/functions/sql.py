"""SQL of queries: whatever is let through names nothing but known tables and functions, and polars reads the same."""

from __future__ import annotations

import itertools
import re

import polars as pl

from toolkit.checks.sql.functions import BEFORE_PARENTHESES, FUNCTIONS
from toolkit.checks.sql.statement import Statement
from toolkit.checks.sql.tokens import tokens_of
from toolkit.errors import UsageError

_TABLES = {"train": ["label", "a b"], "val": ["label"]}
_CANARY = "/proc/self/environ"
_FRAMES = {name: pl.LazyFrame({column: ["x"] for column in columns}) for name, columns in _TABLES.items()}


def fuzz(data: bytes) -> object:
    """Use one input."""
    text = data.decode("utf-8", "replace")
    try:
        statement = Statement(text, _TABLES, "train")
    except UsageError as error:
        return re.sub(r"\d+|'.*?'", "", str(error))[:40]
    tokens = tokens_of(statement.sql)
    for token, after in itertools.pairwise(tokens):
        if token.is_name and after.is_sign("("):
            # A table or subquery with the names of its columns is the one other thing there.
            name = token.value.lower()
            assert name in FUNCTIONS | BEFORE_PARENTHESES or "read" not in name, statement.sql
    try:
        plan = (
            pl.SQLContext(_FRAMES, register_globals=False).execute(statement.sql, eager=False).explain(optimized=False)
        )
    except pl.exceptions.PolarsError as error:
        said, plan = str(error), None
    if plan is None:
        assert "No such file" not in said, statement.sql
        return said[:20]
    assert not re.search(r"(?i)\b(csv|parquet|ipc|ndjson|json) scan", plan.replace(repr(text), "")), statement.sql
    return (statement.is_wild, len(statement.tables), len(tokens) // 4)


def seeds() -> list[bytes]:
    """Return queries, and ways to hide a function in one."""
    texts = [
        "select label, count(*) as n from train group by label order by n desc",
        "with x as (select * exclude (label) from train) select t.* from x t join val using (label) limit 3",
        f"select * from read_csv('{_CANARY}')",
        f"select 'a'' from \"read_csv\"('{_CANARY}') --' from train",
        f'select "a"" /* " from train /* */ , read_parquet (\'{_CANARY}\') */',
        "select label from train t(a, b) union all (values (1), (2)) order by 1 offset 2",
        "select sum(label) filter (where label in (1, 2)) over (partition by `a b`), label::varchar(3) ~ '^x$'",
        "select extract(year from date '2020-01-01'), case when label is distinct from 'a' then -1.5e3 else .5 end;",
    ]
    return [text.encode() for text in texts]
