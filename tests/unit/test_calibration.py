"""Lookups: which entry serves a resource, by what rule, and what problems and plans say of it."""

import pickle
from dataclasses import replace

import pytest

import mopt
from mopt import Catalog, InputError, Layer, Problem, Resource, Workload, launch_time
from mopt.calibration import Calibration, Entry, flops_per_watt, products
from mopt.offers import Rejected


def part(name, **values):
    """A resource with one T4, V100, ... of 1e12 FLOP/s."""
    figures = {"peak_flops": 1e12, "memory_bandwidth": 1e11, "memory": 1e10, "price_per_hour": 1.0} | values
    return Resource(name, accelerator=name, **figures)


def entry(compute, bandwidth=0.8, **values):
    return Entry("cnn", "inference", "fp16", compute, bandwidth, **values)


NET = Workload("net", "fp16", (Layer("conv", 1e9, 1e6, 1e6), Layer("fc", 1e8, 1e7, 1e4)), 1e9, 1e6, family="cnn")
CALIBRATION = Calibration(
    (
        entry(0.5, launch_overhead=1e-3, launch_floor=2e-3, products=2),
        entry(0.3, resource="T4", launch_overhead=2e-3, launch_floor=4e-3, products=2),
        entry(0.7, resource="V100"),
        entry(0.6, resource="V100-32GB"),
        entry(0.2, resource="T4", framework="JAX"),
    )
)


def shares(calibration, resource, workload=NET):
    made, mark = calibration.resource_for(resource, workload)
    return round(made.compute_efficiency, 6), mark


# -- Rules -----------------------------------------------------------------------------------------------------------


def test_what_was_measured_goes_first_then_the_chip_then_the_family():
    assert shares(CALIBRATION, part("T4")) == (0.3, "calibrated")
    assert shares(CALIBRATION, part("V100-PCIe")) == (round((0.7 * 0.6) ** 0.5, 6), "family default")
    assert shares(CALIBRATION, part("unheard of")) == (0.5, "family default")


def test_only_the_workloads_own_kind_counts():
    assert shares(CALIBRATION, part("T4"), replace(NET, precision="bf16")) == (0.3, "calibrated")
    assert shares(CALIBRATION, part("T4"), replace(NET, precision="int8")) == (0.5, "family default")
    assert shares(CALIBRATION, part("T4"), replace(NET, mode="training")) == (1.0, "ideal")
    assert shares(CALIBRATION, part("T4"), replace(NET, family="encoder")) == (1.0, "ideal")
    assert shares(CALIBRATION, part("T4"), replace(NET, family="")) == (1.0, "ideal")


def test_a_workload_without_a_family_is_its_own():
    own = Calibration((Entry("net", "inference", "fp16", 0.4, 0.9),))
    assert shares(own, part("T4"), replace(NET, family="")) == (0.4, "family default")
    assert shares(own, part("T4"), replace(NET, family="", name="another")) == (1.0, "ideal")


def test_resources_keep_efficiencies_of_their_own():
    for own in ({"compute_efficiency": 0.9}, {"launch_floor": 1e-3}, {"launch_overhead": 1e-3}):
        resource = part("T4", **own)
        assert CALIBRATION.resource_for(resource, NET) == (resource, "given")


def test_a_framework_chosen_goes_first_where_it_was_measured():
    jax = CALIBRATION.using("JAX")
    assert shares(jax, part("T4")) == (0.2, "calibrated")
    assert shares(jax, part("V100")) == (0.7, "calibrated")
    with pytest.raises(InputError, match=r"framework = 'MXNet': must be one of JAX"):
        CALIBRATION.using("MXNet")


def test_defaults_follow_compute_per_watt():
    # T4: 70 W, 40 of them beyond the board's 30; A100: 400 W.
    t4, a100 = (part(name, peak_flops=1e14) for name in ("T4", "A100"))
    assert flops_per_watt(t4, "fp16") == pytest.approx(1e14 / 40)
    assert flops_per_watt(a100, "fp16") == pytest.approx(1e14 / 370)
    assert flops_per_watt(replace(a100, accelerator_count=8), "fp16") == pytest.approx(1e14 / 8 / 370)
    assert flops_per_watt(part("unheard of"), "fp16") is None
    default = Calibration((entry(0.4, flops_per_watt=1e14 / 370, power_exponent=0.5),))
    assert shares(default, a100) == (0.4, "family default")
    assert shares(default, t4) == (round(0.4 * (40 / 370) ** 0.5, 6), "family default")
    assert shares(default, part("unheard of"))[0] == 0.4
    assert shares(default, part("A100", peak_flops=1e12))[0] == 1.0  # no share is above 1


