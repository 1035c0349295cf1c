"""The functions of each database that compute on their arguments only: an untrusted query may call them.

A function that is not listed is refused. Functions that read a file, a setting, a catalogue or the network, that wait, lock
or write, or that take SQL as a text, are not listed. Names are in lower case.
"""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


COMMON = names("""
    classifier final match_number next prev running
    abs acos asin atan atan2 avg cbrt ceil ceiling char_length character_length coalesce concat concat_ws cos cot count
    cume_dist dense_rank degrees exp first first_value floor greatest if ifnull iff initcap instr lag last last_value lead
    least left length ln log log10 log2 lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank pi
    position pow power radians rank regexp_like regexp_replace replace reverse right round row_number rtrim sign sin sqrt
    stddev stddev_pop stddev_samp substr substring sum tan translate trim trunc upper var_pop var_samp variance
""")
"""The functions of most databases."""

DUCKDB = COMMON | names("""
    acosh add age any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_min
    arg_min_null argmax argmin array_agg array_aggr array_aggregate array_append array_apply array_cat array_concat
    array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance array_distinct
    array_dot_product array_extract array_filter array_grade_up array_has array_has_all array_has_any array_indexof
    array_inner_product array_intersect array_length array_pop_back array_pop_front array_position array_prepend
    array_push_back array_push_front array_reverse array_reverse_sort array_select array_slice array_sort array_to_json
    array_to_string array_transform array_unique array_value array_where array_zip ascii asinh atanh base64 bin bit_and
    bit_count bit_length bit_or bit_position bit_xor bitstring_agg bool_and bool_or cardinality century chr contains corr
    cosh count_if count_star countif covar_pop covar_samp damerau_levenshtein date_add date_diff date_part date_sub
    date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade decode
    divide editdist3 element_at encode ends_with entropy epoch epoch_ms epoch_ns epoch_us equi_width_bins era even
    factorial favg fdiv flatten fmod format_bytes formatreadabledecimalsize formatreadablesize from_base64 from_binary
    from_hex from_json from_json_strict fsum gamma gcd gen_random_uuid generate_subscripts geomean geometric_mean
    get_bit grade_up greatest_common_divisor group_concat hamming hash hex histogram histogram_exact hour isfinite isinf
    isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array json_array_length json_contains
    json_deep_merge json_each json_exists json_extract json_extract_path json_extract_path_text json_extract_string
    json_group_array json_group_object json_group_structure json_insert json_keys json_merge_patch json_normalize
    json_object json_pretty json_quote json_remove json_replace json_set json_strip_nulls json_structure json_transform
    json_transform_strict json_tree json_type json_valid json_value julian kahan_sum kurtosis kurtosis_pop last_day lcase
    lcm least_common_multiple left_grapheme len length_grapheme levenshtein lgamma list list_aggr list_aggregate
    list_any_value list_append list_apply list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor
    list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count
    list_distance list_distinct list_dot_product list_element list_entropy list_extract list_filter list_first
    list_grade_up list_has list_has_all list_has_any list_histogram list_indexof list_inner_product list_intersect
    list_kurtosis list_last list_mad list_max list_median list_min list_mode list_pack list_position list_prepend
    list_product list_reverse list_reverse_sort list_select list_sem list_skewness list_slice list_sort
    list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop
    list_var_samp list_where list_zip listagg mad make_date make_time make_timestamp make_timestamp_ms
    make_timestamp_ns make_timestamptz map map_concat map_contains map_contains_entry map_contains_value map_entries
    map_extract map_extract_value map_from_entries map_keys map_values max_by md5 md5_number md5_number_lower
    md5_number_upper mean microsecond millennium millisecond min_by minute mismatches mode month monthname multiply
    nanosecond nextafter nfc_normalize now ord overlay prefix product quantile quantile_cont quantile_disc quarter random
    regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_split_to_array
    regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    reservoir_quantile right_grapheme round_even roundbankers row row_to_json second sem set_bit sha1 sha256 signbit
    sinh skewness split split_part starts_with str_split str_split_regex strftime string_agg string_split
    string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat struct_contains struct_extract
    struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position struct_update
    struct_values substring_grapheme subtract suffix sum_no_overflow sumkahan tanh time_bucket timezone timezone_hour
    timezone_minute to_base64 to_binary to_centuries to_days to_decades to_hex to_hours to_json to_microseconds
    to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today
    try_strptime typeof ucase unbin unhex unicode union_extract union_tag union_value unnest url_decode url_encode uuid
    uuidv4 uuidv7 wavg week weekday weekofyear weighted_avg xor year yearweek
""")

