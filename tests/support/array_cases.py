"""What the tests of the vectorised engines share: rows as symbol sets, and what `find_all` gives for them."""

from __future__ import annotations

import random
from itertools import accumulate

import numpy as np

from nfa import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    PatternMatch,
    Permutation,
    Quantified,
    Symbol,
    compile_program,
    find_all,
    past_last_row,
    symbols,
    to_first,
    to_last,
    to_next_row,
)
from nfa.program import MatchSymbol
from nfa.skip import search_on

SKIPS = (past_last_row, to_next_row, to_first("A"), to_last("A"), to_first("B", "C"), to_last("B", "C"))
BOUNDS = [(0, None), (1, None), (0, 1), (2, None), (2, 2), (0, 2), (1, 2), (1, 3), (2, 4), (3, 3)]


def random_tree(rng: random.Random, size: int, excluded: bool = False):
    if size <= 1:
        return rng.choice([*map(Symbol, "AABBCCD"), Empty(), Anchor("^"), Anchor("$")])
    kind = rng.randrange(9)
    if kind < 3:
        return Concatenation(tuple(random_tree(rng, size // 2, excluded) for _ in range(2)))
    if kind < 5:
        return Alternation(tuple(random_tree(rng, size // 2, excluded) for _ in range(2)))
    if kind < 7:
        return Quantified(random_tree(rng, size - 1, excluded), *rng.choice(BOUNDS), rng.random() < 0.6)
    if kind == 7 or excluded:
        return Permutation(tuple(random_tree(rng, size // 3, excluded) for _ in range(rng.randint(1, 3))))
    return Exclusion(random_tree(rng, size - 1, True))


def random_rows(rng: random.Random, tree, longest: int = 12):
    """Symbol sets and ends of some partitions."""
    count = len(symbols(tree))
    lengths = [rng.choice([0, 1, 2, rng.randrange(longest + 1)]) for _ in range(rng.randint(1, 4))]
    some = rng.random() < 0.5
    symbol_sets = [
        rng.randrange(1 << count) if some or not count else 1 << rng.randrange(count) for _ in range(sum(lengths))
    ]
    dtype = rng.choice([np.uint8, np.uint16, np.uint32, np.uint64])
    return np.array(symbol_sets, dtype), np.cumsum(lengths, dtype=np.int64)


def random_times(rng: random.Random, ends):
    """Times that ascend in each partition."""
    times = []
    for length in np.diff(ends, prepend=0).tolist():
        gaps = [rng.choice([0, 0, 1, 2, 3]) for _ in range(length)]
        times += accumulate(gaps, initial=rng.randrange(-5, 5))
        times = times[: len(times) - 1]
    return np.array(times, np.int64)


def expected(tree, symbol_sets, ends, skip, times=None, within=None):
    """Start, symbols and exclusions of every match of `find_all`, or the text of its error."""
    names = {name: 1 << number for number, name in enumerate(symbols(tree))}
    options = {} if within is None else {"within": within, "time": lambda row: int(times[row])}

    def of_partition(first, end):
        return find_all(
            tree,
            range(first, end),
            lambda symbol, row, path: bool(int(symbol_sets[row]) & names[symbol]),
            skip=skip,
            **options,
        )

    return of_partitions(ends, of_partition)


def expected_from_first(tree, symbol_sets_at, ends, skip):
    """The same where symbol sets depend on the start: one `find_all` for each start, from the row before on."""
    names = {name: 1 << number for number, name in enumerate(symbols(tree))}

    def of_start(first, start, end):
        rows = range(max(first, start - 1), end)

        def holds(symbol, row, path):
            return row >= start and bool(int(symbol_sets_at(start, row)) & names[symbol])

        matches = find_all(tree, rows, holds, skip=to_next_row)
        return next((match for match in matches if rows[match.start] == start), None)

    def of_partition(first, end):
        found, row = [], first
        while row < end:
            match = of_start(first, row, end)
            if match is None:
                row += 1
                continue
            members = [member._replace(row=row - first + n) for n, member in enumerate(match.memberships)]
            found.append(PatternMatch(len(found) + 1, row - first, tuple(members)))
            row = first + search_on(skip, found[-1])
        return found

    return of_partitions(ends, of_partition)


def of_partitions(ends, of_partition):
    found, first = [], 0
    for end in ends.tolist():
        try:
            matches = of_partition(first, end)
        except ValueError as error:
            return f"{type(error).__name__}: {error}"
        found += [(first + match.start, [(m.symbol, m.excluded) for m in match.memberships]) for match in matches]
        first = end
    return found


def told(tree, engine, *args, **options):
    """The same of a vectorised engine."""
    program = compile_program(tree)
    try:
        found = engine(program, *args, **options)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    assert (found.starts.dtype, found.lengths.dtype, found.codes.dtype) == (np.int64, np.int64, np.int32)
    lines = [program.instructions[code] for code in found.codes.tolist()]
    assert all(isinstance(line, MatchSymbol) for line in lines)
    members = [(line.name, line.excluded) for line in lines]
    places = found.offsets.tolist()
    assert places[-1] == len(members)
    spans = zip(found.starts.tolist(), places[:-1], places[1:], strict=True)
    return [(start, members[first:end]) for start, first, end in spans]
