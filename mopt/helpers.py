"""Other processes that help this one with a front: started once, they stay for a while, so the next front has them."""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from importlib import import_module
from typing import Any

from mopt.session import check_time

# Seconds after which helpers that have nothing to do end.
_IDLE = 60


def helpers(workers: int | Any, module: str) -> tuple[Executor, Future[Any]] | None:
    """The processes that make it so many with this one, being started if they aren't yet; and what tells of the first.

    That future is done once a helper has imported the module it is to work with, or failed to: what is given to them
    before has to wait.

    None if there are to be none, or can be none: in a daemonic process, or where the system gives no semaphores. They
    don't need a main module that can be imported.
    """
    if not isinstance(workers, int) or workers == 1 or multiprocessing.current_process().daemon:
        return None
    from loky import get_reusable_executor

    try:
        with warnings.catch_warnings():
            # That it waits until all have imported what they need, if their number changes before: it may.
            warnings.filterwarnings("ignore", "Trying to resize", UserWarning)
            executor: Executor = get_reusable_executor(max_workers=workers - 1, timeout=_IDLE)
        return executor, executor.submit(_import, module)
    except (OSError, ImportError, RuntimeError):
        return None


def _import(module: str) -> None:
    """Have a helper import what it needs."""
    import_module(module)


def dismiss(executor: Any, futures: Iterable[Future[Any]]) -> None:
    """Stop what helpers are still at."""
    if not all(future.cancel() or future.done() for future in futures):
        executor.shutdown(wait=False, kill_workers=True)


def moment(deadline: float) -> float:
    """A deadline, as `time.perf_counter` tells it here, by the clock that processes share."""
    return time.time() + (deadline - time.perf_counter())


def clock(moment: float) -> Callable[[], None]:
    """What raises StoppedError after a moment by that clock."""
    left = moment - time.time() if math.isfinite(moment) else math.inf
    return partial(check_time, time.perf_counter() + left)