SQLITE = COMMON | names("""
    acosh asinh atanh cep_double cep_integer cep_list char cosh date datetime glob group_concat hex iif json json_array
    json_array_length json_each json_extract json_group_array json_group_object json_insert json_object json_patch
    json_quote json_remove json_replace json_set json_tree json_type json_valid julianday like likelihood likely quote
    random sinh soundex strftime string_agg tanh time timediff total typeof unhex unicode unixepoch unlikely
""")

POSTGRESQL = COMMON | names("""
    acosd acosh age any_value array_agg array_append array_cat array_dims array_length array_lower array_ndims
    array_position array_positions array_prepend array_remove array_replace array_to_json array_to_string array_upper
    ascii asind asinh atan2d atand atanh bit_and bit_count bit_length bit_or bit_xor bool_and bool_or btrim cardinality
    chr clock_timestamp convert_from convert_to corr cosd cosh cotd covar_pop covar_samp date date_bin date_part
    date_trunc daterange decode div encode every extract factorial gcd gen_random_uuid generate_subscripts get_bit
    get_byte int4range int8range isempty isfinite json_agg json_array_elements json_array_elements_text
    json_array_length json_build_array json_build_object json_each json_each_text json_extract_path
    json_extract_path_text json_object json_object_agg json_object_keys json_strip_nulls json_typeof jsonb_agg
    jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each
    jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg
    jsonb_object_keys jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first
    jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_typeof justify_days justify_hours justify_interval lcm
    lower_inc lower_inf make_date make_interval make_time make_timestamp make_timestamptz md5 min_scale mode normalize
    now num_nonnulls num_nulls numrange overlaps overlay percentile_cont percentile_disc random range_agg range_merge
    regexp_count regexp_instr regexp_match regexp_matches regexp_split_to_array regexp_split_to_table regexp_substr
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row row_to_json scale
    set_bit set_byte sha224 sha256 sha384 sha512 sind sinh split_part starts_with statement_timestamp string_agg
    string_to_array string_to_table strpos tand tanh timezone to_ascii to_char to_date to_hex to_json to_jsonb to_number
    to_timestamp transaction_timestamp trim_array trim_scale tsrange tstzrange unistr unnest upper_inc upper_inf
    width_bucket
""")

MARIADB = COMMON | names("""
    add_months adddate addtime any_value ascii bin bit_and bit_count bit_length bit_or bit_xor char chr conv convert
    convert_tz crc32 curdate current_date current_time current_timestamp curtime date date_add date_format date_sub
    datediff day dayname dayofmonth dayofweek dayofyear elt export_set extract field find_in_set format from_base64
    from_days from_unixtime get_format group_concat hex hour inet6_aton inet6_ntoa inet_aton inet_ntoa insert interval
    is_ipv4 is_ipv6 isnull json_array json_array_append json_array_insert json_arrayagg json_compact json_contains
    json_contains_path json_depth json_detailed json_equals json_exists json_extract json_insert json_keys json_length
    json_loose json_merge_patch json_merge_preserve json_normalize json_object json_objectagg json_overlaps json_pretty
    json_query json_quote json_remove json_replace json_search json_set json_type json_unquote json_valid json_value
    last_day lcase locate make_set makedate maketime md5 microsecond mid minute month monthname now nvl nvl2 oct ord
    percentile_cont percentile_disc period_add period_diff quarter quote rand regexp_instr regexp_substr sec_to_time
    second sha sha1 sha2 soundex std str_to_date strcmp subdate substring_index subtime time time_format
    time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_char to_days to_seconds truncate ucase unhex
    unix_timestamp utc_date utc_time utc_timestamp values week weekday weekofyear year yearweek
""")
