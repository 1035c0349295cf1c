"""The experiment of the paper (section 5) on any databases: this bridge, the paper's own algorithm, and other engines.

`workloads` has the test queries and their events, `paper` the baseline, `systems` and `peers` the systems under test.
`experiment` checks that all report the same rows, and measures them; `report` and `plot` show the figures. Only the command
`cepbridge bench` imports this package, when it runs.
"""
