"""A feasible model that HiGHS 1.16.0 calls infeasible as it stands, and optimal at twice the optimum with other seeds.

Rounded to a solution worth 1.5124, its integers leave a feasible linear program (data/README.md).
"""

from pathlib import Path

import highspy
import numpy as np
from scipy import sparse

from mopt.epsilon import trace_again
from mopt.errors import SolverError
from mopt.highs import Highs
from mopt.linear_model import Form, LinearModel, Objective
from mopt.mixed import GenericCheck
from mopt.task import Axis, Task

OPTIMUM = 1.5124080181


def faulty() -> Task:
    """The model with its own objective, and the number of whole units in use as a second one."""
    h = highspy.Highs()
    h.silent()
    h.readModel(str(Path(__file__).parent / "data" / "falseinf.mps"))
    lp = h.getLp()
    parts = (np.array(lp.a_matrix_.value_), np.array(lp.a_matrix_.index_), np.array(lp.a_matrix_.start_))
    integer = np.array([kind == highspy.HighsVarType.kInteger for kind in lp.integrality_])
    forms = (Form(np.array(lp.col_cost_), 0.0), Form(np.where(integer, 1.0, 0.0), 0.0))
    model = LinearModel(
        matrix=sparse.csr_array(sparse.csc_array(parts, shape=(lp.num_row_, lp.num_col_))),
        row_lower=np.array(lp.row_lower_),
        row_upper=np.array(lp.row_upper_),
        lower=np.array(lp.col_lower_),
        upper=np.array(lp.col_upper_),
        integer=integer,
        column_name="x{}".format,
        row_name="r{}".format,
        objectives=(Objective("cost", 1, forms[0]), Objective("count", 1, forms[1])),
        fixed={},
    )
    return Task(
        model=model,
        axes=(Axis("cost", 1), Axis("count", 1)),
        forms=forms,
        check=GenericCheck(model, forms),
        why_infeasible=lambda: ("none", "model"),
    )


def test_no_wrong_front_without_an_error() -> None:
    task = faulty()
    try:
        front = trace_again(task, (None, None), Highs, None)
    except SolverError:
        return
    assert front.complete
    assert abs(front[0].objectives[0] - OPTIMUM) <= 2 * front.resolution[0]
    for point in front:
        assert task.model.violations(np.array([point.variables[name] for name in task.model.names])) == []
