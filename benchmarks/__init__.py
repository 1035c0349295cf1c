"""The paper's experiment: how many events a second each operator takes, on which database, pushed in which way."""
