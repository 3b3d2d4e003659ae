"""Driving HiGHS. Besides this module only `relaxation` knows highspy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import highspy
import numpy as np

from mopt.errors import SolverError
from mopt.linear_model import LinearModel, Vector

Settings = Mapping[str, float | int | str | bool]

# One thread a solver: parallel solvers scale where parallel solves don't. No gap: the default 1e-4 misses points. The
# sub-MIP heuristics and restarts cost more than they bring on a sweep's many small solves: without them knapsacks take
# half the time and `reserved` problems a third.
BASE_SETTINGS: Settings = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_allow_restart": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_allow_cut_separation_at_nodes": False,
}


class Status(Enum):
    """What a solve ended with."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    UNBOUNDED_OR_INFEASIBLE = "unbounded or infeasible"
    STOPPED = "stopped at its time limit"
    FAILED = "failed"


_S: Any = highspy.HighsModelStatus
_STATUS = {
    _S.kOptimal: Status.OPTIMAL,
    _S.kModelEmpty: Status.OPTIMAL,
    _S.kInfeasible: Status.INFEASIBLE,
    _S.kUnbounded: Status.UNBOUNDED,
    _S.kUnboundedOrInfeasible: Status.UNBOUNDED_OR_INFEASIBLE,
    _S.kTimeLimit: Status.STOPPED,
    _S.kInterrupt: Status.STOPPED,
    _S.kHighsInterrupt: Status.STOPPED,
}


@dataclass(frozen=True)
class Outcome:
    """What HiGHS said: x in the model's own units, the proven bound on the objective, and how long it took."""

    status: Status
    x: Vector | None = None
    bound: float = -np.inf
    seconds: float = 0.0
    settings: Settings = field(default_factory=dict)
    message: str = ""


class SilentHighs(highspy.Highs):
    """HiGHS that prints nothing: its banner comes with the callbacks, which the constructor sets up."""

    def enableCallbacks(self) -> None:
        self.silent()
        super().enableCallbacks()


