"""The paper's experiment (section 5) over any databases: this bridge, the paper's own algorithm, and other engines.

`workloads` are the test queries and their events, `paper` the baseline, `sides` and `peers` who takes part,
`experiment` checks that all report the same rows and then measures, `report` and `plot` tell. Nothing else imports
this package; the command `cepbridge bench` does when it is called.
"""
