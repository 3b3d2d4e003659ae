"""The sweep over finite fronts by several threads: ranges of the second objective, one solver each, the same front.

Each range is swept from its own upper bound until a point falls below its lower one; that point is where the next
range's own first point was found by another question. Joined there, the points and the questions that settle them are
those of a sweep by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

from mopt.session import Session
from mopt.sweep import Found, Grid, advance, step_on

# Ranges per worker: small enough that uneven ones don't leave a worker idle, each costs one more question.
_RANGES = 4


def parallel_sweep(session: Session, grid: Grid, start: Found, end: Found, workers: int | Any) -> Iterator[Found]:
    """As `sweep`, by `workers` threads (or by anything whose `map` runs functions in this process)."""
    count = _RANGES * (workers if isinstance(workers, int) else 2)
    top, width = start.values[1] - grid.skip[1], (start.values[1] - end.values[1]) / count
    bounds = [top - k * width for k in range(count)] + [end.values[1]]
    forks: list[Session] = []

    def swept(k: int) -> list[Found]:
        fork = session.fork()
        forks.append(fork)
        return list(_range(fork, grid, start if k == 0 else None, bounds[k], bounds[k + 1], end))

    own = ThreadPoolExecutor(workers) if isinstance(workers, int) else None
    pool: Any = own or workers
    try:
        yield from _joined(session, grid, start, end, pool.map(swept, range(count)), bounds)
    finally:
        for fork in forks:
            fork.deadline = 0.0  # what is still running stops at its next question
        if own is not None:
            own.shutdown(cancel_futures=True)
        for fork in forks:
            session.statistics.add(fork.statistics)


def _range(
    session: Session, grid: Grid, start: Found | None, bound: Fraction, floor: Fraction, end: Found
) -> Iterator[Found]:
    """The points of a range from its start, or from the first below its bound, to the first below its floor."""
    last = start or advance(session, grid, bound, end)
    while last is not None:
        yield last
        if last.values[1] <= floor:
            return
        last = step_on(session, grid, last, end)


def _joined(
    session: Session, grid: Grid, start: Found, end: Found, ranges: Any, bounds: list[Fraction]
) -> Iterator[Found]:
    last = start
    for k, found in enumerate(ranges):
        position = {point.values: index for index, point in enumerate(found)}
        while last.values not in position and last.values[1] > bounds[k + 1]:
            # At a resolution, another start may lead along other points: go on until they meet.
            following = step_on(session, grid, last, end)
            if following is None:
                return
            yield following
            last = following
        for point in found[position.get(last.values, len(found)) + 1 :]:
            yield point
            last = point
