"""Other ways to the same front, and models that they can express: whole objectives f1 and f2."""

import pyomo.environ as pyo


def whole_reserved(problem):
    """A `reserved` problem of one demand in whole numbers: min cost in 1e-2 $/h, min peak rented in TFLOP/s."""
    (demand,) = problem.demand_by_name.values()
    m = pyo.ConcreteModel()
    names = [name for name, _ in problem.services]
    m.n = pyo.Var(names, domain=pyo.NonNegativeIntegers, bounds=lambda m, i: (0, problem.unit_limits[i]))
    m.f1 = pyo.Objective(expr=sum(round(100 * problem.by_name[i].price_per_hour) * m.n[i] for i in names))
    peaks = {i: round(problem.by_name[i].peak(demand.workload.precision) / 1e12) for i in names}
    m.f2 = pyo.Objective(expr=sum(peaks[i] * m.n[i] for i in names))
    m.cover = pyo.Constraint(
        expr=sum(problem.services[i, demand.name].capacity * m.n[i] for i in names) >= demand.samples
    )
    return m


def naive(model):
    """The textbook loop, two solves a point, in plain Pyomo. Both objectives minimised, whole."""
    solver = pyo.SolverFactory("appsi_highs")
    solver.highs_options = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "threads": 1}
    solver.config.load_solution = False
    model.bound1, model.bound2 = pyo.Constraint(expr=model.f1.expr <= 1e12), pyo.Constraint(expr=model.f2.expr <= 1e12)
    points = []

    def least(objective, other):
        objective.activate()
        other.deactivate()
        results = solver.solve(model, load_solutions=False)
        if results.solver.termination_condition != pyo.TerminationCondition.optimal:
            return None
        solver.load_vars()
        return round(pyo.value(objective))

    while True:
        model.bound1.set_value(model.f1.expr <= 1e12)
        first = least(model.f1, model.f2)
        if first is None:
            return points
        model.bound1.set_value(model.f1.expr <= first)
        second = least(model.f2, model.f1)
        points.append((first, second))
        model.bound2.set_value(model.f2.expr <= second - 1)


def augmecon(model, folder):
    """pyaugmecon in its exact mode, one process. With warm starts 2.0.1 takes the start for the optimum (one point)."""
    from pyaugmecon import PyAugmecon

    model.obj_list = pyo.ObjectiveList()
    for objective in (model.f1, model.f2):
        model.obj_list.add(expr=objective.expr, sense=objective.sense)
    del model.f1, model.f2
    config = {
        "mode": "exact", "workers": 1, "progress_bar": False, "log_to_console": False, "write_csv": False,
        "artifact_folder": str(folder), "solve_warmstart": False,
    }
    return [tuple(map(float, point)) for point in PyAugmecon(model, config).solve().points]
