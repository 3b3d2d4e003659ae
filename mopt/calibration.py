"""Calibrated times: shares of the peaks that are reached, and what the host adds, by accelerator and kind of network.

A launch of batch b takes τ(b) = max(t0, h + Σ_l max(f_l·b/(η^c·π), (q0_l + q1_l·b)/(η^m·β))) as in
`mopt.roofline.launch_time`, with the four parameters of an `Entry`. Three rules carry them to what wasn't measured:

Products   h and t0 are of the host, which launches kernel by kernel: they are given for a number of products (layers
           with FLOPs) and grow with it. A workload of a single layer has no such count: it gets them as they are.
Power      Chips with much compute per watt throttle: in the measured tables η^c falls with it within a group (T4,
           L4, H100-PCIe against H100). Defaults follow η^c = η_ref·(x/x_ref)^(−s), x = π/(TDP − 30 W): memory and
           the rest of the board have to be fed too, which tells on cards of 70 W.
Families   Another part of the same chip (V100-PCIe for V100), then the mean of all parts in a (family, mode,
           precision), then that of the family at other precisions, stand in: "family default".
"""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, overload

from pydantic import Field, model_validator

from mopt.accelerators import chip, find_accelerator
from mopt.catalog import Catalog
from mopt.errors import Fault, InputError
from mopt.record import record
from mopt.resource import Count, Efficiency, NonNegative, Positive, Resource
from mopt.workload import Mode, Name, Precision, Workload

if TYPE_CHECKING:
    import pandas as pd

Mark = Literal["calibrated", "family default", "given", "ideal"]
Range = tuple[NonNegative, NonNegative]
Ratios = tuple[Positive, ...]
Group = tuple[str, str, str, str]

# The two 16-bit formats run at the same rate.
_SAME_RATE = {"bf16": "fp16"}
_ALIKE = re.compile(r" x(\d+)(?: \(\d+\))?$")
# W that a card takes without computing. Between 20 and 40 W chips never seen are predicted alike from the others.
_BOARD_POWER = 30.0
# Shares at which distributions of measured over predicted times are kept: 5, 10, ... 95 %.
RATIO_LEVELS = tuple(k / 20 for k in range(1, 20))


@record
class Entry:
    """Parameters of one accelerator, or the default of a group.

    Parameters
    ----------
    family, mode, precision : str
        The group: kind of network (or name of a workload without a family), "training" or "inference", precision
        ("fp16" stands for bf16 too).
    resource : str
        Accelerator, or name of a resource without one; "": the default for all others.
    framework : str
        "": whatever the framework.
    compute_efficiency, bandwidth_efficiency : float
        η^c and η^m in (0, 1].
    launch_overhead, launch_floor : float
        h and t0 in s, of a launch of `products` products.
    compute_range, bandwidth_range, overhead_range, floor_range : tuple of float
        90 % ranges, from the curvature of the fit (Gauss-Newton) and the scatter of its residuals.
    rows : int
        Measured times behind it.
    products : int
        Layers with FLOPs of what was measured, in the median.
    flops_per_watt : float, optional
        x of the power rule in FLOP/s per W, at which its η^c holds.
    power_exponent : float
        s of the power rule.
    seen_ratios, unseen_ratios : tuple of float
        Of a default: measured over predicted times at `RATIO_LEVELS`, of rows left out one by one where others are of
        the same accelerator, and of rows of a chip left out as a whole. Empty: not known.
    """

    family: Name
    mode: Mode
    precision: Precision
    compute_efficiency: Efficiency
    bandwidth_efficiency: Efficiency
    launch_overhead: NonNegative = 0.0
    launch_floor: NonNegative = 0.0
    resource: str = ""
    framework: str = ""
    compute_range: Range | None = None
    bandwidth_range: Range | None = None
    overhead_range: Range | None = None
    floor_range: Range | None = None
    rows: Annotated[int, Field(ge=0)] = 0
    products: Count = 1
    flops_per_watt: Positive | None = None
    power_exponent: float = 0.0
    seen_ratios: Ratios = ()
    unseen_ratios: Ratios = ()

    @model_validator(mode="after")
    def _all_levels(self) -> Entry:
        if any(len(ratios) not in (0, len(RATIO_LEVELS)) for ratios in (self.seen_ratios, self.unseen_ratios)):
            raise ValueError(f"seen_ratios and unseen_ratios must have {len(RATIO_LEVELS)} values, or none")
        return self

    @property
    def group(self) -> Group:
        """Family, mode, precision and framework."""
        return self.family, self.mode, self.precision, self.framework


@record
class Residual:
    """A measured time against the fitted one.

    Parameters
    ----------
    resource, workload, precision, framework : str
    batch, seconds : float
        What was measured.
    ideal, predicted, held_out : float
        Seconds: the roofline bound, the fit, and the fit without this row (None: not computed).
    used : bool
        False for rows left out as they beat the bound.
    """

    resource: str
    workload: str
    precision: str
    framework: str
    batch: float
    seconds: float
    ideal: float
    predicted: float
    held_out: float | None = None
    used: bool = True

    @property
    def error(self) -> float:
        """predicted/measured − 1."""
        return self.predicted / self.seconds - 1

    @property
    def beats_bound(self) -> bool:
        """Whether the measured time is shorter than the roofline allows."""
        return self.seconds < self.ideal * (1 - 1e-3)