class Highs:
    """One HiGHS instance that holds a model and some extra rows; objective and bounds of these change per solve.

    Parameters
    ----------
    model : LinearModel
    rows : sequence of ndarray of shape (n,)
        Extra rows, free until a solve bounds them.
    relaxed : bool
        Leave integrality out (integers are then fixed per solve).
    """

    def __init__(self, model: LinearModel, rows: Sequence[Vector], *, relaxed: bool = False) -> None:
        self._model = model
        from scipy import sparse

        row_scale, self._column_scale = scaling(model)
        A = sparse.diags_array(row_scale) @ model.matrix @ sparse.diags_array(self._column_scale)
        extra = sparse.csr_array(np.array(rows).reshape(len(rows), len(model.lower)) * self._column_scale)
        matrix = sparse.csr_array(sparse.vstack([A, extra], format="csr"))
        free = np.full(len(rows), highspy.kHighsInf)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(model.lower), matrix.shape[0]
        lp.col_cost_ = np.zeros(lp.num_col_)
        lp.col_lower_, lp.col_upper_ = model.lower / self._column_scale, model.upper / self._column_scale
        lp.row_lower_ = np.concatenate([model.row_lower * row_scale, -free])
        lp.row_upper_ = np.concatenate([model.row_upper * row_scale, free])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = lp.num_col_, lp.num_row_
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
        if model.integer.any() and not relaxed:
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            lp.integrality_ = [kinds[int(whole)] for whole in model.integer]
        self._first_extra = len(model.row_lower)
        self._columns = np.arange(lp.num_col_, dtype=np.int32)
        self._is_mip = bool(model.integer.any()) and not relaxed
        self._h = SilentHighs()
        self._apply(BASE_SETTINGS)
        if self._h.passModel(lp) == highspy.HighsStatus.kError:
            raise SolverError("HiGHS refuses the model: its coefficients are too large")
        self._changed: dict[str, object] = {}

    def _apply(self, settings: Settings) -> None:
        for name, value in settings.items():
            if self._h.setOptionValue(name, value) != highspy.HighsStatus.kOk:
                raise ValueError(f"HiGHS knows no option {name} = {value!r}")

    def solve(
        self,
        cost: Vector,
        upper: Sequence[float],
        settings: Settings,
        *,
        time_limit: float | None = None,
        fixed: Vector | None = None,
        lines: Sequence[tuple[Vector, float]] = (),
    ) -> Outcome:
        """Minimise cost·x with extra row k at most upper[k].

        `fixed` gives values for the integers; `lines` are further rows a·x ≤ b for this solve alone.
        """
        h = self._h
        started = time.perf_counter()
        for name in [name for name in self._changed if name not in settings]:
            h.setOptionValue(name, self._changed.pop(name))
        for name, value in settings.items():
            if name not in self._changed:
                self._changed[name] = h.getOptionValue(name)[1]
            self._apply({name: value})
        if time_limit is not None:
            h.setOptionValue("time_limit", h.getRunTime() + max(time_limit, 0.0))
        elif "time_limit" not in settings:
            h.setOptionValue("time_limit", highspy.kHighsInf)
        h.changeColsCost(len(self._columns), self._columns, cost * self._column_scale)
        for k, bound in enumerate(upper):
            h.changeRowBounds(self._first_extra + k, -highspy.kHighsInf, min(bound, highspy.kHighsInf))
        if fixed is not None:
            chosen = np.flatnonzero(self._model.integer).astype(np.int32)
            h.changeColsBounds(len(chosen), chosen, fixed[chosen], fixed[chosen])
        for coefficients, most in lines:
            row = coefficients * self._column_scale
            used = np.flatnonzero(row).astype(np.int32)
            h.addRow(-highspy.kHighsInf, most, len(used), used, row[used])
        h.clearSolver()
        h.run()
        status = _STATUS.get(h.getModelStatus(), Status.FAILED)
        info = h.getInfo()
        x, bound = None, -np.inf
        if status is Status.OPTIMAL:
            x = np.array(h.getSolution().col_value) * self._column_scale
            bound = info.mip_dual_bound if self._is_mip else info.objective_function_value
        if lines:
            rows = h.getNumRow()
            h.deleteRows(len(lines), np.arange(rows - len(lines), rows, dtype=np.int32))
        return Outcome(status, x, bound, time.perf_counter() - started, dict(settings), str(h.getModelStatus()))


def known_options(options: Settings) -> dict[str, bool]:
    """Of each option, whether HiGHS takes it."""
    h = SilentHighs()

    def takes(name: str, value: object) -> bool:
        try:
            return bool(h.setOptionValue(name, value) == highspy.HighsStatus.kOk)
        except TypeError:  # a name or value of a type that no option has
            return False

    return {name: takes(name, value) for name, value in options.items()}


def scaling(model: LinearModel) -> tuple[Vector, Vector]:
    """Row and column factors, powers of two, that narrow a wide range of coefficients; ones where it is narrow.

    Geometric means in turn over rows and over continuous columns (integers keep their unit), then each row so that its
    smallest and largest coefficients lie about 1.
    """
    A = abs(model.matrix)
    m, n = A.shape
    if not A.nnz or (A.data.min() >= 1e-3 and A.data.max() <= 1e4):
        return np.ones(m), np.ones(n)
    from scipy import sparse

    logs = sparse.csr_array((np.log2(A.data), A.indices, A.indptr), shape=A.shape)
    by_row, by_column = logs, logs.tocsc()
    in_row, in_column = np.diff(by_row.indptr), np.diff(by_column.indptr)
    c = np.zeros(n)
    ones = sparse.csr_array((np.ones_like(A.data), A.indices, A.indptr), shape=A.shape)
    for _ in range(8):
        r = -(by_row.sum(axis=1) + ones @ c) / np.maximum(in_row, 1)
        c = -(by_column.sum(axis=0) + ones.T @ r) / np.maximum(in_column, 1)
        c[model.integer | (in_column == 0)] = 0.0
    columns = np.round(c)
    scaled = logs.data + columns[A.indices]
    used = in_row > 0
    starts = A.indptr[:-1][used]
    middle = np.zeros(m)
    middle[used] = (np.maximum.reduceat(scaled, starts) + np.minimum.reduceat(scaled, starts)) / 2
    return np.exp2(-np.round(middle)), np.exp2(columns)
