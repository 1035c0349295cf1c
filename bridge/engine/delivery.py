"""Delivery of results to every output processor, even if another one raises an error."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bridge.engine.catalogue import Processor, QueryEntry, function_name
from bridge.errors import ProcessorError
from windows.arrow import arrow_type, values_of


class ProcessorFailure(NamedTuple):
    """An error of a processor, with a description of the processor."""

    error: Exception
    processor: str

    def __str__(self) -> str:
        return f"{self.processor} raised {type(self.error).__name__}: {self.error}"


class Delivery(NamedTuple):
    """Results that one processor has not received yet: tuples, or one Arrow table."""

    entry: QueryEntry
    processor: Processor
    results: Iterator[Any]


def deliveries(results: Sequence[tuple[QueryEntry, Any]]) -> list[Delivery]:
    """One delivery per query and processor, in order."""
    found: list[Delivery] = []
    for entry, rows in results:
        entry.delivered += len(rows)
        for processor in entry.processors:
            found.append(Delivery(entry, processor, _results_for(processor, entry, rows)))  # noqa: PERF401  (a comprehension is slower for one)
    return found


def deliver(pending: deque[Delivery], errors: list[ProcessorFailure]) -> None:
    """Calls each processor with its results, and adds errors of processors to `errors`.

    An interruption (KeyboardInterrupt, SystemExit) ends it at once. Undelivered results then stay in `pending`.
    """
    while pending:
        entry, processor, results = pending[0]
        function, present = processor.function, entry.processors
        event = _itself if processor.batch else entry.event
        for found in results:
            if processor in present:  # a processor may have removed this one
                try:
                    function(event(found))
                except Exception as error:
                    errors.append(ProcessorFailure(error, str(processor)))
                    entry.last_error = f"{type(error).__name__}: {error}"
        pending.popleft()


def _itself(table: Any) -> Any:
    return table


def call_all(calls: Sequence[tuple[Callable[[Any], Any], Any]]) -> None:
    """Makes all calls, even after one has raised; raises ProcessorError at the end if a call has raised."""
    errors: list[ProcessorFailure] = []
    for function, argument in calls:
        try:
            function(argument)
        except Exception as error:
            errors.append(ProcessorFailure(error, f"the processor {function_name(function)} of late events"))
    if errors:
        raise failure(errors) from errors[0].error


def failure(errors: Sequence[ProcessorFailure]) -> ProcessorError:
    """One error that describes all errors of processors."""
    more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    message = f"{errors[0]}{more} (the events were pushed, and all other processors ran)"
    return ProcessorError(message, [each.error for each in errors], [each.processor for each in errors])


def raised_by(error: ProcessorError) -> list[ProcessorFailure]:
    """The errors of processors from which `failure` has made this error."""
    return list(itertools.starmap(ProcessorFailure, zip(error.errors, error.processors, strict=True)))


def as_arrow(entry: QueryEntry) -> bool:
    """Whether all processors take Arrow tables, and the database's Arrow values need no decoding."""
    if not entry.in_arrow or not all(processor.batch for processor in entry.processors):
        return False
    return all(arrow_type(field.type) is not None for field in entry.fields)


def _results_for(processor: Processor, entry: QueryEntry, rows: Any) -> Iterator[Any]:
    """The results, tuples or an Arrow table, in the form that this processor takes."""
    is_unchanged = type(rows) is list and not processor.batch and not entry.is_decoded
    return iter(rows) if is_unchanged else _converted(processor, entry, rows)


def _converted(processor: Processor, entry: QueryEntry, rows: Any) -> Iterator[Any]:
    """The results in the other form, converted when it is the processor's turn."""
    if processor.batch and not isinstance(rows, list):
        from bridge.engine.result_set import arrow_cast

        yield arrow_cast(entry.fields, entry.decoders, rows)
        return
    if not isinstance(rows, list):  # an Arrow table: this processor was added before the results were delivered
        rows = list(zip(*map(values_of, rows.columns), strict=True))
    if entry.is_decoded:
        rows = [_decoded(row, entry.decoders) for row in rows]
    if processor.batch:
        from bridge.engine.result_set import arrow_table

        yield arrow_table(entry.fields, rows)
        return
    yield from rows


def _decoded(row: tuple[Any, ...], decoders: Sequence[Callable[[Any], Any] | None]) -> tuple[Any, ...]:
    values = [
        decode(value) if decode is not None and value is not None else value
        for decode, value in zip(decoders, row[1:], strict=True)
    ]
    return (row[0], *values)
