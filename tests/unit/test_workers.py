"""Several threads or processes find the front that one finds, to the last bit."""

import dataclasses
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import pyomo.environ as pyo
import pytest
from limits import MANY, limit

import mopt
from mopt import epsilon, helpers, sifting, team


def covering(decimals: int) -> pyo.ConcreteModel:
    """A covering problem; with many decimals its values lie on no lattice coarse enough."""
    m = pyo.ConcreteModel()
    kinds = [(3, 17, 5), (5, 13, 7), (8, 11, 10), (13, 7, 14), (21, 5, 20), (34, 3, 28)]
    m.n = pyo.Var(range(len(kinds)), domain=pyo.NonNegativeIntegers, bounds=(0, 9))
    tail = 10.0 ** -decimals
    m.f1 = pyo.Objective(expr=sum((a + k * tail) * m.n[k] for k, (a, _, _) in enumerate(kinds)))
    m.f2 = pyo.Objective(expr=sum((b + k * k * tail) * m.n[k] for k, (_, b, _) in enumerate(kinds)))
    m.enough = pyo.Constraint(expr=sum(c * m.n[k] for k, (_, _, c) in enumerate(kinds)) >= 97)
    return m


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("decimals", [1, 9])
def test_the_front_is_the_same_whatever_the_workers(decimals: int) -> None:
    m = covering(decimals)
    one = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))
    assert len(one) > 10
    with ThreadPoolExecutor(2) as pool:
        for workers in (2, 5, pool):
            several = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=workers)
            assert several.points == one.points
            assert several.complete


def test_a_point_limit_stops_all_workers() -> None:
    m = covering(1)
    whole = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))
    part = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=2, max_points=4)
    assert not part.complete
    assert part.points == whole.points[:4]


@pytest.mark.parametrize("workers", [0, -1, "two", None])
def test_workers_that_make_no_sense_are_refused(workers: object) -> None:
    m = covering(1)
    with pytest.raises(mopt.InputError, match="workers"):
        mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=workers)


@pytest.mark.parametrize("options", [-1, "x", [1, 2], object(), {1: 2}, {"threads": [1]}, {"mip_rel_gap": object()}])
def test_solver_options_of_other_types_are_refused(options: object) -> None:
    m = covering(1)
    with pytest.raises(mopt.InputError, match="solver_options"):
        mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), solver_options=options)


def test_solver_options_are_checked_by_name_and_value() -> None:
    m = covering(1)
    with pytest.raises(mopt.InputError, match=r"solver_options\[no_such\]"):
        mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), solver_options={"no_such": 1})


# -- Helpers: other processes --------------------------------------------------------------------------------------------


def knapsack(size: int = 25, seed: int = 3) -> pyo.ConcreteModel:
    """Large enough to be split in parts."""
    rng = random.Random(seed)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(size), domain=pyo.Binary)
    first, second, weights = ([rng.randint(10, 99) for _ in range(size)] for _ in range(3))
    m.f1 = pyo.Objective(expr=pyo.quicksum(first[k] * m.x[k] for k in range(size)), sense=pyo.maximize)
    m.f2 = pyo.Objective(expr=pyo.quicksum(second[k] * m.x[k] for k in range(size)), sense=pyo.maximize)
    m.room = pyo.Constraint(expr=pyo.quicksum(weights[k] * m.x[k] for k in range(size)) <= sum(weights) / 2)
    return m


def front_of(m: pyo.ConcreteModel, workers: int = 1, **options: object) -> mopt.ParetoFront:
    return mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=workers, **options)


class Counting(ThreadPoolExecutor):
    """Helpers in this process, where limits of listing can be set low; some are lost or come to nothing."""

    def __init__(self, fails: Callable[[int], bool] = lambda k: False, refuses: Callable[[int], bool] = lambda k: False):
        super().__init__(2)
        self.asked, self.fails, self.refuses = 0, fails, refuses

    def submit(self, function: Callable[..., object], *arguments: object) -> Future[object]:
        self.asked += 1
        if self.refuses(self.asked):
            raise BrokenExecutor("lost")
        if self.fails(self.asked):
            return super().submit(lambda: 1 // 0)
        # As if it had travelled.
        return super().submit(lambda: pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(arguments))))))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False, kill_workers: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 20)


def started(executor: Executor) -> tuple[Executor, Future[None]]:
    """Helpers that are there at once."""
    future: Future[None] = Future()
    future.set_result(None)
    return executor, future


def helped_by(monkeypatch: pytest.MonkeyPatch, executor: Executor) -> None:
    monkeypatch.setattr(team, "helpers", lambda workers, _: started(executor) if workers > 1 else None)
    monkeypatch.setattr(epsilon, "helpers", lambda workers, _: None)


