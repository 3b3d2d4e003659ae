"""The problem (step S2): what is to be served, with what, and within which limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from mopt.calibration import Calibrated, Calibration
from mopt.calibration_files import load_calibration
from mopt.communication import exchange_time, missing_bandwidth
from mopt.errors import InputError
from mopt.problem_checks import (
    ELAPSED_MAX_LAUNCHES,
    ELAPSED_MAX_UNITS,
    LARGEST_BATCH,
    assumptions_of,
    contradictions,
)
from mopt.record import pack, record, unpack
from mopt.resource import Count, NonNegative, Positive, Resource
from mopt.service import BatchLimit, UnitService, batch_limit, service_of, step_of
from mopt.table_service import Mode
from mopt.workload import Workload

Billing = Literal["reserved", "per_use", "elapsed"]
Seconds = TypeVar("Seconds", float, npt.NDArray[np.float64])


@record
class Demand:
    """A workload and how many samples of it each period needs.

    Parameters
    ----------
    workload : Workload
    samples : float
        Samples per period (B); a whole number where launches are whole.
    latency_limit : float, optional
        Longest computing time of one launch in s (L). Waiting to fill a batch and queueing come on top.
    """

    workload: Workload
    samples: Positive
    latency_limit: Positive | None = None

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.workload.name


@record
class Quota:
    """At most `max_units` units over all resources of a provider, region and accelerator (those that are given)."""

    max_units: Annotated[int, Field(ge=0)]
    provider: str | None = None
    region: str | None = None
    accelerator: str | None = None

    @model_validator(mode="after")
    def _names_a_group(self) -> Quota:
        if self.provider is None and self.region is None and self.accelerator is None:
            raise ValueError("a quota needs a provider, a region or an accelerator")
        return self

    def covers(self, resource: Resource) -> bool:
        """Whether units of the resource count towards the quota."""
        return (
            self.provider in (None, resource.provider)
            and self.region in (None, resource.region)
            and self.accelerator in (None, resource.accelerator)
        )

    def __str__(self) -> str:
        group = [value for value in (self.provider, self.region, self.accelerator) if value is not None]
        return f"at most {self.max_units} units of {' '.join(group)}"


@record
class Problem:
    """A choice of hardware: frozen, validated, picklable.

    Parameters
    ----------
    resources : sequence of Resource (a Catalog is one)
        Names must be unique.
    workload, samples, latency_limit
        The demand, if there is one only; see `Demand`.
    demands : sequence of Demand
        Several demands, instead; workload names must be unique.
    time_limit : float
        The period T in s: time of one training iteration, deadline of a batch job, 1 s of serving.
    billing : "reserved", "per_use" or "elapsed"
        Pay the whole period; pay while computing; pay until all units are done (synchronous training).
    launches : "whole" or "rate", optional
        Whether a unit's period holds whole launches of whole batches. Default: "rate" for per_use, else "whole".
    max_launches : int, optional
        Launches of one unit in a period. Default: any number; 4 for elapsed.
    max_types : int, optional
        Resources used, at most.
    budget : float, optional
        $ per period.
    min_units : mapping of resource name to int
    quotas : sequence of Quota (or dict)
    utilization : "compute"
        What utilization means.
    calibration : "auto" or Calibration, optional
        Efficiencies and host times of resources that bring none of their own, by workload: the shipped ones, or what
        `calibrate` made. Default: none, times are the roofline bound. Utilization is relative to the true peak anyway.
    startup : float
        Seconds of each unit that are paid before it computes: on top of the period and of its `unit_overhead`.
    minimum_billing : float
        Seconds that are paid of each unit at least (60, 3600, ...). Not with whole launches of per_use, which units
        can't share evenly, nor where it takes up all of an elapsed period: that is reserved.
    unit_overhead : "allreduce", optional
        Adds to what each unit of a training demand loses in a period the time in which gradients are exchanged in the
        unit and, by its `network_bandwidth`, between units, as if there were many. Default: resources' own only.

    Raises
    ------
    InputError
        If a value is outside its range or two values contradict each other; all faults at once.
    """

    resources: tuple[Resource, ...]
    workload: Workload | None = None
    samples: Positive | None = None
    time_limit: Positive = Field(kw_only=True)
    latency_limit: Positive | None = None
    demands: tuple[Demand, ...] = ()
    billing: Billing = "reserved"
    launches: Literal["whole", "rate"] | None = None
    max_launches: Count | None = None
    max_types: Count | None = None
    budget: Positive | None = None
    min_units: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    utilization: Literal["compute", "bandwidth", "memory"] = "compute"
    calibration: Calibration | Literal["auto"] | None = None
    startup: NonNegative = 0.0
    minimum_billing: NonNegative = 0.0
    unit_overhead: Literal["allreduce"] | None = None

    @field_validator("resources", mode="before")
    @classmethod
    def _sequence_of_resources(cls, value: object) -> object:
        if isinstance(value, Resource):
            return (value,)
        return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else value

    @field_validator("demands", "quotas", mode="before")
    @classmethod
    def _sequence(cls, value: object) -> object:
        return (value,) if isinstance(value, Demand | Quota) else value

    def __post_init__(self) -> None:
        faults = list(contradictions(self))
        if faults:
            raise InputError(faults)

    def __getstate__(self) -> dict[str, Any]:
        # What can be computed again doesn't travel.
        state = {key: value for key, value in self.__dict__.items() if key in self.__dataclass_fields__}
        return state | {"resources": pack(self.resources)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, resources=unpack(state["resources"]))

    # -- What follows from the data ----------------------------------------------------------------------------------

    @property
    def whole(self) -> bool:
        """Whether a unit's period holds whole launches."""
        return (self.launches or ("rate" if self.billing == "per_use" else "whole")) == "whole"

    @property
    def launches_per_unit(self) -> int | None:
        """The most launches of a unit in a period; None: any number."""
        return self.max_launches or (ELAPSED_MAX_LAUNCHES if self.billing == "elapsed" else None)

    def paid(self, seconds: Seconds) -> Seconds:
        """Seconds that are paid of a unit in use for `seconds`, a number or an array of them."""
        return cast("Seconds", np.maximum(seconds + self.startup, self.minimum_billing))

    @cached_property
    def by_name(self) -> dict[str, Resource]:
        """The resources by name."""
        return {resource.name: resource for resource in self.resources}

    @cached_property
    def demand_by_name(self) -> dict[str, Demand]:
        """The demands by workload name, also if there is one only."""
        demands = self.demands
        if self.workload is not None and self.samples is not None:
            demands = (Demand(self.workload, self.samples, self.latency_limit),)
        return {demand.name: demand for demand in demands}

    @cached_property
    def calibrated(self) -> dict[tuple[str, str], Calibrated]:
        """Of each resource and demand, by names: the resource as it serves the demand, and where its times are from."""
        calibration = load_calibration() if self.calibration == "auto" else self.calibration
        return {
            (resource.name, demand.name): self._as_serving(resource, demand.workload, calibration or Calibration(()))
            for resource in self.resources
            for demand in self.demand_by_name.values()
        }

    def _as_serving(self, resource: Resource, workload: Workload, calibration: Calibration) -> Calibrated:
        measured = workload.points and workload.measured(resource)
        found = Calibrated(resource, "given") if measured else calibration.resource_for(resource, workload)
        if self.unit_overhead is None or not (seconds := exchange_time(resource, workload)):
            return found
        overhead = resource.unit_overhead + seconds
        return found._replace(resource=replace(found.resource, unit_overhead=overhead))

    def notes(self, dedicated: Mapping[tuple[str, str], int], used: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """What to say of a plan: where the times of the pairs used come from, and what isn't counted."""
        names: dict[str, dict[str, None]] = {}
        for pair in used:
            names.setdefault(self.calibrated[pair].mark, {})[pair[0]] = None
        times = tuple(f"{mark} times: {', '.join(found)}" for mark, found in names.items())
        return times + tuple(self._uncounted(dedicated))

    def _uncounted(self, dedicated: Mapping[tuple[str, str], int]) -> Iterator[str]:
        for name, demand in self.demand_by_name.items():
            pairs = [pair for pair, n in dedicated.items() if n and pair[1] == name]
            units = sum(dedicated[pair] for pair in pairs)
            free = self.unit_overhead is None and any(self.services[pair].overhead == 0 for pair in pairs)
            if demand.workload.mode == "training" and units > 1 and free:
                yield f"communication not counted: {units} units exchange gradients of {name} in no time"

    @cached_property
    def serves(self) -> dict[str, list[str]]:
        """The demands that each resource can serve, by names; those that can serve none are left out."""
        serves: dict[str, list[str]] = {}
        for name, demand in self.services:
            serves.setdefault(name, []).append(demand)
        return serves

    @cached_property
    def peaks(self) -> dict[str, float]:
        """π of each serving resource: at the precision of the demands it can serve, the highest where they differ."""
        return {
            name: max(self.by_name[name].peak(self.demand_by_name[r].workload.precision) or 0.0 for r in demands)
            for name, demands in self.serves.items()
        }

    @cached_property
    def _served(self) -> dict[tuple[str, str], tuple[BatchLimit, UnitService | None]]:
        """Of each resource and demand: the largest batch, and what a unit can do. Offers share most of their figures."""
        known: dict[object, tuple[BatchLimit, UnitService | None]] = {}
        served = {}
        for name in self.by_name:
            for demand in self.demand_by_name.values():
                resource = self.calibrated[name, demand.name].resource
                figures = (demand.name, demand.workload.measured(resource), *_figures(resource))
                if figures not in known:
                    known[figures] = self._serve(resource, demand)
                served[name, demand.name] = known[figures]
        return served

    def _serve(self, resource: Resource, demand: Demand) -> tuple[BatchLimit, UnitService | None]:
        missing = missing_bandwidth(resource, demand.workload, exchange=self.unit_overhead is not None)
        if missing:
            return BatchLimit(0, "link", missing), None
        limit = batch_limit(
            resource,
            demand.workload,
            latency_limit=demand.latency_limit,
            time_limit=self.time_limit if self.whole else None,
            samples=demand.samples if self.whole else None,
        )
        if limit.batch <= 0 or self.time_limit <= resource.unit_overhead:
            return limit, None
        batch = min(limit.batch, LARGEST_BATCH * step_of(resource, demand.workload))
        return limit, service_of(
            resource, demand.workload, batch, self.time_limit, whole=self.whole, max_launches=self.launches_per_unit
        )

    @cached_property
    def services(self) -> dict[tuple[str, str], UnitService]:
        """Of each resource and demand that it can serve, by names: launch time, batch limit, unit capacity."""
        return {
            pair: service
            for pair, (_, service) in self._served.items()
            if service is not None and self.by_name[pair[0]].max_units != 0
        }

    @cached_property
    def modes(self) -> dict[tuple[str, str], list[Mode]]:
        """Of each of these, under elapsed billing: the ways to run its units equally."""
        known: dict[tuple[int, str], list[Mode]] = {}
        for (_, r), service in self.services.items():
            if (id(service), r) not in known:
                known[id(service), r] = service.modes(self.demand_by_name[r].samples)
        return {(i, r): known[id(service), r] for (i, r), service in self.services.items()}

    @cached_property
    def refusals(self) -> dict[tuple[str, str], BatchLimit]:
        """Of each resource and demand that it can't serve, by names: why."""
        return {
            pair: limit if limit.batch <= 0 else _refusal(self.calibrated[pair].resource, self.time_limit)
            for pair, (limit, _) in self._served.items()
            if pair not in self.services
        }

    @cached_property
    def rejected(self) -> dict[str, str]:
        """The resources that can serve no demand, each with its reason."""
        serving = {name for name, _ in self.services}
        reasons: dict[str, list[str]] = {}
        for (name, demand), limit in self.refusals.items():
            if name not in serving:
                prefix = f"{demand}: " if len(self.demand_by_name) > 1 else ""
                reasons.setdefault(name, []).append(f"{prefix}{limit.reason}")
        return {name: "; ".join(texts) for name, texts in reasons.items()}

    @cached_property
    def enough_units(self) -> dict[str, int]:
        """Units of each serving resource beyond which more bring nothing where the whole period is paid."""
        needed: Counter[str] = Counter()
        for (name, demand), service in self.services.items():
            share = self.demand_by_name[demand].samples / service.capacity
            needed[name] += math.ceil(share * (1 - 1e-12))
        return {name: max(self.min_units.get(name, 0), count) for name, count in needed.items()}

    @cached_property
    def unit_limits(self) -> dict[str, int]:
        """N of each serving resource: its own `max_units`, else enough (elapsed: 16)."""
        limits = {}
        for name, enough in self.enough_units.items():
            own = self.by_name[name].max_units
            if own is None:
                own = max(ELAPSED_MAX_UNITS, self.min_units.get(name, 0)) if self.billing == "elapsed" else enough
            limits[name] = own
        return limits

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The defaults that were filled in."""
        return tuple(assumptions_of(self))


def _figures(resource: Resource) -> tuple[object, ...]:
    """All that launch times, batch limits and capacities depend on."""
    peaks = resource.peak_flops
    return (
        tuple(peaks.items()) if isinstance(peaks, dict) else peaks,
        resource.memory_bandwidth,
        resource.memory,
        resource.compute_efficiency,
        resource.bandwidth_efficiency,
        resource.launch_floor,
        resource.launch_overhead,
        resource.unit_overhead,
        resource.accelerator_count,
        resource.trains,
        resource.link_bandwidth,
        resource.network_bandwidth is None,
    )


def _refusal(resource: Resource, time_limit: float) -> BatchLimit:
    """Why a resource doesn't serve although there is a batch that fits."""
    if resource.max_units == 0:
        return BatchLimit(0, "units", "has max_units = 0", 1)
    overhead = resource.unit_overhead
    text = f"needs more than its overhead of {overhead:.4g} s, time_limit is {time_limit:.4g} s"
    return BatchLimit(0, "time", text, overhead)
