"""Writes trades as CSV: `python examples/generate_trades.py ROWS [SEED] > trades.csv`; equal seeds, equal files."""

import csv
import sys

from bridge.cli.demo import exchange


def main(rows: int, seed: int = 7) -> None:
    """Writes the header and `rows` trades to standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["ts", "symbol", "price", "volume"])
    for stream, trade, ts in exchange(seed, rows):
        if stream == "trades":
            writer.writerow([ts, *trade.values()])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
