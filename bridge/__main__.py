"""`python -m bridge` is the command `cepbridge`."""

from bridge.cli.run import main

main(prog_name="cepbridge")
