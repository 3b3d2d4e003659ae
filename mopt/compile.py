"""From a Pyomo model to plain arrays, once: the only module between Pyomo and the solver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError
from pyomo.common.modeling import unique_component_name
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy import sparse

from mopt.collector import collector_paused
from mopt.errors import Fault, InfeasibleError, InputError
from mopt.linear_model import Form, LinearModel, Objective
from mopt.ratio import Ratio


def compile_model(model: Any, objectives: tuple[Any, Any]) -> tuple[LinearModel, dict[int, int]]:
    """Compile a Pyomo model with two objectives; also gives the column of each variable by the id of its data.

    Parameters
    ----------
    model : pyomo ConcreteModel
        Left as it was.
    objectives : two of pyo.Objective (active or not; its sense counts), `Ratio`, or Pyomo expression (minimised)

    Raises
    ------
    InputError
        If something is not linear, or an objective is not one.
    InfeasibleError
        If a constraint without variables doesn't hold.
    """
    parts = [_parts(objective, position) for position, objective in enumerate(objectives)]
    expressions = [expression for _, _, *forms in parts for expression in forms if expression is not None]
    with collector_paused(), _only_these_objectives(model, expressions):
        try:
            info = LinearStandardFormCompiler().write(model, mixed_form=True)
        except InfeasibleConstraintException as error:
            raise InfeasibleError(str(error)) from None
        except (InvalidConstraintError, ValueError) as error:
            raise InputError(
                [Fault("", "model", "constraint or objective", str(error).strip(), "must be linear")]
            ) from None
    columns, rows = info.columns, info.rows
    forms = [
        Form(np.asarray(row, dtype=float).ravel(), float(constant))
        for row, constant in zip(info.c.toarray(), info.c_offset, strict=True)
    ]
    compiled = []
    for name, sense, _, denominator in parts:
        numerator = forms.pop(0)
        compiled.append(Objective(name, sense, numerator, None if denominator is None else forms.pop(0)))
    rhs = np.asarray(info.rhs, dtype=float)
    kinds = np.array([row.bound_type for row in rows], dtype=int)
    faults = [
        Fault("", "model", variable.name, variable.domain.name, "must be a real, integer or binary interval")
        for variable in columns
        if not (variable.is_continuous() or variable.is_integer() or variable.is_binary())
    ]
    if faults:
        raise InputError(faults)
    integer = np.array([not variable.is_continuous() for variable in columns], dtype=bool)
    bounds = [variable.bounds for variable in columns]
    lower = np.array([-np.inf if low is None else low for low, _ in bounds], dtype=float)
    upper = np.array([np.inf if high is None else high for _, high in bounds], dtype=float)
    lower[integer], upper[integer] = np.ceil(lower[integer] - 1e-9), np.floor(upper[integer] + 1e-9)
    fixed = {v.name: float(v.value) for v in model.component_data_objects(pyo.Var) if v.fixed and v.value is not None}
    compiled_model = LinearModel(
        matrix=sparse.csr_array(info.A),
        row_lower=np.where(kinds >= 1, -np.inf, rhs),
        row_upper=np.where(kinds <= -1, np.inf, rhs),
        lower=lower,
        upper=upper,
        integer=integer,
        column_name=partial(_name, model, columns),
        row_name=partial(_name, model, [row.constraint for row in rows]),
        objectives=(compiled[0], compiled[1]),
        fixed=fixed,
    )
    return compiled_model, {id(variable): column for column, variable in enumerate(columns)}


def _name(model: Any, components: list[Any], k: int) -> str:
    """The name of a component of a model, which is kept with it: components don't keep what they are part of."""
    return str(components[k].name)


def _parts(objective: Any, position: int) -> tuple[str, int, Any, Any]:
    """Name, sense, numerator and denominator (None: linear) of an objective in any of its spellings."""
    if isinstance(objective, Ratio):
        return objective.name, 1 if objective.sense == pyo.minimize else -1, objective.numerator, objective.denominator
    ctype = getattr(objective, "ctype", None)
    if ctype is pyo.Objective and (not objective.is_indexed() or len(objective) == 1):
        data = next(iter(objective.values())) if objective.is_indexed() else objective
        return data.name, 1 if data.sense == pyo.minimize else -1, data.expr, None
    if ctype is not pyo.Objective and hasattr(objective, "is_expression_type"):
        name = getattr(objective, "name", None)
        return name if isinstance(name, str) else f"f{position + 1}", 1, objective, None
    raise InputError(
        [
            Fault(
                "",
                "solve_epsilon_front",
                f"objectives[{position}]",
                objective,
                "must be a pyo.Objective (scalar) or a mopt.Ratio",
            )
        ]
    )


@contextmanager
def _only_these_objectives(model: Any, expressions: list[Any]) -> Iterator[None]:
    """The model with these objectives and no others active, put back as it was afterwards."""
    others = list(model.component_data_objects(pyo.Objective, active=True, descend_into=True))
    name = unique_component_name(model, "_mopt_objectives")
    try:
        for other in others:
            other.deactivate()
        block = pyo.Block(concrete=True)
        model.add_component(name, block)
        for position, expression in enumerate(expressions):
            block.add_component(f"f{position}", pyo.Objective(expr=expression))
        yield
    finally:
        if model.component(name) is not None:
            model.del_component(name)
        for other in others:
            other.activate()