class Calibrated(NamedTuple):
    """A resource as it serves a workload, and where its times come from."""

    resource: Resource
    mark: Mark


@record
class Calibration:
    """Calibrated parameters: what `calibrate` returns, and what is loaded from a file.

    Parameters
    ----------
    entries : sequence of Entry
        At most one for each (family, mode, precision, framework, resource).
    source, date : str
        Where the measurements come from.
    framework : str
        The framework whose entries go first; "": those of all frameworks together.
    residuals : sequence of Residual
        One a measured row; not saved to files.

    Raises
    ------
    InputError
        If two entries are of the same, or none has the framework.
    """

    entries: tuple[Entry, ...]
    source: str = ""
    date: str = ""
    framework: str = ""
    residuals: tuple[Residual, ...] = dataclasses.field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        counts = Counter((*entry.group, entry.resource) for entry in self.entries)
        faults = [
            Fault("", "Calibration", "entries", " ".join(filter(None, key)), f"must be one; there are {count}")
            for key, count in counts.items()
            if count > 1
        ]
        known = sorted({entry.framework for entry in self.entries if entry.framework})
        if self.framework and self.framework not in known:
            allowed = f"must be one of {', '.join(known)}" if known else "its entries don't tell frameworks apart"
            faults.append(Fault("", "Calibration", "framework", self.framework, allowed))
        if faults:
            raise InputError(faults)

    def __getstate__(self) -> dict[str, Any]:
        # What can be computed again doesn't travel.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def using(self, framework: str) -> Calibration:
        """The same with the entries of `framework` first, else an `InputError` that names those there are."""
        return dataclasses.replace(self, framework=framework)

    # -- Looking up --------------------------------------------------------------------------------------------------

    def resource_for(self, resource: Resource, workload: Workload) -> Calibrated:
        """The resource with the parameters that hold for the workload, and a mark that says where they come from.

        "calibrated": measured on this accelerator; "family default": on others, see the module; "given": the resource
        brings its own and keeps them; "ideal": nothing is known of the workload's family, the roofline bound it is.
        """
        return self._calibrated(resource, self._group(workload), workload)

    def ratios_for(self, resource: Resource, workload: Workload) -> Ratios:
        """Measured over predicted times at `RATIO_LEVELS`, as far off as predictions of this kind are; (): not known."""
        mark = self.resource_for(resource, workload).mark
        if mark not in ("calibrated", "family default"):
            return ()
        group = self._group(workload)
        kind = [entry for entry in self.entries if entry.group[:2] == group[:2] and not entry.resource]
        # Of the framework before all of them, and of the precision before others.
        kind.sort(key=lambda entry: (entry.precision != group[2], entry.framework != self.framework, entry.framework != ""))
        for default in kind:
            if ratios := (mark == "family default" and default.unseen_ratios) or default.seen_ratios:
                return ratios
        return ()

    @overload
    def apply(self, resources: Catalog, workload: Workload | None = None) -> Catalog: ...

    @overload
    def apply(self, resources: Resource, workload: Workload | None = None) -> Resource: ...

    @overload
    def apply(self, resources: Sequence[Resource], workload: Workload | None = None) -> Sequence[Resource]: ...

    def apply(
        self, resources: Catalog | Resource | Sequence[Resource], workload: Workload | None = None
    ) -> Catalog | Resource | Sequence[Resource]:
        """Calibrated resources: a catalog for a catalog, a resource for a resource, else a list.

        Parameters
        ----------
        resources : Catalog, Resource or sequence of Resource
        workload : Workload, optional
            What they are to run; needed where the calibration is of more than one (family, mode, precision). Without
            one, the host's times are those of a launch as measured.

        Raises
        ------
        InputError
            If it takes a workload to tell which entries hold.
        """
        if workload is None:
            self._check_one_group()

        def change(resource: Resource) -> Resource:
            return self._calibrated(resource, self._group(workload), workload).resource

        if isinstance(resources, Resource):
            return change(resources)
        return resources.map(change) if isinstance(resources, Catalog) else [change(r) for r in resources]

    def _check_one_group(self) -> None:
        groups = sorted({entry.group[:3] for entry in self.entries})
        if len(groups) != 1:
            held = "; ".join(" ".join(group) for group in groups) or "nothing"
            raise InputError([Fault("", "Calibration.apply", "workload", None, f"needed to choose among {held}")])

    def _group(self, workload: Workload | None) -> tuple[str, str, str]:
        if workload is None:
            return self.entries[0].group[:3]
        return workload.family or workload.name, workload.mode, rate(workload.precision)

    def _calibrated(self, resource: Resource, group: tuple[str, str, str], workload: Workload | None) -> Calibrated:
        if has_own_times(resource):
            return Calibrated(resource, "given")
        name, power = part(resource), flops_per_watt(resource, group[2])
        key = (name, power, *group)
        if key not in self._found:
            self._found[key] = self._search(name, power, group)
        found = self._found[key]
        if found is None:
            return Calibrated(resource, "ideal")
        entry, mark = found
        count = 1 if workload is None else products(workload)
        times = count / entry.products if count > 1 else 1.0
        made = dataclasses.replace(
            resource,
            compute_efficiency=entry.compute_efficiency,
            bandwidth_efficiency=entry.bandwidth_efficiency,
            launch_overhead=entry.launch_overhead * times,
            launch_floor=entry.launch_floor * times,
        )
        return Calibrated(made, mark)

    @cached_property
    def _found(self) -> dict[tuple[Any, ...], tuple[Entry, Mark] | None]:
        """What searches found so far."""
        return {}

    @cached_property
    def _index(self) -> dict[Group, dict[str, Entry]]:
        index: dict[Group, dict[str, Entry]] = {}
        for entry in self.entries:
            index.setdefault(entry.group, {})[entry.resource] = entry
        return index

    def _search(self, name: str, power: float | None, group: tuple[str, str, str]) -> tuple[Entry, Mark] | None:
        frameworks = tuple(dict.fromkeys((self.framework, "")))
        for framework in frameworks:
            entries = self._index.get((*group, framework))
            if entries is None:
                continue
            if name in entries:
                return entries[name], "calibrated"
            siblings = [entry for other, entry in entries.items() if other and chip(other) == chip(name)]
            if siblings:
                return mean(siblings, power), "family default"
            if "" in entries:
                return mean([entries[""]], power), "family default"
        for framework in frameworks:
            others = [
                entry
                for entry in self.entries
                if entry.group[:2] == group[:2] and entry.framework == framework and not entry.resource
            ]
            if others:
                return mean(others, None), "family default"
        return None

    # -- Tables ------------------------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One row an entry: its fields."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(entry) for entry in self.entries])

    def residual_frame(self) -> pd.DataFrame:
        """One row a measured time: measured, ideal, predicted and held-out seconds, error and whether it was used."""
        import pandas as pd

        rows = [dataclasses.asdict(r) | {"error": r.error, "beats_bound": r.beats_bound} for r in self.residuals]
        return pd.DataFrame(rows)

    @property
    def leave_one_out_error(self) -> float:
        """Median of |predicted/measured − 1| where each row is predicted from the others; NaN if not computed."""
        errors = [abs(r.held_out / r.seconds - 1) for r in self.residuals if r.held_out is not None]
        return statistics.median(errors) if errors else math.nan


