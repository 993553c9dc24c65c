"""The functions that a query may call: those of polars' SQL that make values of values, and none that reads a file."""

from __future__ import annotations

__all__ = ["BEFORE_PARENTHESES", "FUNCTIONS", "READERS"]

_FUNCTIONS = (
    # numbers
    """
    abs acos acosd asin asind atan atan2 atan2d atand bit_and bit_count bit_not bit_or bit_xor bitand bitcount bitnot
    bitor bitxor cbrt ceil ceiling cos cosd cot cotd degrees div erf exp floor greatest least ln log log10 log1p log2
    mod pi pow power radians round sign sin sind sqrt tan tand trunc truncate
    """
    # times
    """
    date date_part date_trunc datetime day dayofmonth dayofweek dayofyear extract hour minute month quarter second
    strftime strptime time timestamp week year
    """
    # texts
    """
    bit_length char_length character_length concat concat_ws ends_with initcap left length lower lpad ltrim normalize
    octet_length position regexp_like regexp_replace replace reverse right rpad rtrim split_part starts_with
    string_to_array strpos substr substring trim upper
    """
    # aggregates
    """
    array_agg avg corr count covar covar_pop covar_samp first group_concat last listagg max median min quantile_cont
    quantile_disc stddev stddev_samp stdev stdev_samp string_agg sum total var var_samp variance
    """
    # windows
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number "
    # lists
    """
    array_contains array_get array_length array_lower array_mean array_reverse array_sum array_to_string array_unique
    array_upper unnest
    """
    # conditions, types, columns
    "cast coalesce columns if ifnull nullif try_cast"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())

# What else stands before a parenthesis: keywords, and types with a size.
_BEFORE_PARENTHESES = """
all and any as between by case distinct else escape except exclude exists filter from having ilike in intersect
interval is join like limit not offset on or over partition qualify regexp rename replace rlike select similar some
then to union using values when where
binary char character dec decimal double float numeric real string text varbinary varchar
"""
BEFORE_PARENTHESES = frozenset(_BEFORE_PARENTHESES.split())

# How functions of polars and of its relatives begin that read files: the error says that a query can't.
READERS = ("read_", "scan_", "load_", "glob", "parquet_", "csv_", "json_each", "sqlite_", "iceberg_", "delta_")
