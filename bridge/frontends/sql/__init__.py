"""The bridge's SQL: continuous queries, MATCHING, MATCH_RECOGNIZE, and scripts of them."""