def test_the_hosts_time_grows_with_the_products():
    deep = replace(NET, layers=(Layer("conv x6", 1e9), Layer("norm x6", 0.0, 0.0, 1e6), Layer("fc x2 (3)", 1e8)))
    one = replace(NET, layers=(Layer("all", 1e9, 1e6, 1e6),))
    assert [products(workload) for workload in (NET, deep, one)] == [2, 8, 1]
    for workload, overhead in ((NET, 2e-3), (deep, 8e-3), (one, 2e-3)):
        made = CALIBRATION.resource_for(part("T4"), workload).resource
        assert made.launch_overhead == pytest.approx(overhead)
        assert made.launch_floor == pytest.approx(2 * overhead)


def test_launch_time_adds_the_overhead_under_the_floor():
    layer = Workload("one", "fp16", (Layer("fc", 1e9, 1e7, 1e6),))
    made = launch_time(part("T4", launch_overhead=0.5, launch_floor=0.6), layer)
    for batch in (1, 10, 100, 1000):
        assert made.at(batch) == pytest.approx(max(0.6, 0.5 + max(1e-3 * batch, 1e-4 + 1e-5 * batch)))


# -- Applying --------------------------------------------------------------------------------------------------------


def test_catalogs_become_catalogs_with_what_was_kept_out():
    catalog = Catalog([part("T4"), part("V100")], [Rejected("x", "X", "", "x", False, "no peak")])
    made = CALIBRATION.apply(catalog)
    assert isinstance(made, Catalog)
    assert [resource.compute_efficiency for resource in made] == [0.3, 0.7]
    assert made.rejected == catalog.rejected
    assert CALIBRATION.apply([catalog["T4"]]) == [made["T4"]]
    assert CALIBRATION.apply(catalog["T4"], NET) == made["T4"]


def test_a_workload_is_needed_where_there_are_several_kinds():
    two = Calibration((*CALIBRATION.entries, Entry("cnn", "training", "fp16", 0.5, 0.5)))
    with pytest.raises(InputError, match="needed to choose among cnn inference fp16; cnn training fp16"):
        two.apply(part("T4"))
    assert two.apply(part("T4"), NET).compute_efficiency == 0.3


# -- Problems --------------------------------------------------------------------------------------------------------


@pytest.fixture
def problem():
    resources = [part("T4"), part("A10"), part("mine", compute_efficiency=0.9)]
    return Problem(resources, NET, samples=100, time_limit=1.0, calibration=CALIBRATION)


def test_problems_use_calibrated_times_and_true_peaks(problem):
    marks = {name: calibrated.mark for (name, _), calibrated in problem.calibrated.items()}
    assert marks == {"T4": "calibrated", "A10": "family default", "mine": "given"}
    ideal = replace(problem, calibration=None)
    assert problem.by_name == ideal.by_name
    slow, fast = (p.services["T4", "net"].tau.at(100) for p in (problem, ideal))
    # 100 samples are compute-bound in conv: 0.1 s, and 0.01 s in fc, at 0.3 of the peak.
    assert fast == pytest.approx(0.11)
    assert slow == pytest.approx(0.11 / 0.3 + 2e-3)
    only = replace(problem, resources=problem.resources[:1])
    point = mopt.solve_epsilon_front(only)[0]
    assert point.units == {"T4": 1}
    assert point.objectives[1] == pytest.approx(1.1e9 * 100 / 1e12)


def test_problems_and_plans_say_where_times_come_from(problem):
    text = "\n".join(problem.assumptions)
    assert "times of 1 resources are calibrated" in text
    assert "times of 1 resources are defaults of the workload's family" in text
    assert "ideal" not in text
    for resource, note in (("T4", "calibrated"), ("A10", "family default"), ("mine", "given")):
        only = replace(problem, resources=[problem.by_name[resource]])
        for billing in ("reserved", "per_use", "elapsed"):
            plan = mopt.solve_epsilon_front(replace(only, billing=billing))[0].plan
            assert plan.notes[0] == f"{note} times: {resource}"
    bare = mopt.solve_epsilon_front(replace(problem, resources=[part("T4")], calibration=None))
    assert bare[0].plan.notes == ("ideal times: T4",)


def test_problems_travel_and_can_be_changed(problem):
    assert problem.services  # computed again on the other side
    back = pickle.loads(pickle.dumps(problem))
    assert back == problem
    assert back.calibrated == problem.calibrated
    assert replace(back, samples=7).calibration == CALIBRATION
    assert pickle.loads(pickle.dumps(CALIBRATION)) == CALIBRATION


def test_the_shipped_calibration_is_auto(problem):
    automatic = replace(problem, calibration="auto")
    assert automatic.calibrated["T4", "net"].mark == "calibrated"
    assert automatic.services["T4", "net"].tau.at(10) > replace(problem, calibration=None).services["T4", "net"].tau.at(10)
    with pytest.raises(InputError, match="calibration"):
        replace(problem, calibration="best")
