"""One front by several processes: this one searches it part by part, others take the parts that are still to do.

What is found doesn't depend on who finds it. Helpers may fail or be lost at any time: their parts are done here then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from threading import Condition
from types import TracebackType
from typing import Any

from mopt.helpers import clock, dismiss, helpers, moment
from mopt.listing import Listed
from mopt.parts import Part
from mopt.session import Statistics, check_time
from mopt.whole import WholeProgram

# Seconds between looks at the clock while waiting for a helper.
_PATIENCE = 0.2


class Team:
    """This process and its helpers.

    Parameters
    ----------
    program : WholeProgram
        A feasible one.
    workers : int or object
        Processes, this one included; anything else stands for this one.
    deadline : float
        When to stop, as `time.perf_counter` tells it.
    statistics : Statistics
        Where to count the work, helpers' included.
    """

    def __init__(self, program: WholeProgram, workers: int | Any, deadline: float, statistics: Statistics) -> None:
        self._program = program
        self._idle = 0
        self._deadline, self._statistics = deadline, statistics
        self._changed = Condition()
        self._waiting: list[Part] = []  # from left to right
        self._looking = True  # for a part to search here
        self._closed = False
        self._out: dict[Part, Future[tuple[Part, float]]] = {}
        self._executor: Any = None
        if (found := helpers(workers, __name__)) is not None:
            self._executor, started = found
            started.add_done_callback(partial(self._welcome, workers - 1))

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closed = True
            left = list(self._out.values())
        dismiss(self._executor, left)

    def offer(self, parts: list[Part]) -> None:
        """Parts to do."""
        with self._changed:
            self._waiting = sorted([*self._waiting, *parts], key=lambda part: part.search.last)
            self._hand_out()

    def work(self, part: Part) -> Iterator[Listed]:
        """What is found in a part, by whoever searches it. While a helper does, other parts are searched here."""
        while (mine := self._next(part)) is not None:
            if mine is part:
                yield from self.work_here(part)
                return
            for _ in self.work_here(mine):
                pass
        yield from part.found

    def _next(self, part: Part) -> Part | None:
        """The part to search here until another one has been searched; None once it has been."""
        with self._changed:
            self._looking = True
            while (waits := part in self._waiting) or part in self._out:
                if self._waiting:
                    mine = part if waits else self._waiting[0]
                    self._waiting.remove(mine)
                    break
                self._changed.wait(_PATIENCE)
                check_time(self._deadline)
            else:
                mine = None
            self._looking = False
            self._hand_out()
        return mine

    def work_here(self, part: Part) -> Iterator[Listed]:
        """Search a part in this process."""
        found = part.work(self._program, partial(check_time, self._deadline))
        while True:
            with self._statistics.listing():
                listed = next(found, None)
            if listed is None:
                break
            yield listed
        with self._changed:
            self._looking = True
            self.offer(part.parts)

    def _welcome(self, count: int, started: Future[Any]) -> None:
        """So many helpers, as the first has started. Until then all is done here: short fronts needn't wait for them."""
        with self._changed:
            if not (self._closed or started.cancelled() or started.exception()):
                self._idle = count
                self._hand_out()

    def _hand_out(self) -> None:
        """The widest parts that wait go to helpers that are idle; the first stays for this process if it looks for one.

        So what comes first is found first, and becomes points while helpers are at what comes later.
        """
        while self._idle and len(self._waiting) > self._looking:
            part = max(self._waiting[1:] or self._waiting, key=lambda waiting: waiting.width)
            try:
                future = self._executor.submit(_searched, self._program, part, moment(self._deadline))
            except Exception:  # shut down or broken, whatever the executor calls it
                self._idle = 0
                return
            self._waiting.remove(part)
            self._idle -= 1
            self._out[part] = future
            future.add_done_callback(partial(self._take_back, part))

    def _take_back(self, part: Part, future: Future[tuple[Part, float]]) -> None:
        """A part that a helper is done with, or failed to do."""
        with self._changed:
            del self._out[part]
            if self._closed:
                return
            if future.cancelled() or future.exception() is not None:
                self.offer([part])
            else:
                done, seconds = future.result()
                part.search, part.found, part.parts, part.failed = done.search, done.found, done.parts, done.failed
                self._statistics.listing_seconds += seconds
                self._idle += 1
                self.offer(part.parts)
            self._changed.notify_all()


def _searched(program: WholeProgram, part: Part, until: float) -> tuple[Part, float]:
    """A part, searched, and the seconds that this took."""
    began = time.perf_counter()
    for _ in part.work(program, clock(until)):
        pass
    return part, time.perf_counter() - began
