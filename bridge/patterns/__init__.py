"""MATCH_RECOGNIZE of SQL:2016 (feature R010): the clause, its planner and its strategies."""
