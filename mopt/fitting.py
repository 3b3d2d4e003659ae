"""Fits of efficiencies and host times to measured launch times: robust least squares on log time.

Every group (family, mode, precision, framework) has a mean of the four log parameters and every resource a deviation
from it, held back by a prior; so resources with few rows stay close to the others', and those with many follow their
own. Both are found together, under the loss soft-L1, by trust-region least squares (scipy.optimize.least_squares;
Branch, Coleman, Li, SIAM J. Sci. Comput. 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import OptimizeResult, least_squares

from mopt.calibration import products
from mopt.resource import Resource
from mopt.workload import Workload

Floats = npt.NDArray[np.float64]

# Log parameters: η^c, η^m, and in s per product h and t0. Their means before any data, how far these may be off, how
# far resources of a group differ, and the bounds. The scatter of rows is 5 %. Set once, on the shipped measurements.
PRIOR = np.log([0.55, 0.7, 1e-5, 1e-5])
PRIOR_SPREAD = np.array([0.5, 0.3, 2.0, 2.0])
RESOURCE_SPREAD = np.array([0.2, 0.15, 0.5, 0.5])
LOW, HIGH = np.log([0.01, 0.01, 1e-9, 1e-9]), np.log([1.0, 1.0, 0.1, 0.1])
SCATTER = 0.05
# The exponent s of the power rule, and how far it may be off.
POWER, POWER_SPREAD = 0.3, 0.15
# Where fits start, from the prior's means: as they are; memory-bound; compute-bound with a busy host.
_STARTS = ((0.0, 0.0, 0.0, 0.0), (0.3, -1.0, 1.0, 1.0), (-1.0, 0.2, 2.0, 2.0))
_NUDGE = 0.02
# Of a normal distribution, within ±z deviations lie 90 %.
_Z90 = 1.6449


class Row(NamedTuple):
    """A measured time with what it takes to predict it."""

    resource: Resource
    workload: Workload
    batch: float
    seconds: float


class Terms(NamedTuple):
    """Roofs of a launch in s, one per different layer (zeros fill up), and products: all that a prediction needs."""

    compute: Floats
    memory: Floats
    products: Floats
    log_time: Floats

    def of(self, chosen: npt.NDArray[np.bool_]) -> Terms:
        """Those of some rows."""
        return Terms(*(array[chosen] for array in self))


def terms(rows: Sequence[Row]) -> Terms:
    """What predictions of the rows need. Layers that are alike are taken together, which leaves every sum as it is."""
    compute, memory, counts = [], [], []
    for row in rows:
        layers = np.array([(layer.flops, layer.bytes_fixed, layer.bytes_per_sample) for layer in row.workload.layers])
        alike, count = np.unique(layers, axis=0, return_counts=True)
        peak = row.resource.peak(row.workload.precision)
        assert peak is not None  # rows without one were refused
        moved = row.resource.accelerator_count * alike[:, 1] + alike[:, 2] * row.batch
        compute.append(count * alike[:, 0] * row.batch / peak)
        memory.append(count * moved / row.resource.memory_bandwidth)
        counts.append(max(1.0, products(row.workload)))
    return Terms(_padded(compute), _padded(memory), np.array(counts), np.log([row.seconds for row in rows]))


def _padded(lists: Sequence[Floats]) -> Floats:
    width = max(len(values) for values in lists)
    return np.array([np.pad(values, (0, width - len(values))) for values in lists])


def predict(parameters: Floats, data: Terms) -> tuple[Floats, Floats]:
    """Log times, and their derivatives by the log parameters; parameters has a row per row of data."""
    shares = np.exp(parameters)
    compute = data.compute / shares[:, :1]
    memory = data.memory / shares[:, 1:2]
    bound = compute >= memory
    by_compute = np.where(bound, compute, 0.0).sum(axis=1)
    by_memory = np.where(bound, 0.0, memory).sum(axis=1)
    overhead, floor = shares[:, 2] * data.products, shares[:, 3] * data.products
    total = by_compute + by_memory + overhead
    working = total >= floor
    slopes = np.column_stack([-by_compute, -by_memory, overhead, np.zeros_like(floor)]) / total[:, None]
    slopes = np.where(working[:, None], slopes, [0.0, 0.0, 0.0, 1.0])
    return np.log(np.where(working, total, floor)), slopes


@dataclass(frozen=True)
class Fit:
    """Fitted parameters of a group.

    Attributes
    ----------
    mean : array (4,)
        Log parameters that resources of the group have in common, at the group's mean log FLOP/s per W.
    exponent : float
        s of the power rule.
    values, errors : array (resources, 4)
        Log parameters of each resource, and their standard errors.
    """

    mean: Floats
    exponent: float
    values: Floats
    errors: Floats

    @property
    def ranges(self) -> Floats:
        """90 % ranges of the parameters themselves, within their bounds: array (resources, 4, 2)."""
        off = _Z90 * self.errors
        ends = np.stack([self.values - off, self.values + off], axis=-1)
        return np.exp(np.clip(ends, LOW[:, None], HIGH[:, None]))


@dataclass(frozen=True)
class Group:
    """Rows of a group: their terms, the resource that each is of, and log FLOP/s per W of each resource, centred."""

    data: Terms
    of: npt.NDArray[np.intp]
    power: Floats

    @cached_property
    def resources(self) -> int:
        """How many resources there are."""
        return len(self.power)

    def only(self, rows: npt.NDArray[np.bool_]) -> Group:
        """The group of some of the rows; resources without any are what the prior says of them."""
        return replace(self, data=self.data.of(rows), of=self.of[rows])

    def fit(self, start: Fit | None = None) -> Fit:
        """The fit; from `start` if there is one, else from several points, as minima may be local."""
        if start is not None:
            starts = [np.concatenate([start.mean, [start.exponent], start.values.ravel()])]
        else:
            starts = []
            for shift in _STARTS:
                mean = np.clip(PRIOR + shift, LOW + 0.01, HIGH - 0.01)
                starts.append(np.concatenate([mean, [POWER], np.tile(mean, self.resources)]))
            starts.append(self._at_the_floor())
        low = np.concatenate([LOW, [-1.0], np.tile(LOW, self.resources)])
        high = np.concatenate([HIGH, [2.0], np.tile(HIGH, self.resources)])
        solutions = [self._solve(np.clip(point, low + 1e-9, high - 1e-9), low, high) for point in starts]
        if start is not None and np.array_equal(solutions[0].x, np.clip(starts[0], low + 1e-9, high - 1e-9)):
            # On a kink of the roofline no step may lead on, but one beside it.
            beside = (starts[0] + _NUDGE, starts[0] - _NUDGE)
            solutions += [self._solve(np.clip(point, low + 1e-9, high - 1e-9), low, high) for point in beside]
        best = min(solutions, key=lambda solution: float(solution.cost))
        solution, jacobian, count = np.asarray(best.x), np.asarray(best.jac), len(self.of)
        # The scatter that the rows show, robustly (1.4826·MAD is the deviation of a normal distribution).
        scatter = max(1.0, 1.4826 * float(np.median(np.abs(best.fun[:count])))) if count else 1.0
        variances = np.diag(np.linalg.pinv(jacobian.T @ jacobian))[5:] * scatter**2
        errors = np.sqrt(np.maximum(variances, 0.0))
        return Fit(solution[:4], float(solution[4]), solution[5:].reshape(-1, 4), errors.reshape(-1, 4))

    def _at_the_floor(self) -> Floats:
        """A start with each resource's shortest time a product as its floor: below all times a floor has no slope."""
        shortest = np.full(self.resources, np.inf)
        np.minimum.at(shortest, self.of, self.data.log_time - np.log(self.data.products))
        values = np.tile(PRIOR, (self.resources, 1))
        values[:, 2], values[:, 3] = shortest - 1.0, shortest
        return np.concatenate([np.median(values, axis=0), [POWER], values.ravel()])

    def _solve(self, start: Floats, low: Floats, high: Floats) -> OptimizeResult:
        def residuals(x: Floats) -> Floats:
            return self._residuals(x)[0]

        def jacobian(x: Floats) -> Floats:
            return self._residuals(x)[1]

        return least_squares(
            residuals, start, jac=jacobian, bounds=(low, high), loss="soft_l1", x_scale="jac", ftol=1e-6, xtol=1e-6
        )

    def _residuals(self, x: Floats) -> tuple[Floats, Floats]:
        """Rows, deviations of resources and of means, each by its spread; and the Jacobian."""
        mean, exponent, values = x[:4], x[4], x[5:].reshape(-1, 4)
        log_time, slopes = predict(values[self.of], self.data)
        common = mean - np.outer(self.power, [exponent, 0.0, 0.0, 0.0])
        residuals = np.concatenate(
            [
                (log_time - self.data.log_time) / SCATTER,
                ((values - common) / RESOURCE_SPREAD).ravel(),
                (mean - PRIOR) / PRIOR_SPREAD,
                [(exponent - POWER) / POWER_SPREAD],
            ]
        )
        count, free = len(self.of), 4 * self.resources
        jacobian = np.zeros((len(residuals), len(x)))
        columns = 5 + 4 * self.of[:, None] + np.arange(4)
        jacobian[np.arange(count)[:, None], columns] = slopes / SCATTER
        block = slice(count, count + free)
        jacobian[block, 5:] = np.diag(np.tile(1 / RESOURCE_SPREAD, self.resources))
        jacobian[block, :4] = np.tile(-np.diag(1 / RESOURCE_SPREAD), (self.resources, 1))
        jacobian[count : count + free : 4, 4] = self.power / RESOURCE_SPREAD[0]
        jacobian[count + free : count + free + 4, :4] = np.diag(1 / PRIOR_SPREAD)
        jacobian[-1, 4] = 1 / POWER_SPREAD
        return residuals, jacobian
