"""The latency of single events that are pushed at a steady rate, which should be the same after an hour.

    python -m benchmarks.steady duckdb:// --rate 500 --seconds 3600 --plot docs/steady.png

The queries are those of `benchmarks.soak`. For each of sixty parts of the time it notes the median, the 99th percentile and
the longest push, in milliseconds, and the same of the CPU time of the thread that pushes, to which other work of the machine
matters less. A push that is late, because an earlier one took longer than its turn, is done at once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.soak import open_bridge, printed, resident_megabytes, values_of

PARTS = 60
"""The number of measurements."""


def steady(url: str, rate: float, seconds: float) -> Iterator[dict[str, float]]:
    """Pushes `rate` events per second. The timestamps are the milliseconds at which the events are due."""
    cep = open_bridge(url, durable=False)
    began, number = time.perf_counter(), 0
    for part in range(1, PARTS + 1):
        taken: list[tuple[float, float]] = []
        end = began + seconds * part / PARTS
        while (due := began + number / rate) < end:
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            event = values_of(number)
            start, cpu = time.perf_counter(), time.thread_time()
            cep.push_event("s", event, int(number * 1000 / rate))
            taken.append((time.perf_counter() - start, time.thread_time() - cpu))
            number += 1
        elapsed, used = 1000 * np.array(taken).T
        yield {
            "minutes": (end - began) / 60,
            "memory": resident_megabytes(),
            **{f"p{rank}": float(np.percentile(elapsed, rank)) for rank in (50, 99, 100)},
            **{f"cpu p{rank}": float(np.percentile(used, rank)) for rank in (50, 99, 100)},
        }
    cep.close()


def plot(found: list[dict[str, float]], title: str, path: str) -> None:
    """The latencies and the memory over the time."""
    from bridge.bench.plot import pyplot

    figure, (latency, memory) = pyplot().subplots(1, 2, figsize=(11, 3.2), layout="constrained")
    minutes = [each["minutes"] for each in found]
    for name, label, style in (
        ("p50", "median", "-"),
        ("p99", "99th percentile", "--"),
        ("cpu p50", "median, CPU", "-."),
        ("cpu p99", "99th percentile, CPU", ":"),
    ):
        latency.plot(minutes, [each[name] for each in found], style, color="black", label=label)
    latency.set_yscale("log")
    latency.set_title(f"{title}: ms per push", fontsize=10)
    figure.legend(fontsize=8, loc="outside lower center", ncols=4)
    memory.plot(minutes, [each["memory"] for each in found], color="black")
    memory.set_ylim(0, 1.15 * max(each["memory"] for each in found))
    memory.set_title("resident memory, MB", fontsize=10)
    for axis in (latency, memory):
        axis.set_xlabel("minutes")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Prints each measurement as JSON, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=500, help="events per second")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--plot")
    options = parser.parse_args()
    found = printed(steady(options.url, options.rate, options.seconds))
    if options.plot:
        plot(found, f"{options.url}, {options.rate:g} events/s", options.plot)


if __name__ == "__main__":
    main()
