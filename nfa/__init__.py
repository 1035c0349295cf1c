"""Row patterns: from PATTERN text to the rows of each match, knowing nothing of SQL.

Text becomes a tree (`parse_pattern`), the tree a flat program (`compile_program`), and a `Matcher` runs the program
over rows that are fed one by one. It asks one question, "can this row be this symbol?", keeps all ways to match as
threads in preference order, and returns a match as soon as no later row can change it. `compile_automaton` makes
the deterministic automaton for patterns whose every way to match counts. All of it is plain Python and picklable.

For millions of rows the modules of `nfa.arrays` find the same matches over numpy arrays; importing this package imports
none of them.

>>> [match.start for match in find_all("A B+", "abbab", lambda symbol, row, path: row == symbol.lower())]
[0, 3]
"""

from nfa.automaton import Automaton, compile_automaton
from nfa.errors import BudgetError, PatternError, SkipError
from nfa.graph import Diagram, Graph, diagram
from nfa.match import Membership, PatternMatch
from nfa.parse import parse_pattern
from nfa.pattern import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
    length_bounds,
    nullable,
    symbols,
)
from nfa.program import Program, compile_program
from nfa.skip import past_last_row, to_first, to_last, to_next_row
from nfa.threads.decided import Matcher, find_all
from nfa.threads.path import Path

__all__ = [
    "Alternation",
    "Anchor",
    "Automaton",
    "BudgetError",
    "Concatenation",
    "Diagram",
    "Empty",
    "Exclusion",
    "Graph",
    "Matcher",
    "Membership",
    "Path",
    "Pattern",
    "PatternError",
    "PatternMatch",
    "Permutation",
    "Program",
    "Quantified",
    "SkipError",
    "Symbol",
    "compile_automaton",
    "compile_program",
    "diagram",
    "find_all",
    "length_bounds",
    "nullable",
    "parse_pattern",
    "past_last_row",
    "symbols",
    "to_first",
    "to_last",
    "to_next_row",
]
