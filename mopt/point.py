"""Points and segments of a front: plain numbers, with the plan behind each and how it was proven."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, InstanceOf, PlainSerializer

from mopt.errors import InputError

Key = TypeVar("Key", bound=Hashable)
Number = TypeVar("Number", bound=float)


def _rows(table: Mapping[tuple[str, str], float]) -> list[list[object]]:
    return [[*key, value] for key, value in table.items()]


def _table(rows: Any) -> Any:
    if not isinstance(rows, list):
        return rows
    if not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise ValueError("must be a list of [resource, workload, value]")
    return {(first, second): value for first, second, value in rows}


def _fraction(text: Any) -> Any:
    try:
        return Fraction(text) if isinstance(text, str) else text
    except ZeroDivisionError:
        raise ValueError("must have a nonzero denominator") from None


# How JSON spells what it has no form for: pairs as keys, and exact rationals.
ByPair = Annotated[dict[tuple[str, str], Number], BeforeValidator(_table), PlainSerializer(_rows)]
Exact = Annotated[InstanceOf[Fraction], BeforeValidator(_fraction), PlainSerializer(str)]
STORED = ConfigDict(extra="forbid", ser_json_inf_nan="strings")


@dataclass(frozen=True)
class Proof:
    """How a point was proven nondominated.

    Parameters
    ----------
    method : str
        What settled it: "augmented solve", "two solves", "ratio cut", ...
    bound : float or None
        The solver's bound on the objective it solved for, in that objective's internal coordinates.
    gap : float
        Absolute gap between that bound and the point.
    settings : mapping
        Solver settings that differ from the defaults; numbers, text or None.
    statement : str
        One sentence: what lies where, and therefore cannot dominate the point.
    """

    __pydantic_config__ = STORED

    method: str
    bound: float | None
    gap: float
    settings: Mapping[str, object]
    statement: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", plain(self.settings))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One plan of a `Problem`: what to rent, and what runs on it.

    Parameters
    ----------
    units : dict
        Units rented by resource name; nonzero entries only, as in all that follows.
    dedicated : dict
        Units by (resource, workload).
    samples : dict
        Samples per period by resource name, or by "NAME|WORKLOAD" where the problem has several demands.
    launches : dict
        Launches per period by (resource, workload), all units together.
    batch : dict
        Samples per launch by (resource, workload), on average.
    busy : dict
        Computing time per period in unit·s by (resource, workload).
    billed : dict
        Time paid for per period in unit·s by resource name.
    memory : dict
        Bytes in use on each accelerator at the plan's batch, by (resource, workload).
    cost : float
        $ per period.
    cost_per_hour : float
        $/h.
    utilization : float
        Fraction of what is rented, 0 to 1.
    time_limit : float
        The period T in s.
    elapsed : float or None
        Time until all units are done in s, where the billing depends on it.
    notes : tuple of str
        Anything a reader of this plan must know.
    """

    __pydantic_config__ = STORED

    units: dict[str, int]
    dedicated: ByPair[int]
    samples: dict[str, int | float]
    launches: ByPair[int | float]
    batch: ByPair[int | float]
    busy: ByPair[float]
    billed: dict[str, float]
    memory: ByPair[float]
    cost: float
    cost_per_hour: float
    utilization: float
    time_limit: float
    elapsed: float | None = None
    notes: tuple[str, ...] = ()


