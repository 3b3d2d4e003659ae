"""Many problems: every one answered once, as it would be alone; small pickles; errors that travel."""

import copy
import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

import mopt
from mopt.record import pack, unpack
from mopt.scenarios import solve_fronts

WORKLOAD = mopt.Workload("net", "fp32", [mopt.Layer("all", flops=1e9, bytes_per_sample=1e6)], memory_per_sample=1e6)


def problem(samples=700, **given):
    resources = [
        mopt.Resource("small", 1e12, 1e12, 1e9, 1.0, max_units=6),
        mopt.Resource("large", {"fp32": 5e12}, 4e12, 4e9, 2.0, max_units=6),
        mopt.Resource("spare", {"fp32": 2e12}, 4e12, 4e9, 2.5, max_units=6),
    ]
    return mopt.Problem(resources, WORKLOAD, samples=samples, time_limit=0.3, **given)


def impossible():
    return problem(samples=10**6)


class Recorder(Executor):
    """Runs a task when the next one asks for it, and counts those that wait."""

    def __init__(self):
        self.submitted = 0

    def submit(self, fn, /, *args, **kwargs):
        self.submitted += 1
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_each_problem_gets_the_front_it_has_alone():
    problems = [problem(), problem(samples=1000)]
    solved = list(solve_fronts(problems))
    assert [s.index for s in solved] == [0, 1]
    for given, one in zip(problems, solved, strict=True):
        assert one.problem is given
        assert one.error is None
        assert one.front.points == mopt.solve_epsilon_front(given).points


def test_processes_give_the_same_fronts_and_errors_travel():
    problems = [problem(), impossible(), problem(samples=1000)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        spread = sorted(solve_fronts(problems, pool), key=lambda s: s.index)
    here = list(solve_fronts(problems))
    assert [s.index for s in spread] == [0, 1, 2]
    assert spread[0].front.points == here[0].front.points
    assert spread[2].front.points == here[2].front.points
    assert spread[1].front is None
    assert isinstance(spread[1].error, mopt.InfeasibleError)
    assert (str(spread[1].error), spread[1].error.limit) == (str(here[1].error), here[1].error.limit)
    assert spread[1].problem is problems[1]
    assert spread[0].front.verify().ok


def test_threads_give_the_same_fronts():
    problems = [problem(samples=700 + 10 * k) for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        spread = {s.index: s.front.points for s in solve_fronts(problems, pool)}
    assert spread == {s.index: s.front.points for s in solve_fronts(problems)}


def test_problems_are_taken_as_they_are_needed():
    taken = []

    def scenarios():
        for k in range(10):
            taken.append(k)
            yield problem(samples=700 + k)

    results = solve_fronts(scenarios(), executor := Recorder(), in_flight=3)
    assert taken == []
    next(results)
    assert taken == [0, 1, 2]
    assert len(list(results)) == 9
    assert executor.submitted == 10


def test_options_are_checked_before_anything_is_solved():
    with pytest.raises(mopt.InputError, match="resolution"):
        solve_fronts([problem()], resolution=-1.0)
    with pytest.raises(mopt.InputError, match="in_flight"):
        solve_fronts([problem()], in_flight=0)


def test_options_reach_the_fronts():
    (one,) = solve_fronts([problem()], max_points=1)
    assert not one.front.complete
    assert len(one.front) == 1


def test_the_whole_catalog_travels_in_200_kB():
    catalog = mopt.load_catalog(spot=True)
    whole = mopt.Problem(catalog, mopt.load_workload("resnet50-train"), samples=2048, time_limit=1.0)
    assert whole.services  # what was computed stays here
    assert len(pickle.dumps(catalog)) <= 200_000
    assert len(pickle.dumps(whole)) <= 200_000


def test_a_front_of_the_whole_catalog_travels_in_200_kB():
    workload = mopt.load_workload("llama3-8b-decode")
    front = mopt.solve_epsilon_front(mopt.Problem(mopt.load_catalog(), workload, samples=20_000, time_limit=1.0))
    assert len(front) > 400
    travelled = pickle.dumps(front)
    assert len(travelled) <= 200_000
    assert pickle.loads(travelled) == front


def test_a_problem_comes_back_as_it_was():
    given = problem(min_units={"small": 1})
    for again in (pickle.loads(pickle.dumps(given)), copy.deepcopy(given), copy.copy(given)):
        assert again == given
        assert again.unit_limits == given.unit_limits


def test_packed_records_keep_the_types_and_signs_of_their_values():
    records = [mopt.Resource(f"r{k}", peak, 1.0, 1.0, 1.0, launch_floor=floor)
               for k, (peak, floor) in enumerate([(1.0, 0.0), ({"fp32": 1.0}, -0.0)] * 200)]
    mixed = [*records, WORKLOAD, records[0]]
    again = unpack(pickle.loads(pickle.dumps(pack(mixed))))
    assert list(map(repr, again)) == list(map(repr, mixed))
    assert unpack(pack([])) == ()
