"""The formulation (step S4): a Problem as a Pyomo model. The only place where Pyomo models are made.

Names and units of the public components are those of the mathematics: `units[i]`, `dedicated[i,r]`, `launches[i,r]`,
`samples[i,r]`, `busy[i,r]` and `billed[i]` (unit·s), `cost` ($ per period), `utilization` (a `Ratio`). What the solver
works on is scaled: samples as shares of the demand, times as shares of the period; those variables are private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from mopt.collector import collector_paused
from mopt.problem import Problem
from mopt.ratio import Ratio
from mopt.roofline import PiecewiseLinear
from mopt.shortfall import check_servable

Pair = tuple[str, str]


def build_model(problem: Problem) -> pyo.ConcreteModel:
    """The problem as a mixed-integer linear model.

    Constraint families, one `add_...` function each: demand, capacity, billing (reserved, per_use, elapsed), limits.
    A user may add constraints over the public names; `solve_epsilon_front(model)` honours them. Under elapsed billing no
    pair runs more launches than its samples need, so constraints can't ask for more.

    Raises
    ------
    InfeasibleError
        If some demand can be served by no resource, or by too few units; the message says which limit is at fault.
    """
    check_servable(problem)
    return formulated(problem)


@collector_paused()
def formulated(problem: Problem) -> pyo.ConcreteModel:
    """`build_model` without a look at whether there is a plan."""
    m = _with_units(problem)
    add_samples(m, problem)
    add_demand(m)
    if problem.billing != "elapsed":  # whose samples are room less what is left of it
        add_capacity(m, problem)
    _BILLING[problem.billing](m, problem)
    add_limits(m, problem)
    add_objectives(m, problem)
    return m


def build_covering(problem: Problem, most: Mapping[Pair, int] | None = None) -> pyo.ConcreteModel:
    """`reserved` without samples and launches: Σ_i W_ir·n_ir ≥ B_r, which W makes exact.

    Same front as `build_model`; samples and launches follow from the units. `most` bounds the units of pairs further.
    """
    m = _with_units(problem)

    def rule(m: pyo.ConcreteModel, r: str) -> object:
        demand = problem.demand_by_name[r].samples
        return (
            sum(min(problem.services[i, q].capacity, demand) * m.dedicated[i, q] for i, q in m.PAIRS if q == r)
            >= demand
        )

    m.cover = pyo.Constraint(m.DEMANDS, rule=rule)
    for pair, units in (most or {}).items():
        m.dedicated[pair].setub(units)
    m.billed = pyo.Expression(m.RESOURCES, rule=lambda m, i: problem.paid(problem.time_limit) * m.units[i])
    add_limits(m, problem)
    add_objectives(m, problem)
    return m


def _with_units(problem: Problem) -> pyo.ConcreteModel:
    """Sets, and n_ir ∈ {0..N_i} with n_i = Σ_r n_ir ≤ N_i."""
    m = pyo.ConcreteModel()
    m._mopt_problem = problem
    limits = problem.unit_limits
    m.RESOURCES = pyo.Set(initialize=list(limits))
    m.DEMANDS = pyo.Set(initialize=list(problem.demand_by_name))
    m.PAIRS = pyo.Set(dimen=2, initialize=list(problem.services))
    m.dedicated = pyo.Var(m.PAIRS, domain=pyo.NonNegativeIntegers, bounds=lambda m, i, r: (0, limits[i]))
    serves = problem.serves
    m.units = pyo.Expression(m.RESOURCES, rule=lambda m, i: sum(m.dedicated[i, r] for r in serves[i]))
    shared = [i for i, demands in serves.items() if len(demands) > 1]
    m.unit_limit = pyo.Constraint(shared, rule=lambda m, i: m.units[i] <= limits[i])
    return m


def add_samples(m: pyo.ConcreteModel, problem: Problem) -> None:
    """b_ir = B_r·x_ir with a share x_ir ∈ [0, 1]; elapsed billing defines the shares by its own launches."""
    if problem.billing != "elapsed":
        m._share = pyo.Var(m.PAIRS, bounds=(0, 1))
    else:
        add_elapsed_choice(m, problem)
    m.samples = pyo.Expression(m.PAIRS, rule=lambda m, i, r: problem.demand_by_name[r].samples * m._share[i, r])


def add_demand(m: pyo.ConcreteModel) -> None:
    """Σ_i b_ir = B_r for all r."""
    serving: dict[str, list[str]] = {}
    for i, r in m.PAIRS:
        serving.setdefault(r, []).append(i)
    m.demand = pyo.Constraint(m.DEMANDS, rule=lambda m, r: sum(m._share[i, r] for i in serving[r]) == 1)


def add_capacity(m: pyo.ConcreteModel, problem: Problem) -> None:
    """b_ir ≤ W_ir·n_ir for all i, r, written (B_r/W_ir)·x_ir ≤ n_ir; a unit that can do more than B_r does B_r."""

    def rule(m: pyo.ConcreteModel, i: str, r: str) -> object:
        most = problem.demand_by_name[r].samples / problem.services[i, r].capacity
        return max(most, 1.0) * m._share[i, r] <= m.dedicated[i, r]

    m.capacity = pyo.Constraint(m.PAIRS, rule=rule)


def add_launches(m: pyo.ConcreteModel, problem: Problem) -> None:
    """k_ir launches, b_ir samples and t_ir busy time of all units of a pair together.

    t_ir ≥ α_irp·k_ir + γ_irp·b_ir for all p; k_ir ≤ b_ir ≤ b̄_ir·k_ir; t_ir ≤ (T − o_i)·n_ir.

    Any (k, b) with batches between 1 and b̄ is a mixture of launches of just these two. The rows are written in the
    samples done in either kind, as shares of B_r: their coefficients are times to serve the whole demand at a batch.
    Launches of a table are mixtures of its points, k_irb at each batch b, which needn't be convex: Σ_b b·k_irb samples,
    t_ir ≥ Σ_b τ_ir(b)·k_irb; whole launches may be padded, so that they do no more samples than Σ_b b·k_irb.
    """
    corners = {pair: service.corners() for pair, service in problem.services.items()}
    pieces = [(*pair, p) for pair, found in corners.items() for p in range(len(found[0].seconds))]
    m._CORNERS = pyo.Set(dimen=3, initialize=[(*pair, c) for pair, found in corners.items() for c in range(len(found))])
    m._part = pyo.Var(m._CORNERS, bounds=(0, None))
    m._time = pyo.Var(m.PAIRS, bounds=(0, None))
    m._parts = pyo.Constraint(
        m.PAIRS, rule=lambda m, i, r: m._share[i, r] == sum(m._part[i, r, c] for c in range(len(corners[i, r])))
    )

    whole_points = [key for key in m._CORNERS if problem.whole and problem.services[key[:2]].tabulated]
    m._POINTS = pyo.Set(dimen=3, initialize=whole_points)
    m._point = pyo.Var(m._POINTS, domain=pyo.NonNegativeIntegers)

    def at_corner(m: pyo.ConcreteModel, i: str, r: str, c: int) -> Any:
        return problem.demand_by_name[r].samples * corners[i, r][c].launches * m._part[i, r, c]

    m._padded = pyo.Constraint(m._POINTS, rule=lambda m, *key: at_corner(m, *key) <= m._point[key])

    def launched(m: pyo.ConcreteModel, i: str, r: str) -> object:
        counts = range(len(corners[i, r]))
        return sum(m._point[i, r, c] if (i, r, c) in m._POINTS else at_corner(m, i, r, c) for c in counts)

    if problem.whole:
        m.launches = pyo.Var(m.PAIRS, domain=pyo.NonNegativeIntegers)
        m.launch_count = pyo.Constraint(
            m.PAIRS,
            rule=lambda m, i, r: m.launches[i, r] == launched(m, i, r),
        )
        if (most := problem.launches_per_unit) is not None:
            m.launch_limit = pyo.Constraint(m.PAIRS, rule=lambda m, i, r: m.launches[i, r] <= most * m.dedicated[i, r])
    else:
        m.launches = pyo.Expression(m.PAIRS, rule=launched)

    def roof(m: pyo.ConcreteModel, i: str, r: str, p: int) -> object:
        scale, T = problem.demand_by_name[r].samples / problem.time_limit, problem.time_limit
        return m._time[i, r] >= sum(
            corner.seconds[p] / corner.launches / T * m._point[i, r, c]
            if (i, r, c) in m._POINTS
            else scale * corner.seconds[p] * m._part[i, r, c]
            for c, corner in enumerate(corners[i, r])
        )

    m.roof = pyo.Constraint(pieces, rule=roof)
    m.period = pyo.Constraint(
        m.PAIRS,
        rule=lambda m, i, r: m._time[i, r] <= problem.services[i, r].available / problem.time_limit * m.dedicated[i, r],
    )
    m.busy = pyo.Expression(m.PAIRS, rule=lambda m, i, r: problem.time_limit * m._time[i, r])


def add_reserved(m: pyo.ConcreteModel, problem: Problem) -> None:
    """u_i = T·n_i: the whole period is paid; with start-up s and minimum M: u_i = max(T + s, M)·n_i."""
    add_launches(m, problem)
    m.billed = pyo.Expression(m.RESOURCES, rule=lambda m, i: problem.paid(problem.time_limit) * m.units[i])


def add_per_use(m: pyo.ConcreteModel, problem: Problem) -> None:
    """u_i = Σ_r u_ir with u_ir = t_ir + (o_i + s)·n_ir: computing, overhead and start-up are paid.

    With a minimum M, u_ir ≥ t_ir + (o_i + s)·n_ir and u_ir ≥ M·n_ir: what is least when units share t_ir evenly.
    """
    add_launches(m, problem)
    used = pyo.Expression(
        m.PAIRS,
        rule=lambda m, i, r: m.busy[i, r] + (problem.services[i, r].overhead + problem.startup) * m.dedicated[i, r],
    )
    m._used = used
    if problem.minimum_billing:
        m._paid = pyo.Var(m.PAIRS, bounds=(0, None))
        T, least = problem.time_limit, problem.minimum_billing
        m.paid_as_used = pyo.Constraint(m.PAIRS, rule=lambda m, *pair: m._paid[pair] >= m._used[pair] / T)
        m.paid_at_least = pyo.Constraint(m.PAIRS, rule=lambda m, *pair: m._paid[pair] >= least / T * m.dedicated[pair])
        used = pyo.Expression(m.PAIRS, rule=lambda m, *pair: T * m._paid[pair])
        m._billed = used
    serves = problem.serves
    m.billed = pyo.Expression(m.RESOURCES, rule=lambda m, i: sum(used[i, r] for r in serves[i]))


def add_elapsed_choice(m: pyo.ConcreteModel, problem: Problem) -> None:
    """All units of a pair run the same c launches, z_irc ∈ {0, 1}; n_irc, n_ir or 0, run c; samples are room less σ.

    Σ_c z_irc ≤ 1; z_irc ≤ n_irc ≤ N_i·z_irc; n_ir = Σ_c n_irc; b_ir = Σ_c (B_irc·n_irc − σ_irc) with
    B_irc = min(c·b̄_ir, W_ir, B_r) and σ_irc ≥ 0 the room left, so that b_ir ≤ c·b̄_ir·n_ir and b_ir ≤ W_ir·n_ir. What
    fewer launches can do they do no slower: σ_irc ≤ (B_irc − B_irc')·n_irc, with c' the choice before c. Of a table, c
    stands for a choice of launches instead, the quickest for some total B_irc.
    """
    limits = problem.unit_limits
    choices = _choices(problem)
    m._LAUNCHES = pyo.Set(dimen=3, initialize=[(*pair, c) for pair, found in choices.items() for c in found])
    m._chosen = pyo.Var(m._LAUNCHES, domain=pyo.Binary)
    m._counted = pyo.Var(m._LAUNCHES, bounds=(0, None))
    m._room = pyo.Var(m._LAUNCHES, bounds=(0, None))
    m._any = pyo.Expression(m.PAIRS, rule=lambda m, i, r: _total([m._chosen[i, r, c] for c in choices[i, r]]))
    m.one_choice = pyo.Constraint(m.PAIRS, rule=lambda m, i, r: m._any[i, r] <= 1)
    m.count = pyo.Constraint(
        m.PAIRS, rule=lambda m, i, r: m.dedicated[i, r] == _total([m._counted[i, r, c] for c in choices[i, r]])
    )
    m._counted_if_chosen = pyo.Constraint(
        m._LAUNCHES, rule=lambda m, i, r, c: m._counted[i, r, c] <= limits[i] * m._chosen[i, r, c]
    )
    m._chosen_if_counted = pyo.Constraint(m._LAUNCHES, rule=lambda m, *key: m._chosen[key] <= m._counted[key])
    m._fits = pyo.Constraint(
        m._LAUNCHES,
        rule=lambda m, *key: m._room[key] <= (1 - _least(problem, *key) / _room(problem, *key)) * m._counted[key],
    )
    m._share = pyo.Expression(
        m.PAIRS,
        rule=lambda m, i, r: sum(
            _room(problem, i, r, c) / problem.demand_by_name[r].samples * (m._counted[i, r, c] - m._room[i, r, c])
            for c in choices[i, r]
        ),
    )


def _choices(problem: Problem) -> dict[Pair, range]:
    """The launches that units of each pair may be chosen to run, by their places from 1."""
    return {pair: range(1, len(modes) + 1) for pair, modes in problem.modes.items()}


def _room(problem: Problem, i: str, r: str, c: int) -> float:
    """The most samples that a unit can do in c launches."""
    return min(problem.modes[i, r][c - 1].most, problem.demand_by_name[r].samples)


def _least(problem: Problem, i: str, r: str, c: int) -> float:
    """The least samples worth doing in c launches: what the choice before can do."""
    return _room(problem, i, r, c - 1) if c > 1 else 0.0


def add_elapsed(m: pyo.ConcreteModel, problem: Problem) -> None:
    """u_ir = n_ir·S with S ≤ T: all units are paid until the last is done, and run the same c_ir launches each.

    n_ir·S ≥ o_i·n_ir + α_irp·c_ir·n_ir + γ_irp·b_ir for all p. The product is linear in the binary digits
    n_ir = Σ_k 2^k·y_irk: with v_ir = Σ_c z_irc ∈ {0, 1}, s_ir = S·v_ir and s_irk = s_ir·y_irk, the rows of McCormick
    (Math. Programming 10, 1976) are exact, and u_ir = Σ_k 2^k·s_irk = Σ_c u_irc. With start-up s and minimum M, S + s is
    what stands for S: s is part of each unit's overhead, and M ≤ S + s ≤ T + s.
    """
    T = problem.time_limit + problem.startup
    limits = problem.unit_limits
    m._span = pyo.Var(bounds=(problem.minimum_billing / T, 1))
    m.elapsed = pyo.Expression(expr=T * m._span - problem.startup)
    digits = {i: range(limit.bit_length()) for i, limit in limits.items()}
    powers = {i: [2**k for k in found] for i, found in digits.items()}
    m._DIGITS = pyo.Set(dimen=3, initialize=[(i, r, k) for i, r in m.PAIRS for k in digits[i]])
    m._digit = pyo.Var(m._DIGITS, domain=pyo.Binary)
    m._digits = pyo.Constraint(
        m.PAIRS, rule=lambda m, i, r: m.dedicated[i, r] == _dot(powers[i], [m._digit[i, r, k] for k in digits[i]])
    )
    m._any_paid = pyo.Var(m.PAIRS, bounds=(0, 1))
    m._any_paid_if_any = pyo.Constraint(m.PAIRS, rule=lambda m, *pair: m._any_paid[pair] <= m._any[pair])
    m._any_paid_at_most = pyo.Constraint(m.PAIRS, rule=lambda m, *pair: m._any_paid[pair] <= m._span)
    m._any_paid_at_least = pyo.Constraint(
        m.PAIRS, rule=lambda m, *pair: m._span - m._any_paid[pair] <= 1 - m._any[pair]
    )
    m._digit_paid = pyo.Var(m._DIGITS, bounds=(0, 1))
    m._digit_paid_if_digit = pyo.Constraint(m._DIGITS, rule=lambda m, *key: m._digit_paid[key] <= m._digit[key])
    m._digit_paid_at_most = pyo.Constraint(
        m._DIGITS, rule=lambda m, i, r, k: m._digit_paid[i, r, k] <= m._any_paid[i, r]
    )
    m._digit_paid_at_least = pyo.Constraint(
        m._DIGITS,
        rule=lambda m, i, r, k: m._any_paid[i, r] - m._digit_paid[i, r, k] <= m._any[i, r] - m._digit[i, r, k],
    )
    choices = _choices(problem)
    m._paid = pyo.Var(m._LAUNCHES, bounds=(0, None))
    m._all_paid = pyo.Expression(m.PAIRS, rule=lambda m, i, r: _total([m._paid[i, r, c] for c in choices[i, r]]))
    m._paid_by_digits = pyo.Constraint(
        m.PAIRS,
        rule=lambda m, i, r: m._all_paid[i, r] == _dot(powers[i], [m._digit_paid[i, r, k] for k in digits[i]]),
    )
    # These follow for whole digits; for fractions they are tighter.
    m._paid_if_counted = pyo.Constraint(m._LAUNCHES, rule=lambda m, *key: m._paid[key] <= m._counted[key])
    m._paid_at_least = pyo.Constraint(m.PAIRS, rule=lambda m, *pair: m._any_paid[pair] <= m._all_paid[pair])
    m._paid_at_most = pyo.Constraint(m.PAIRS, rule=lambda m, i, r: m._all_paid[i, r] <= limits[i] * m._any_paid[i, r])
    overhead = {pair: problem.startup + service.overhead for pair, service in problem.services.items()}
    taus = {
        (i, r, c): PiecewiseLinear(problem.modes[i, r][c - 1].pieces).restricted(
            _least(problem, i, r, c), _room(problem, i, r, c)
        )
        for i, r, c in m._LAUNCHES
    }
    pieces = [(*key, p) for key, tau in taus.items() for p in range(len(tau.pieces))]

    def rule(m: pyo.ConcreteModel, i: str, r: str, c: int, p: int) -> object:
        slope, intercept = taus[i, r, c].pieces[p]
        room = _room(problem, i, r, c)
        full = overhead[i, r] + intercept + slope * room
        return m._paid[i, r, c] >= _dot([full / T, -slope * room / T], [m._counted[i, r, c], m._room[i, r, c]])

    m.roof = pyo.Constraint(pieces, rule=rule)
    m.launches = pyo.Expression(
        m.PAIRS,
        rule=lambda m, i, r: sum(problem.modes[i, r][c - 1].launches * m._counted[i, r, c] for c in choices[i, r]),
    )
    m._billed = pyo.Expression(m.PAIRS, rule=lambda m, *pair: T * m._all_paid[pair])
    m.busy = pyo.Expression(m.PAIRS, rule=lambda m, i, r: m._billed[i, r] - overhead[i, r] * m.dedicated[i, r])
    serves = problem.serves
    m.billed = pyo.Expression(m.RESOURCES, rule=lambda m, i: sum(m._billed[i, r] for r in serves[i]))


def _dot(coefficients: Iterable[float], variables: list[Any]) -> LinearExpression:
    """Σ a·x, made at once: a sum that grows term by term takes several times as long."""
    return LinearExpression(linear_coefs=list(coefficients), linear_vars=variables)


def _total(variables: list[Any]) -> LinearExpression:
    return _dot([1] * len(variables), variables)


_BILLING: dict[str, Callable[[pyo.ConcreteModel, Problem], None]] = {
    "reserved": add_reserved,
    "per_use": add_per_use,
    "elapsed": add_elapsed,
}


def add_limits(m: pyo.ConcreteModel, problem: Problem) -> None:
    """Σ_i C_i·u_i ≤ budget; at most K types (n_i ≤ N_i·z_i, Σ z_i ≤ K); quotas Σ_{i in group} n_i ≤ q; n_i ≥ min_i."""
    m.quota = pyo.ConstraintList()
    for quota in problem.quotas:
        covered = [i for i in m.RESOURCES if quota.covers(problem.by_name[i])]
        if covered:
            m.quota.add(sum(m.units[i] for i in covered) <= quota.max_units)
    least = {i: count for i, count in problem.min_units.items() if count > 0}
    m.min_units = pyo.Constraint(list(least), rule=lambda m, i: m.units[i] >= least[i])
    limits = problem.unit_limits
    if problem.max_types is not None and problem.max_types < len(limits):
        m.used = pyo.Var(m.RESOURCES, domain=pyo.Binary)
        m.used_if_rented = pyo.Constraint(m.RESOURCES, rule=lambda m, i: m.units[i] <= limits[i] * m.used[i])
        m.max_types = pyo.Constraint(expr=pyo.summation(m.used) <= problem.max_types)
    m.cost = pyo.Expression(expr=sum(problem.by_name[i].price_per_hour / 3600 * m.billed[i] for i in m.RESOURCES))
    if problem.budget is not None:
        m.budget = pyo.Constraint(expr=m.cost / problem.budget <= 1)


def add_objectives(m: pyo.ConcreteModel, problem: Problem) -> None:
    """Utilization, a ratio of what is used to what is rented (cost is there already).

    compute:    Σ_r F_r(B_r) / Σ_i π_i·u_i
    bandwidth:  Σ_ir b_ir·Q_ir(b̄_ir)/b̄_ir / Σ_i β_i·u_i
    memory:     Σ_ir b_ir·footprint_ir(b̄_ir)·τ_ir(b̄_ir)/b̄_ir / Σ_i M_i·u_i

    The coefficients are fixed at the largest batch b̄, so that waste never counts as use. Numerator and denominator are
    in units of the largest there is to use.
    """
    demands = problem.demand_by_name
    if problem.utilization == "compute":
        scale = sum(d.workload.flops_per_sample * d.samples for d in demands.values())
        used: object = 1.0
    else:
        per_sample = {pair: use_of(problem, *pair) for pair in problem.services}
        scale = max(use * demands[r].samples for (_, r), use in per_sample.items())
        used = sum(use / scale * m.samples[pair] for pair, use in per_sample.items())
    rented = sum(rented_of(problem, i) / scale * m.billed[i] for i in m.RESOURCES)
    m.utilization = Ratio(used, rented, "maximize", "utilization")


def use_of(problem: Problem, i: str, r: str) -> float:
    """What a sample uses of what is rented: FLOP, bytes moved, or byte-seconds occupied, at the largest batch."""
    service, workload = problem.services[i, r], problem.demand_by_name[r].workload
    if problem.utilization == "compute":
        return workload.flops_per_sample
    batch = service.batch_limit
    if problem.utilization == "bandwidth":
        return service.step * float(workload.traffic(batch / service.step)) / batch
    return problem.by_name[i].accelerator_count * service.memory_at(batch) * service.tau.at(batch) / batch


def rented_of(problem: Problem, i: str) -> float:
    """What a unit offers of it: peak FLOP/s, bandwidth in B/s or memory in B."""
    if problem.utilization == "compute":
        return problem.peaks[i]
    resource = problem.by_name[i]
    return resource.memory if problem.utilization == "memory" else resource.memory_bandwidth