class _Lazy:
    """A field that may be given as a function: it is called when the field is first looked at."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:
            return None  # the field's default
        fields = vars(instance)
        if callable(value := fields[self._name]):
            value = fields[self._name] = value()
        return value

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)[self._name] = value


_lazy: Any = _Lazy()


@dataclass(frozen=True)
class Point:
    """A point of a front.

    Parameters
    ----------
    objectives : (float, float)
        Values of the two objectives, in their own senses and order.
    variables : mapping
        Value of each variable of the model by name.
    exact : (Fraction, Fraction) or None
        The same values as exact rationals, both minimised (maximised objectives negated) and possibly scaled.
    proof : Proof or None
    plan : Plan or None
        None on the front of a model that isn't a `Problem`'s. It is worked out when it is first looked at.
    denominators : (float, float)
        Denominator of each objective that is a ratio; 1 for a linear one.
    """

    __pydantic_config__ = STORED

    objectives: tuple[float, float]
    variables: Mapping[str, float]
    exact: tuple[Exact, Exact] | None = None
    proof: Proof | None = None
    plan: Plan | None = _lazy
    denominators: tuple[float, float] = (1.0, 1.0)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"plan": self.plan}

    @property
    def values(self) -> Mapping[str, float]:
        """Value of each variable by name."""
        return self.variables

    @property
    def units(self) -> dict[str, int]:
        """Units rented, by resource name."""
        return self._plan().units

    @property
    def dedicated(self) -> dict[tuple[str, str], int]:
        """Units rented, by (resource, workload)."""
        return self._plan().dedicated

    @property
    def samples(self) -> dict[str, float]:
        """Samples per period, by resource name or "NAME|WORKLOAD" (several demands)."""
        return self._plan().samples

    @property
    def launches(self) -> dict[tuple[str, str], float]:
        """Launches per period, by (resource, workload)."""
        return self._plan().launches

    @property
    def busy(self) -> dict[tuple[str, str], float]:
        """Computing time per period in unit·s, by (resource, workload)."""
        return self._plan().busy

    @property
    def memory(self) -> dict[tuple[str, str], float]:
        """Bytes in use on each accelerator, by (resource, workload)."""
        return self._plan().memory

    def load_into(self, model: Any) -> None:
        """Set the variables of a Pyomo model to this point's values, by name.

        Raises
        ------
        InputError
            If the model lacks a variable; none is set then.
        """
        found = {name: model.find_component(name) for name in self.variables}
        missing = [name for name, variable in found.items() if variable is None]
        if missing:
            raise InputError(f"the model has no variable {', '.join(missing[:5])}: this point is of another model")
        for name, variable in found.items():
            if not variable.fixed:
                variable.set_value(self.variables[name], skip_validation=True)

    def _plan(self) -> Plan:
        if self.plan is None:
            raise InputError("this point has no plan: its front is not of a Problem; see `variables`")
        return self.plan


@dataclass(frozen=True)
class Segment:
    """The straight piece between two points of one integer choice.

    Variables, costs and the numerators and denominators of ratios are linear along it, so an objective that is a ratio
    follows a hyperbola. Everything is evaluated from the two ends alone.

    Parameters
    ----------
    start, end : Point
        `start` has the better first objective.
    start_closed, end_closed : bool
        Whether the end itself belongs to the front.
    proof : Proof or None
        How the piece between the ends was proven nondominated.
    """

    __pydantic_config__ = STORED

    start: Point
    end: Point
    start_closed: bool = True
    end_closed: bool = True
    proof: Proof | None = None

    def at(self, weight: float) -> Point:
        """The point at (1 − weight)·start + weight·end of the variables; an end itself at weight 0 or 1.

        The plan's batches follow from samples and launches; its memory is exact for an affine footprint and an upper
        bound for a maximum of several.

        Raises
        ------
        InputError
            `weight` outside [0, 1].
        """
        if not 0.0 <= weight <= 1.0:
            raise InputError(f"weight = {weight!r}: must lie in [0, 1]")
        if weight in (0.0, 1.0):
            return self.end if weight else self.start
        a, b = self.start, self.end
        objectives = tuple(
            p + (q - p) * reshape(weight, ratio)
            for p, q, ratio in zip(a.objectives, b.objectives, self._ratios, strict=True)
        )
        denominators = tuple(_mix(p, q, weight) for p, q in zip(a.denominators, b.denominators, strict=True))
        plan = None
        if a.plan is not None and b.plan is not None:
            plan = _mixed_plan(a.plan, b.plan, weight, (objectives[0], objectives[1]))
        return Point(
            objectives=(objectives[0], objectives[1]),
            variables=_mixed(a.variables, b.variables, weight),
            proof=self.proof,
            plan=plan,
            denominators=(denominators[0], denominators[1]),
        )

    def at_value(self, objective: int, value: float) -> Point:
        """The point where objective 0 or 1 takes `value`, which must lie between the ends."""
        p, q = self.start.objectives[objective], self.end.objectives[objective]
        share = (value - p) / (q - p)
        if not 0.0 <= share <= 1.0:
            raise InputError(f"value = {value!r}: must lie between {p!r} and {q!r}, the ends of the segment")
        point = self.at(reshape(share, 1.0 / self._ratios[objective]))
        if share in (0.0, 1.0):
            return point
        pair = (value, point.objectives[1]) if objective == 0 else (point.objectives[0], value)
        return dataclasses.replace(point, objectives=pair)

    @property
    def bend(self) -> float:
        """ρ > 0: with t the share of the way in the first objective, the second has gone `reshape(t, ρ)` of its way."""
        first, second = self._ratios
        return second / first

    @property
    def _ratios(self) -> tuple[float, float]:
        a, b = self.start.denominators, self.end.denominators
        return b[0] / a[0], b[1] / a[1]


def reshape(share: float, ratio: float) -> float:
    """t·ρ / (1 + t·(ρ − 1)): how far N/D has gone when N and D have gone t of their way, ρ = D(end)/D(start).

    N/D is the mean of its values at the two ends with weights (1 − t)·D(start) and t·D(end). These maps form a group
    in ρ: the inverse has 1/ρ, and composing multiplies.
    """
    return share * ratio / (1.0 + share * (ratio - 1.0))


def plain(value: object) -> object:
    """`value` in terms that JSON can hold: numpy scalars as numbers, sequences as lists, anything else as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    return str(value)


