"""Many problems at once: prices, deadlines, models, regions, on one core, all cores or a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mopt.epsilon import check_options, solve_epsilon_front
from mopt.errors import Fault, InputError, MoptError
from mopt.front import ParetoFront
from mopt.methods import Choice
from mopt.problem import Problem

Outcome = tuple[ParetoFront | None, MoptError | None]


@dataclass(frozen=True)
class Solved:
    """What came of one problem.

    Attributes
    ----------
    index : int
        Its place among the problems, from 0.
    problem : Problem
        The very object that was given.
    front : ParetoFront or None
        None where there is an error.
    error : MoptError or None
        Why there is no front: `InfeasibleError` where there is no plan.
    """

    index: int
    problem: Problem
    front: ParetoFront | None
    error: MoptError | None = None


def solve_fronts(
    problems: Iterable[Problem],
    executor: Executor | None = None,
    *,
    in_flight: int = 64,
    resolution: float | tuple[float, float] | None = None,
    time_limit: float | None = None,
    max_points: int | None = None,
    workers: int = 1,
    solver_options: Mapping[str, float | int | str | bool] | None = None,
    method: Choice = "auto",
) -> Iterator[Solved]:
    """The fronts of many problems, each as soon as it is there.

    Parameters
    ----------
    problems : iterable of Problem
        Taken one by one as they are needed, so it may be a generator.
    executor : concurrent.futures.Executor, optional
        Where the problems are solved: a `ProcessPoolExecutor` for the cores of this machine, `client.get_executor()`
        of a Dask `Client` for a cluster. It stays the caller's to shut down. Default: in this process, one after the
        other and in order.
    in_flight : int
        Problems that the executor holds at a time, at most; should be some times its workers.
    resolution, time_limit, max_points, workers, solver_options, method
        As in `solve_epsilon_front`, for each problem.

    Yields
    ------
    Solved
        In the order in which they finish.

    Raises
    ------
    InputError
        If an option can't be used. Errors of a problem don't end the others: they are yielded.
    concurrent.futures.BrokenExecutor
        While iterating, if the executor lost a worker for good: a `ProcessPoolExecutor` does with the first process
        that dies. Dask gives the work of a lost worker to another one.

    Notes
    -----
    Threads (a `ThreadPoolExecutor`, a Dask worker with several) share one interpreter: processes scale better.
    Leaving the iteration early cancels what has not begun. Give a `ProcessPoolExecutor` the context
    `multiprocessing.get_context("spawn")`: forking a process that has threads isn't safe.
    """
    check_options(resolution, time_limit, max_points, workers, solver_options, method)
    if in_flight < 1:
        raise InputError([Fault("", "solve_fronts", "in_flight", in_flight, "must be at least 1")])
    options: dict[str, Any] = {
        "resolution": resolution,
        "time_limit": time_limit,
        "max_points": max_points,
        "workers": workers,
        "solver_options": solver_options,
        "method": method,
    }
    numbered = enumerate(problems)
    if executor is None:
        return (_solved(index, problem, _solve(problem, options)) for index, problem in numbered)
    return _spread(numbered, executor, in_flight, options)


def _spread(
    numbered: Iterator[tuple[int, Problem]], executor: Executor, in_flight: int, options: dict[str, Any]
) -> Iterator[Solved]:
    pending: dict[Future[Outcome], tuple[int, Problem]] = {}
    try:
        while True:
            for index, problem in islice(numbered, in_flight - len(pending)):
                pending[executor.submit(_solve, problem, options)] = index, problem
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield _solved(*pending.pop(future), future.result())
    finally:
        for future in pending:
            future.cancel()


def _solve(problem: Problem, options: dict[str, Any]) -> Outcome:
    try:
        return solve_epsilon_front(problem, **options), None
    except MoptError as error:
        return None, error


def _solved(index: int, problem: Problem, outcome: Outcome) -> Solved:
    front, error = outcome
    if front is not None:
        object.__setattr__(front, "_source", (problem, None))  # which doesn't travel back
    return Solved(index, problem, front, error)
