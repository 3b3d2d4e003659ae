"""How well plans hold when prices and times aren't those they were made for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from mopt.epsilon import solve_epsilon_front
from mopt.errors import Fault, InfeasibleError, InputError, SolverError
from mopt.fixed_plan import FixedPlans
from mopt.front import ParetoFront
from mopt.perturbation import Efficiency, Perturbation, Price
from mopt.problem import Problem
from mopt.scenarios import Solved, solve_fronts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]
# Below this share of a value a difference is rounding: as much as linear programs leave.
_ROUNDING = 1e-7


@dataclass(frozen=True, kw_only=True)
class RobustFront:
    """A front, and how its plans do in scenarios of other prices and times.

    Attributes
    ----------
    nominal : ParetoFront
        The front of the problem as it was given; plan k below is that of `nominal[k]`.
    costs, utilizations : ndarray of shape (plans, scenarios)
        Of each plan in each scenario, $ per period and a fraction; NaN where it is not feasible.
    nondominated : ndarray of bool, shape (plans, scenarios)
        Whether the plan is feasible there and no point of the scenario's exact front beats it.
    regrets : ndarray of shape (plans, scenarios)
        What the plan costs beyond the cheapest plan of that scenario with at least its utilization, as a share of that
        one's cost; NaN where it is not feasible.
    prices : ndarray-like DataFrame of shape (scenarios, resources)
        Drawn prices in $/h; a column for each resource whose price was drawn.
    speeds : DataFrame of shape (scenarios, pairs)
        Drawn factors by which resources are faster; a column "ACCELERATOR|WORKLOAD" for each that was drawn.
    notes : tuple of str
        What was drawn, and how plans were judged.
    """

    nominal: ParetoFront
    costs: Floats
    utilizations: Floats
    nondominated: npt.NDArray[np.bool_]
    regrets: Floats
    prices: pd.DataFrame
    speeds: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def scenarios(self) -> int:
        """How many there are."""
        return int(self.costs.shape[1])

    @property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether each plan does all samples, within the budget, in each scenario: shape (plans, scenarios)."""
        return ~np.isnan(self.costs)

    def to_frame(self) -> pd.DataFrame:
        """One row a nominal plan, in the order of the front.

        Columns: `cost` and `utilization` as nominal; `nondominated` and `feasible`, shares of all scenarios; of the
        scenarios where it is feasible `cost_low`, `cost_median`, `cost_high` ($ per period) and `regret`, the largest
        (NaN if there are none); then `units[NAME]`.
        """
        import pandas as pd

        points = list(self.nominal)
        names = dict.fromkeys(name for point in points for name in point.units)
        some = self.feasible.any(axis=1)

        def over(rows: Floats, statistic: str) -> Floats:
            made = np.full(len(points), np.nan)
            made[some] = getattr(np, statistic)(rows[some], axis=1)
            return made

        columns: dict[str, object] = {
            "cost": [point.objectives[0] for point in points],
            "utilization": [point.objectives[1] for point in points],
            "nondominated": self.nondominated.mean(axis=1),
            "feasible": self.feasible.mean(axis=1),
            "cost_low": over(self.costs, "nanmin"),
            "cost_median": over(self.costs, "nanmedian"),
            "cost_high": over(self.costs, "nanmax"),
            "regret": over(self.regrets, "nanmax"),
        }
        return pd.DataFrame(columns | {f"units[{name}]": [p.units.get(name, 0) for p in points] for name in names})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the nominal plans, darker the more often they stay nondominated, with the ranges of their costs.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure of 6×4 inches.
        """
        from mopt.plot_robust import draw_robust

        return draw_robust(self, ax)

    def __repr__(self) -> str:
        return "\n".join([f"RobustFront of {len(self.nominal)} plans in {self.scenarios} scenarios", *self.notes])


def robust_front(
    problem: Problem,
    *,
    price: Price | None = None,
    efficiency: Efficiency | None = None,
    scenarios: int = 200,
    executor: Executor | None = None,
    seed: int = 0,
    resolution: float | tuple[float, float] | None = None,
    in_flight: int = 64,
    progress: bool = False,
) -> RobustFront:
    """Draw prices and efficiencies, solve each scenario's exact front, and see how the plans of the nominal one do.

    Parameters
    ----------
    problem : Problem
        Its utilization must be that of compute.
    price : (low, high), mapping of resource names to (low, high), or DataFrame, optional
        Factors on `price_per_hour`, drawn uniformly, for each resource on its own; or a price history (spot, say) with
        columns resource, time and price_per_hour ($/h): then the prices of all resources in it are those of one moment,
        drawn uniformly between the first at which all are known and the last; a price holds until the next.
    efficiency : (low, high), mapping of accelerators to (low, high), or "residuals", optional
        Factors on speed, drawn uniformly, for each accelerator and workload on its own (a resource without an
        accelerator goes by its name): times are divided by them, as far as no share of a roof gets above 1. Or
        "residuals": by the distribution of measured over predicted times, held out, that the problem's calibration
        keeps. Measured operating points stay as they are.
    scenarios : int
        How many to draw.
    executor : concurrent.futures.Executor, optional
        Where the fronts are solved; see `solve_fronts`. Results don't depend on it.
    seed : int
        Of the random numbers: the same seed draws the same scenarios.
    resolution, in_flight
        As in `solve_fronts`.
    progress : bool
        Show a progress bar.

    Returns
    -------
    RobustFront

    Raises
    ------
    InputError
        If a range, a history or an option is wrong, all faults at once; if the problem's utilization isn't that of
        compute.
    InfeasibleError
        If there is no nominal plan. A scenario without any plan counts as one where no plan is feasible.
    SolverError
        If a front could not be solved to its end.

    Notes
    -----
    A plan that stays: the units that are rented. Under `elapsed` billing they run the launches by which they are done
    first in the scenario; under `per_use` each takes the samples that it takes in the nominal plan, and where the
    nominal front has segments, their closed ends are the plans that are judged.
    """
    faults = [
        Fault("", "robust_front", name, value, f"must be a whole number of at least {least}")
        for name, value, least in (("scenarios", scenarios, 1), ("seed", seed, 0))
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least
    ]
    if faults:
        raise InputError(faults)
    FixedPlans(problem)
    drawn = Perturbation(problem, price, efficiency)
    nominal = _complete(solve_epsilon_front(problem, resolution=resolution), "the nominal problem")
    prices: list[Mapping[str, float]] = []
    speeds: list[Mapping[str, float]] = []

    def problems() -> Iterator[Problem]:
        for number in range(scenarios):
            scenario, price_drawn, speed_drawn = drawn.scenario(seed, number)
            prices.append(price_drawn)
            speeds.append({f"{name}|{workload}": speed for (name, workload), speed in speed_drawn.items()})
            yield scenario

    shape = len(nominal), scenarios
    costs, utilizations, regrets = (np.full(shape, np.nan) for _ in range(3))
    nondominated = np.zeros(shape, dtype=bool)
    solved = solve_fronts(problems(), executor, resolution=resolution, in_flight=in_flight)
    for one in tqdm(solved, total=scenarios, desc="scenarios", disable=not progress):
        front = _front_of(one)
        plans = FixedPlans(one.problem)
        for k, point in enumerate(nominal):
            values = None if front is None or point.plan is None else plans.values(point.plan)
            if front is not None and values is not None:
                costs[k, one.index], utilizations[k, one.index] = values
                regrets[k, one.index], nondominated[k, one.index] = _compared(front, *values)
    import pandas as pd

    return RobustFront(
        nominal=nominal,
        costs=costs,
        utilizations=utilizations,
        nondominated=nondominated,
        regrets=regrets,
        prices=pd.DataFrame(prices, index=range(scenarios)),
        speeds=pd.DataFrame(speeds, index=range(scenarios)),
        notes=(f"{scenarios} scenarios, seed {seed}", *drawn.notes, _STAYING[problem.billing]),
    )


_STAYING = {
    "reserved": "plans keep their units",
    "elapsed": "plans keep their units and run the launches by which these are done first",
    "per_use": "plans keep their units and the samples of each",
}


def _front_of(solved: Solved) -> ParetoFront | None:
    """The scenario's front; None if it has no plan."""
    if isinstance(solved.error, InfeasibleError):
        return None
    if solved.error is not None:
        raise solved.error
    assert solved.front is not None
    return _complete(solved.front, f"scenario {solved.index}")


def _complete(front: ParetoFront, whose: str) -> ParetoFront:
    if not front.complete:
        raise SolverError(f"{whose}: its front is not complete ({front.why_incomplete})")
    return front


def _compared(front: ParetoFront, cost: float, utilization: float) -> tuple[float, bool]:
    """Regret of a plan on the front of its scenario, and whether no point there beats it."""
    lowest, highest = front.values[0, 0], front.values[-1, 1]
    # Beyond the ends, by rounding or the front's resolution, there is nothing to compare with but the ends.
    cheapest = front.at(utilization=min(utilization * (1 - _ROUNDING), highest)).objectives[0]
    most = front.at(cost=max(cost * (1 + _ROUNDING), lowest)).objectives[1]
    beaten = cheapest < cost * (1 - 2 * _ROUNDING) or most > utilization * (1 + 2 * _ROUNDING)
    return max(0.0, cost / cheapest - 1), not beaten
