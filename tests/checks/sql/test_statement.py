"""What a query may say: everything else is refused from its text alone, and polars reads what was checked."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.checks.sql.functions import BEFORE_PARENTHESES, FUNCTIONS
from toolkit.checks.sql.statement import Statement
from toolkit.checks.sql.tokens import Kind, tokens_of, written
from toolkit.errors import UsageError

TABLES = {"train": ["label", "score", "a b"], "val": ["label", "score"], "samples": ["label", "score", "split"]}
CANARY = "canary,secret\n1,2\n"


def refusal(query: str, tables: dict[str, list[str]] = TABLES) -> str | None:
    """What is said of a query that is refused; None of one that isn't."""
    try:
        Statement(query, tables, "train")
    except UsageError as error:
        return str(error)
    return None


def sql_of(query: str, default: str | None = "train") -> str:
    """What polars gets, without the spaces around signs."""
    return re.sub(r" ?([(),]) ?", r"\1", Statement(query, TABLES, default).sql)


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("select 1", "select 1"),
        ("select 1;", "select 1"),
        (" select 1 ;; -- no more\n /* nor /* here */ */", "select 1"),
        ("select label -- a\n, /* b */ score", 'select label,score from "train"'),
        ("select label, count(*)", 'select label,count(*)from "train"'),
        ("SELECT label GROUP BY label ORDER BY 1", 'SELECT label from "train" GROUP BY label ORDER BY 1'),
        ("select label where score > 1 limit 3", 'select label from "train" where score > 1 limit 3'),
        (
            "select label union all select score order by 1",
            'select label from "train" union all select score from "train" order by 1',
        ),
        ("with x as (select label) select * from x", 'with x as(select label from "train")select * from x'),
        ("select (select max(score)) as m", 'select(select max(score)from "train")as m'),
        (
            "select count(*) where label is distinct from 'a'",
            "select count(*)from \"train\" where label is distinct from 'a'",
        ),
        ("select extract(year from current_date)", "select extract(year from current_date)"),
        ("select label as from from train", "select label as from from train"),
        ("select label from TRAIN", 'select label from "train"'),
        ("select größe, `a b`", 'select "größe","a b" from "train"'),
        ("select 'it''s', '\\d', 'a--b', 'c/*d' from val", "select 'it''s','\\d','a--b','c/*d' from val"),
        ("select \"read_csv\", 'read_csv(1)' from train", "select \"read_csv\",'read_csv(1)' from train"),
        (
            "select train.label, t.score from train as t (label, score)",
            "select train.label,t.score from train as t(label,score)",
        ),
        (
            "((select label from train) union (select label from val)) order by label",
            "((select label from train)union(select label from val))order by label",
        ),
        (
            "select * from (train join val using (label)), samples where label in (select label from val)",
            "select * from(train join val using(label)),samples where label in(select label from val)",
        ),
        (
            "with train as (select label from train) select cast(label as decimal(9, 2)) from train",
            "with train as(select label from train)select cast(label as decimal(9,2))from train",
        ),
        (
            "select sum(score) filter (where label = 'a') over (partition by label) from train",
            "select sum(score)filter(where label = 'a')over(partition by label)from train",
        ),
        ("select * from unnest(array[1, 2]) as u(x)", "select * from unnest(array [ 1,2 ])as u(x)"),
        ("values (1), (2)", "values(1),(2)"),
        ("select U&'a', x-- y", "select U & 'a',x"),
    ],
)
def test_what_polars_gets(query: str, written: str) -> None:
    assert sql_of(query) == written


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "the query is empty"),
        (" ; ", "the query is empty"),
        ("-- nothing", "the query is empty"),
        ("select 1; select 2", r"one statement, and behind the semicolon \(column 11\)"),
        ("delete from train", "DELETE: a query reads, and does nothing else"),
        ("drop table train", "DROP: "),
        ("truncate train", "TRUNCATE: "),
        ("create table x as select * from train", "CREATE: "),
        ("insert into train values (1)", "INSERT: "),
        ("show tables", "SHOW: "),
        ("explain select 1", "EXPLAIN: "),
        ("describe train", "DESCRIBE: "),
        ("from train", "expected SELECT, found 'from'"),
        ("table train", "expected SELECT, found 'table'"),
        ("selct label from train", r"found 'selct'. Did you mean 'select'\? \(column 1\)"),
        ("with x as (delete from train) select 1", "expected SELECT, found 'delete'"),
        ("with x as (select 1) delete from train", "expected SELECT, found 'delete'"),
        ("with recursive x as (select 1) select * from x", "RECURSIVE"),
        ("select label from trian", "no table 'trian'; there are train, val, samples. Did you mean 'train'"),
        ("select label\nfrom trian", r"\(line 2, column 6\)"),
        ("select label from 'x.parquet'", "expected a table, found 'x.parquet'"),
        ("select label from train, 'x.parquet'", "expected a table"),
        ("select label from public.train", "a table has one name"),
        ('select label from "x.parquet"', "there is no table 'x.parquet'"),
        ("select * from (from train)", "expected a table|there is no"),
        ("select (from train)", "expected SELECT"),
        ("select x from train where exists (select * from nope)", "no table 'nope'"),
        ("select x from lateral (select 1)", "LATERAL|no function"),
        ("select nofn(label) from train", r"there is no function nofn\(…\)"),
        ("select medain(score) from train", "Did you mean 'median'"),
        ("select train.sum(score) from train", "can't stand here"),
        ("select sum(score) from sum(train)", "can't stand here"),
        ("select e'a'", "plain texts only"),
        ("select N'a'", "plain texts only"),
        ("select $$a$$", r"'\$' \(column 8\) can't stand in a query"),
        ("select {fn now()}", "'{'"),
        ("select @x", "'@'"),
        ("select ?", r"'\?'"),
        ("select 1a", "is no number"),
        ("select 'a", r"the text \(column 8\) has no end"),
        ('select "a', "the name .* has no end"),
        ("select /* a", "the comment .* has no end: "),
        ("select 'a\\' from train", "a backslash before a quote"),
        ("select 'a\\'' from read_csv(''x'')'", "a backslash before a quote"),
        ("select “a” from train", 'Write ", the plain quote'),
        ('select "" from train', "can't be a name"),
        ("select " + "(" * 60 + "1" + ")" * 60, "more than 40 deep"),
        ("select " + "+".join("1" * 1200), "more than 1,000 operators"),
        (" union all ".join(["select 1"] * 200), "more than 100 set operations"),
        ("select 1 from train" + ", train" * 200, "more than 100 joins"),
        ("select " + "1, " * 20_000 + "1", "more than 20,000 words and signs"),
        ("select '" + "x" * (1 << 20) + "'", "characters, and 1,048,576 are the most"),
        ("select label limit 3)", "expected the end of the query, found '\\)'"),
        ("select (label", r"expected '\)', found the end of the query"),
        ("select label from select 1", "SELECT can't stand here|no table 'select'"),
    ],
)
def test_what_is_refused(query: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Statement(query, TABLES, "train")


def test_from_must_be_said_where_there_are_several_tables() -> None:
    with pytest.raises(
        UsageError, match="no FROM, and there are several splits: say FROM and one of train, val, samples"
    ):
        Statement("select label, count(*)", TABLES, None)
    assert Statement("select 1 + 1 as two", TABLES, None).sql == "select 1 + 1 as two"


HIDDEN = [
    "read_csv('{}')",
    "READ_CSV('{}')",
    "Read_Csv ('{}')",
    "read_csv/**/('{}')",
    "read_csv -- x\n ('{}')",
    "read_csv/* /* */ */('{}')",
    "\"read_csv\"('{}')",
    "\"read_csv\" ('{}')",
    "`read_csv`('{}')",
    "\"READ_CSV\"('{}')",
    "read_csv(('{}'))",
    "read_csv(path => '{}')",
    "read_csv('{}') as t",
    "read_csv('{}') t (a, b)",
    "(read_csv('{}'))",
    "((read_csv('{}')))",
    "lateral read_csv('{}')",
    "table(read_csv('{}'))",
    "unnest(read_csv('{}'))",
    "(select * from read_csv('{}'))",
    "(select * from read_csv('{}')) as x",
    "train, read_csv('{}')",
    "train join read_csv('{}') on true",
    "train cross join read_csv('{}')",
    "train natural join read_csv('{}')",
    "train left join (val join read_csv('{}') using (a)) using (a)",
    "train join lateral read_csv('{}') on true",
    "train t, read_csv('{}') u",
    "main.read_csv('{}')",
    "train.read_csv('{}')",
    "polars.main.read_csv('{}')",
    "read_csv\u00a0('{}')",
    "read_csv\u3000('{}')",
    "read_csv\ufeff('{}')",
    "read_csv\u200b('{}')",
    "ｒｅａｄ_ｃｓｖ('{}')",
    "rea\u0064_csv('{}')",
    "'{}'",
    '"{}"',
    "`{}`",
    "file('{}')",
    "e'{}'",
    "read_ipc('{}')",
    "read_parquet('{}')",
    "read_json('{}')",
    "read_ndjson('{}')",
    "scan_csv('{}')",
    "csv_scan('{}')",
    "train where exists (select 1 from read_csv('{}'))",
    "train where label in (select canary from read_csv('{}'))",
    "train where score > (select max(canary) from read_csv('{}'))",
    "train where score = any (select canary from read_csv('{}'))",
    "train union all select canary from read_csv('{}')",
    "train union all (select canary from read_csv('{}'))",
    "train intersect (with x as (select * from read_csv('{}')) select * from x)",
    "train order by (select max(canary) from read_csv('{}'))",
    "train group by (select max(canary) from read_csv('{}'))",
    "train where '\\' = '\\' union all select canary from read_csv('{}')",
    "train where 'a''\\' <> '' union all select canary from read_csv('{}') --'",
    'train where "a"" from read_csv(\'{}\')',
    "train where $$ = $$ union all select canary from read_csv('{}') --$$",
    "train -- \r union all select canary from read_csv('{}')",
    "train /*/ union all select canary from read_csv('{}') /*/",
    "train;select canary from read_csv('{}')",
    "train qualify (select canary from read_csv('{}')) = 1",
    "train limit (select canary from read_csv('{}'))",
    "train tablesample (select canary from read_csv('{}'))",
    "train for update of read_csv('{}')",
    "train window w as (order by (select canary from read_csv('{}')))",
]


@pytest.mark.parametrize("table", HIDDEN)
@pytest.mark.parametrize("front", ["select * from ", "with x as (select * from ", "select canary, label from "])
def test_no_query_reads_a_file(table: str, front: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary.csv"
    canary.write_text(CANARY)
    query = front + table.format(canary) + (") select * from x" if front.startswith("with") else "")
    frames = {name: pl.LazyFrame({column: ["x"] for column in columns}) for name, columns in TABLES.items()}
    try:
        statement = Statement(query, TABLES, "train")
        found = pl.SQLContext(frames, register_globals=False).execute(statement.sql, eager=True)
        told = str(found.columns) + str(found.rows())
    except (UsageError, pl.exceptions.PolarsError) as error:
        told = str(error)
    assert "secret" not in told


def test_a_function_of_every_name_is_known_to_polars() -> None:
    frame = pl.LazyFrame({"a": [1]})
    unknown = []
    for name in sorted(FUNCTIONS - {"cast", "try_cast", "extract", "position"}):
        said = ""
        for arguments in ("", "a", "a, a", "a, a, a"):
            try:
                pl.SQLContext({"t": frame}).execute(f"select {name}({arguments}) from t").collect_schema()
                break
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                said = str(error)
                if "unsupported function" not in said:
                    break
        else:
            unknown.append((name, said[:80]))
    assert not unknown


def test_no_function_reads_files() -> None:
    for name in FUNCTIONS | BEFORE_PARENTHESES:
        assert not re.search("read|scan|file|load|glob|path|url|http|copy|env", name) or name in {"rename"}, name


# --- tokens -------------------------------------------------------------------------------------------------------

PIECES = [
    *("select", "from", "train", "read_csv", "(", ")", "'", "''", '"', '""', "\\", "\\'", "--", "/*", "*/", "\n", " "),
    *(
        ";",
        ",",
        ".",
        "*",
        "1",
        "1.5e3",
        "$$",
        "E'",
        "`",
        "\0",
        "\u00a0",
        "é",
        "'a'",
        '"a"',
        "=",
        "->>",
        "||",
        "::",
        "#",
    ),
]
TEXTS = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


@given(TEXTS)
def test_what_is_written_is_cut_at_the_same_places(text: str) -> None:
    try:
        tokens = tokens_of(text)
    except UsageError:
        return
    again = tokens_of(written(tokens)[0])
    assert [token.value for token in again] == [token.value for token in tokens]
    quoted = {Kind.WORD, Kind.QUOTED}  # words of other letters are written in quotes
    assert all(a.kind is b.kind or {a.kind, b.kind} == quoted for a, b in zip(again, tokens, strict=True))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=4))
def test_polars_reads_texts_as_they_were_checked(texts: list[str]) -> None:
    query = "select " + ", ".join("'" + text.replace("'", "''") + f"' as c{i}" for i, text in enumerate(texts))
    if (said := refusal(query)) is not None:
        assert "backslash before a quote" in said
        return
    statement = Statement(query, TABLES, "train")
    assert pl.SQLContext().execute(statement.sql, eager=True).row(0) == tuple(texts)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), min_size=1, max_size=12).filter(str.isprintable))
def test_polars_reads_names_as_they_were_checked(name: str) -> None:
    query = 'select "' + name.replace('"', '""') + '" from train'
    if (said := refusal(query, {"train": [name]})) is not None:
        assert "backslash before a quote" in said
        return
    statement = Statement(query, {"train": [name]}, "train")
    assert name in statement.names
    frame = pl.SQLContext({"train": pl.LazyFrame({name: [7]})}).execute(statement.sql, eager=True)
    assert frame.rows() == [(7,)]


@given(TEXTS)
def test_nothing_but_a_usage_error_comes_of_any_text(text: str) -> None:
    assert refusal(text) != ""
