"""Choices of units looked at by several processes: each takes some of the types, the result is that of one process."""

from __future__ import annotations

import copy
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any

from mopt.elapsed_table import Floats, Ints
from mopt.enumeration import Looked, Sieve, Sift
from mopt.helpers import clock, dismiss, helpers, moment
from mopt.session import Statistics, check_time

# Fewer choices aren't worth sharing.
_MANY = 3_000_000
# Parts of the types, for each process: small, so that uneven ones don't leave a process idle.
_PARTS = 12
# Parts that a helper has at a time: the next is there when one is done.
_AHEAD = 2
# Seconds between looks at the clock while waiting for a helper.
_PATIENCE = 0.2


def sifting(workers: int | Any, deadline: float, statistics: Statistics) -> Sift:
    """What looks at all choices of some types, with helpers if there are to be any.

    Helpers may fail or be lost at any time: their types are looked at here then.
    """
    found = helpers(workers, __name__)
    check = partial(check_time, deadline)

    def sift(sieve: Sieve, types: Ints) -> None:
        if found is None or sieve.count(types) < _MANY:
            sieve.sift(types, check)
            return
        executor, started = found
        parts = [types[k :: _PARTS * workers] for k in range(_PARTS * workers)]
        ahead = _AHEAD * (workers - 1)
        out: dict[Future[tuple[Floats, list[Looked], float]], Ints] = {}
        try:
            while parts or out:
                while parts and len(out) < ahead and started.done():
                    part = parts.pop()
                    try:
                        # A copy, as it travels in its own time.
                        out[executor.submit(_sifted, copy.copy(sieve), part, moment(deadline))] = part
                    except Exception:  # shut down or broken, whatever the executor calls it
                        parts.append(part)
                        ahead = 0
                for future in [future for future in out if future.done()]:
                    part = out.pop(future)
                    if future.cancelled() or future.exception() is not None:
                        parts.append(part)
                        ahead = 0
                        continue
                    values, choices, seconds = future.result()
                    sieve.take(values, choices)
                    statistics.listing_seconds += seconds
                if parts:
                    sieve.sift(parts.pop(), check)
                elif out:
                    wait(out, _PATIENCE, FIRST_COMPLETED)
                    check()
        finally:
            dismiss(executor, out)

    return sift


def _sifted(sieve: Sieve, types: Ints, until: float) -> tuple[Floats, list[Looked], float]:
    """What is new among the nondominated with all choices of some types, and the seconds that this took."""
    began = time.perf_counter()
    known = sieve.choices
    sieve.sift(types, clock(until))
    ids = set(map(id, known))
    new = [k for k, choice in enumerate(sieve.choices) if id(choice) not in ids]
    return sieve.values[new], [sieve.choices[k] for k in new], time.perf_counter() - began
