"""The paper's MATCHING: strictly sequential patterns, all of whose matches are reported."""