def products(workload: Workload) -> int:
    """Layers with FLOPs. Where layers that are alike are given as one, as traces do, its name ends with their number."""
    count = 0
    for layer in workload.layers:
        if layer.flops > 0:
            alike = _ALIKE.search(layer.name)
            count += int(alike[1]) if alike else 1
    return count


def part(resource: Resource) -> str:
    """What entries call a resource: its accelerator or, without one, its name."""
    return resource.accelerator or resource.name


def rate(precision: str) -> str:
    """The precision under which entries stand: "fp16" for "bf16" too."""
    return _SAME_RATE.get(precision, precision)


def has_own_times(resource: Resource) -> bool:
    """Whether a resource brings efficiencies or host times of its own."""
    efficiencies = resource.compute_efficiency, resource.bandwidth_efficiency
    return efficiencies != (1.0, 1.0) or resource.launch_overhead > 0 or resource.launch_floor > 0


def flops_per_watt(resource: Resource, precision: str) -> float | None:
    """x of the power rule: peak FLOP/s per W that compute may take; None where either isn't known."""
    accelerator = find_accelerator(resource.accelerator) if resource.accelerator else None
    peak = resource.peak(precision)
    if accelerator is None or accelerator.power_w is None or peak is None:
        return None
    power = accelerator.power_w
    return peak / resource.accelerator_count / max(power - _BOARD_POWER, power / 2)


def mean(entries: Sequence[Entry], power: float | None) -> Entry:
    """One entry from several: geometric means of the shares, at `power` FLOP/s per W, and arithmetic means of times."""
    compute = []
    for entry in entries:
        scale = 1.0
        if power is not None and entry.flops_per_watt is not None:
            scale = (power / entry.flops_per_watt) ** -entry.power_exponent
        compute.append(min(1.0, entry.compute_efficiency * scale))
    first = entries[0]
    return dataclasses.replace(
        first,
        resource="",
        compute_efficiency=statistics.geometric_mean(compute),
        bandwidth_efficiency=statistics.geometric_mean(entry.bandwidth_efficiency for entry in entries),
        launch_overhead=statistics.fmean(e.launch_overhead * first.products / e.products for e in entries),
        launch_floor=statistics.fmean(e.launch_floor * first.products / e.products for e in entries),
        flops_per_watt=power,
        rows=sum(entry.rows for entry in entries),
    )
