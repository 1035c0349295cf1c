"""`python -m bridge` is the command `cepbridge`."""

from bridge.cli import main

main(prog_name="cepbridge")
