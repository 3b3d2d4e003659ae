"""The linear relaxation of a whole program in a box of its objectives, for the multipliers alone."""

from __future__ import annotations

import math

import highspy
import numpy as np

from mopt.highs import SilentHighs
from mopt.whole import Floats, Pair, WholeProgram


class Relaxation:
    """min s subject to c_k·n ≤ s·u_k, W·n ≥ b, 0 ≤ n ≤ N, with HiGHS, from the last basis on.

    The dual values are the weights λ with λ·u = 1 for which the least λ·c·n is largest, and the rows' multipliers y.
    """

    def __init__(self, program: WholeProgram) -> None:
        m, n = program.weights.shape
        inf = highspy.kHighsInf
        self._rows, self._items = m, n
        self._size = np.where(program.costs.any(axis=0), program.costs.max(axis=0), 1.0)
        self._row_size = np.maximum(abs(program.weights).max(axis=1), 1).astype(float)
        matrix = np.zeros((m + 2, n + 1))
        matrix[:m, :n] = program.weights / self._row_size[:, None]
        matrix[m:, :n] = (program.costs / self._size).T
        matrix[m:, n] = -1.0
        rows, columns = np.nonzero(matrix)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = n + 1, m + 2
        lp.col_cost_ = np.append(np.zeros(n), 1.0)
        lp.col_lower_, lp.col_upper_ = np.append(np.zeros(n), -inf), np.append(program.limits.astype(float), inf)
        lp.row_lower_ = np.concatenate([program.demands / self._row_size, [-inf, -inf]])
        lp.row_upper_ = np.concatenate([np.full(m, inf), [0.0, 0.0]])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = n + 1, m + 2
        lp.a_matrix_.start_ = np.searchsorted(rows, np.arange(m + 3))
        lp.a_matrix_.index_, lp.a_matrix_.value_ = columns, matrix[rows, columns]
        self._h = SilentHighs()
        self._h.setOptionValue("output_flag", False)
        self._h.setOptionValue("threads", 1)
        self._h.passModel(lp)

    def multipliers(self, box: Pair) -> tuple[Floats, Floats] | None:
        """Weights λ of the objectives and multipliers y of the rows, both at least 0; None if there are none.

        A side of the box may be infinite: its objective then has no weight. Any λ and y give a bound; these are to be
        good, and nothing rests on their being optimal.
        """
        h, n = self._h, self._items
        for k, side in enumerate(box):
            finite = math.isfinite(side)
            h.changeCoeff(self._rows + k, n, -side / self._size[k] if finite else 0.0)
            h.changeRowBounds(self._rows + k, -highspy.kHighsInf, 0.0 if finite else highspy.kHighsInf)
        h.run()
        if h.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        dual = np.array(h.getSolution().row_dual)
        weights = np.where(np.isfinite(box), np.maximum(-dual[self._rows :], 0.0) / self._size, 0.0)
        return weights, np.maximum(dual[: self._rows], 0.0) / self._row_size