def _mix(p: float, q: float, weight: float) -> float:
    return p if p == q else p + (q - p) * weight


def _mixed(a: Mapping[Key, float], b: Mapping[Key, float], weight: float) -> dict[Key, float]:
    mixed = {key: _mix(a.get(key, 0.0), b.get(key, 0.0), weight) for key in a}
    return mixed | {key: weight * value for key, value in b.items() if key not in a}


def _mixed_plan(a: Plan, b: Plan, weight: float, objectives: tuple[float, float]) -> Plan:
    launches = _mixed(a.launches, b.launches, weight)
    batch, memory = {}, {}
    for key, total in launches.items():
        # A batch is samples per launch: its mean is weighted by launches, and the footprint goes with the batch.
        share = weight * b.launches.get(key, 0.0) / total
        batch[key] = _mix(a.batch.get(key, 0.0), b.batch.get(key, 0.0), share)
        memory[key] = _mix(a.memory.get(key, 0.0), b.memory.get(key, 0.0), share)
    # What is needed of each resource rises no faster than linearly from end to end, and fits the integers of both.
    dedicated = {pair: math.ceil(n - 1e-9) for pair, n in _mixed(a.dedicated, b.dedicated, weight).items()}
    units: dict[str, int] = {}
    for (name, _), n in dedicated.items():
        units[name] = units.get(name, 0) + n
    return Plan(
        units=units,
        dedicated=dedicated,
        samples=_mixed(a.samples, b.samples, weight),
        launches=launches,
        batch=batch,
        busy=_mixed(a.busy, b.busy, weight),
        billed=_mixed(a.billed, b.billed, weight),
        memory=memory,
        cost=objectives[0],
        cost_per_hour=_mix(a.cost_per_hour, b.cost_per_hour, weight),
        utilization=objectives[1],
        time_limit=a.time_limit,
        elapsed=None if a.elapsed is None or b.elapsed is None else _mix(a.elapsed, b.elapsed, weight),
        notes=tuple(dict.fromkeys(a.notes + b.notes)),
    )
