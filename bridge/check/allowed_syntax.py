"""The syntax and the standard functions that an untrusted query may use: they compute on values, and neither read nor do more.

Everything that is not listed is refused. The functions of each database are in `windows.databases.pure_functions`.
"""

from __future__ import annotations

from windows.databases.pure_functions import names

SYNTAX = names("""
    Add Adjacent Alias All Any AtTimeZone Between BitString BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr
    BitwiseRightShift BitwiseXor Boolean Bracket CTE Column ColumnDef Comprehension Cube DPipe DataType DataTypeParam
    Distance Distinct Div Dot EQ Escape Except Fetch Filter Final From FromTimeZone GT GTE Glob Group GroupingSets
    Having HavingMax HexString ILike Identifier IgnoreNulls In IntDiv Intersect Interval IntervalSpan Is JSON
    JSONExtractQuote JSONKeyValue JSONPath JSONPathKey JSONPathRecursive JSONPathRoot JSONPathSelector JSONPathSlice
    JSONPathSubscript JSONPathUnion JSONPathWildcard Join Kwarg LT LTE Lambda Lateral Like Limit LimitOptions Literal
    Mod Mul NEQ Neg Not Null NullSafeEQ NullSafeNEQ Offset Order Ordered Overlaps Paren PropertyEQ Qualify
    RespectNulls Rollup Select SimilarTo Slice Star Sub Subquery Table TableAlias Tuple Union Values Var Where Window
    WindowSpec With WithinGroup
""")
"""sqlglot's classes of nodes that are not functions."""

NODES = names("""
    Abs Acos Acosh And AnyValue ApproxDistinct ApproxQuantile ArgMax ArgMin Array ArrayAgg ArrayAll ArrayAny ArrayAppend
    ArrayCompact ArrayConcat ArrayContains ArrayContainsAll ArrayDistinct ArrayExcept ArrayFilter ArrayFirst ArrayIntersect
    ArrayLast ArrayMax ArrayMin ArrayOverlaps ArrayPosition ArrayPrepend ArrayRemove ArrayReverse ArraySize ArraySlice
    ArraySort ArraySum ArrayToString ArraysZip Ascii Asin Asinh Atan Atan2 Atanh Avg BitLength BitwiseAndAgg BitwiseCount
    BitwiseOrAgg BitwiseXorAgg Booland Boolnot Boolor ByteLength Case Cast Cbrt Ceil Chr Coalesce Collate Concat ConcatWs
    Contains Corr Cos Cosh Cot Count CountIf CovarPop CovarSamp CumeDist CurrentDate CurrentDatetime CurrentTime
    CurrentTimestamp Date DateAdd DateBin DateDiff DateFromParts DateStrToDate DateSub DateToDateStr DateTrunc Datetime
    DatetimeAdd DatetimeDiff DatetimeSub DatetimeTrunc Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Dayname DecodeCase
    Degrees DenseRank Elt EndsWith Exists Exp Extract Factorial First FirstValue Flatten Floor Format Getbit Greatest
    Grouping GroupConcat Hex Hour If Initcap IsInf IsNan JSONArray JSONArrayAgg JSONArrayContains JSONBContains JSONBExists
    JSONBExtract JSONBExtractScalar JSONBObjectAgg JSONCast JSONExists JSONExtract JSONExtractArray JSONExtractScalar
    JSONFormat JSONKeys JSONObject JSONObjectAgg JSONRemove JSONSet JSONType JSONValueArray JarowinklerSimilarity JustifyDays
    JustifyHours JustifyInterval Kurtosis Lag Last LastDay LastValue Lead Least Left Length Levenshtein List Ln Localtime
    Localtimestamp Log LogicalAnd LogicalOr Lower LowerHex MD5 MD5Digest MakeInterval Map MapFromEntries MapKeys MapSize Max
    Median Min Minute Mode Month Monthname Negative NthValue Ntile Nullif NumberToStr Nvl2 Or Overlay ParseJSON PercentRank
    PercentileCont PercentileDisc Pi Pow Quantile Quarter Radians Rand Rank RegexpCount RegexpExtract RegexpExtractAll
    RegexpFullMatch RegexpILike RegexpInstr RegexpLike RegexpReplace RegexpSplit RegexpSubstr RegrAvgx RegrAvgy RegrCount
    RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy Replace Reverse Right Rint Round RowNumber SHA SHA1Digest SHA2
    SHA2Digest SafeDivide Second Sign Sin Sinh Skewness Soundex Split SplitPart Sqrt StartsWith Stddev StddevPop StddevSamp
    StrPosition StrToDate StrToTime StrToUnix String StringToArray Struct StructExtract Substring SubstringIndex Sum Tan
    Tanh Time TimeAdd TimeDiff TimeFromParts TimeStrToDate TimeStrToTime TimeStrToUnix TimeSub TimeToStr TimeToTimeStr
    TimeToUnix TimeTrunc Timestamp TimestampAdd TimestampDiff TimestampFromParts TimestampSub TimestampTrunc ToArray ToBase64
    ToChar ToDays ToMap ToNumber Transform Translate Trim Trunc Try TryCast TsOrDsAdd TsOrDsDiff TsOrDsToDate
    TsOrDsToDateStr TsOrDsToDatetime TsOrDsToTime TsOrDsToTimestamp Typeof Unhex Unicode UnixDate UnixMicros UnixMillis
    UnixSeconds UnixToStr UnixToTime UnixToTimeStr Unnest Upper UtcDate UtcTime UtcTimestamp Uuid VarMap Variance VariancePop
    Week WeekOfYear WidthBucket Xor Year YearOfWeek YearOfWeekIso
""")
"""sqlglot's classes of functions that are allowed on every database."""

GROWING_NODES = names(
    "Explode ExplodingGenerateSeries GenerateDateArray GenerateSeries Pad Randstr Reduce Repeat Space"
)
"""Functions whose result may be as large as a given number: for on-demand queries, which have limits."""

ROWS = names("""
    explodinggenerateseries generate_series generate_subscripts generateseries json_array_elements json_array_elements_text
    json_each json_each_text json_object_keys json_tree jsonb_array_elements jsonb_array_elements_text jsonb_each
    jsonb_each_text jsonb_object_keys jsonb_path_query range regexp_matches regexp_split_to_table string_to_table unnest
""")
"""The functions that are allowed in FROM; there DuckDB's HISTOGRAM, for example, reads the table that a text names."""

BARE_NAMES = names("""
    current_catalog current_database current_role current_schema current_user database schema session_user system_user user
""")
"""Words that some databases take for a function call although they are written like a column."""