@pytest.mark.parametrize(("size", "beam", "widest", "method"), [(25, 20, MANY, "costs"), (40, 1, 1, "sweep")])
@pytest.mark.parametrize("seed", [0, 2, 3, 5, 6, 7])
def test_helpers_find_what_one_process_finds(
    monkeypatch: pytest.MonkeyPatch, size: int, beam: int, widest: int, method: str, seed: int
) -> None:
    m = knapsack(size, seed)
    limit(monkeypatch, beam, widest)
    with Counting() as executor:
        helped_by(monkeypatch, executor)
        one, several = front_of(m), front_of(m, 3)
        assert executor.asked > 1, "the front was split"
    assert several.complete
    assert one.certificate.method.endswith(method)
    assert several.certificate.method == one.certificate.method
    assert several.points == one.points
    solved = front_of(m, method="solver")
    assert one.values.tolist() == solved.values.tolist()


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("fails", "refuses"),
    [(lambda k: k == 1, bool), (lambda k: k % 3 == 2, lambda k: False), (lambda k: False, lambda k: k > 3)],
)
def test_what_helpers_fail_to_do_is_done_here(
    monkeypatch: pytest.MonkeyPatch, seed: int, fails: Callable[[int], bool], refuses: Callable[[int], bool]
) -> None:
    m = knapsack(seed=seed)
    with Counting(fails, refuses) as executor:
        helped_by(monkeypatch, executor)
        assert front_of(m, 3).points == front_of(m).points


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("limit", [1, 4, 9])
def test_a_point_limit_stops_helpers(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    m = knapsack()
    with Counting() as executor:
        helped_by(monkeypatch, executor)
        part = front_of(m, 3, max_points=limit)
    whole = front_of(m)
    assert part.points == whole.points[:limit]
    assert not part.complete
    assert mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), start=part).values.tolist() == whole.values.tolist()


def elapsed_problem() -> mopt.Problem:
    catalog = mopt.load_catalog().where(provider="AWS", region="us-east-1")
    offers = [dataclasses.replace(offer, max_units=6) for offer in catalog]
    return mopt.Problem(
        offers, mopt.load_workload("resnet50-train"), samples=2048, time_limit=4.0, billing="elapsed", max_types=3,
        max_launches=2,
    )


@pytest.mark.parametrize(
    ("fails", "refuses"),
    [(lambda k: False, lambda k: False), (lambda k: k == 2, lambda k: False), (lambda k: False, lambda k: k > 2)],
)
def test_choices_of_units_looked_at_by_helpers(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], bool], refuses: Callable[[int], bool]
) -> None:
    monkeypatch.setattr(sifting, "_MANY", 1_000)
    problem = elapsed_problem()
    one = mopt.solve_epsilon_front(problem)
    with Counting(fails, refuses) as executor:
        monkeypatch.setattr(sifting, "helpers", lambda workers, _: started(executor) if workers > 1 else None)
        monkeypatch.setattr(epsilon, "helpers", lambda workers, _: None)
        several = mopt.solve_epsilon_front(problem, workers=2)
        assert executor.asked > 2
    assert len(one) > 10
    assert several.points == one.points


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("points", [0, 3, None])
def test_helpers_get_nothing_until_one_has_started(monkeypatch: pytest.MonkeyPatch, points: int | None) -> None:
    m = knapsack()
    future: Future[None] = Future()
    asked = []

    def start(point: mopt.Point) -> None:
        asked.append(executor.asked)
        if len(asked) == points:
            future.set_result(None)

    with Counting() as executor:
        helped_by(monkeypatch, executor)
        monkeypatch.setattr(team, "helpers", lambda workers, _: (executor, future))
        if points == 0:
            future.set_exception(BrokenExecutor("it can't start"))
        several = front_of(m, 3, callback=start)
        assert (executor.asked > 0) == (points == 3)
        assert asked[0] == 0
    assert several.points == front_of(m).points


def ready() -> Executor:
    """A helper that has started."""
    found = helpers.helpers(2, "mopt.team")
    assert found is not None
    found[1].result()
    return found[0]


def test_processes_find_what_one_finds_though_one_is_killed() -> None:
    m = knapsack(80)
    one = front_of(m)
    seen: list[mopt.Point] = []

    def kill(point: mopt.Point) -> None:
        seen.append(point)
        if len(seen) == 2:
            os.kill(ready().submit(os.getpid).result(), signal.SIGTERM)

    ready()
    assert front_of(m, 2, callback=kill).points == one.points
    assert len(seen) == len(one)
    assert front_of(m, 2).points == one.points


def test_no_helpers_for_one_worker_or_a_pool_of_the_users() -> None:
    assert helpers.helpers(1, "mopt.team") is None
    with ThreadPoolExecutor(1) as pool:
        assert helpers.helpers(pool, "mopt.team") is None


def test_where_no_process_can_start_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError("no semaphores")

    monkeypatch.setattr("loky.get_reusable_executor", refuse)
    m = knapsack()
    assert helpers.helpers(2, "mopt.team") is None
    assert front_of(m, 2).points == front_of(m).points


def test_a_script_without_a_main_guard_may_use_workers(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import mopt\n"
        "problem = mopt.Problem(mopt.load_catalog().where(provider='AWS', region='us-east-1'),\n"
        "                       mopt.load_workload('resnet50-train'), samples=2048, time_limit=1.0)\n"
        "print(len(mopt.solve_epsilon_front(problem, workers=2)), 'points')\n"
    )
    ran = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("points") == 1
    assert not ran.stderr
