"""Problem files: one TOML file says what to serve, with what, and within which limits.

    time_limit = 1.0            # s; the period
    samples = 2048              # per period
    workload = "resnet50-train" # a shipped one, the path of a workload file, or a [workload] table with its content

    [catalog]                   # which offers to choose from; all on-demand ones of the shipped catalog if left out
    provider = "AWS"            # a value or several, as of region, accelerator and names
    region = ["us-east-1"]

    [max_units]                 # units that can be had
    "AWS/us-east-1/p5.48xlarge" = 2

At the top may also stand `latency_limit` (s), `billing`, `launches`, `max_launches`, `max_types`, `budget` ($ per
period), `utilization`, `startup` and `minimum_billing` (s), `unit_overhead` ("allreduce") and `calibration` ("auto", the
path of a calibration file, or a table with its content), as in `Problem`. `[min_units]` is spelt like `[max_units]`;
each `[[quotas]]` table has
`max_units` and `provider`, `region`, `accelerator` or several of these. For several workloads there is one
`[[demands]]` table each, with `workload`, `samples` and, if wanted, `latency_limit`, instead of those three at the top.
Beside a workload may stand `parallelism`, a table with some of `tensor`, `pipeline`, `microbatches` and `zero`, which
goes before the workload's own.

`[catalog]` also takes `file`, a CSV file in any layout that `load_catalog` reads, and `spot = true` to have spot offers
too. Resources of one's own are `[[resources]]` tables, with the fields of `Resource` in SI units or, with the unit in
the key, `peak_tflops`, `memory_gb`, `memory_bandwidth_gbs`, `link_bandwidth_gbs` and `network_gbps` (Gbit/s). A peak is
one number or a table from precision to number. They stand alone unless there is a `[catalog]` too.

Paths are relative to the file.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import tomli_w
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from mopt.calibration import Calibration
from mopt.calibration_files import calibration_from_dict, calibration_to_dict, load_calibration
from mopt.catalog import Catalog, load_catalog
from mopt.errors import Fault, InputError
from mopt.parallelism import Parallelism
from mopt.problem import Billing, Demand, Problem, Quota
from mopt.record import faults_of
from mopt.resource import PRECISIONS, Count, Efficiency, NonNegative, Positive, Resource
from mopt.toml_tables import TomlTable, load_toml, plain_number, read_table, table_label
from mopt.workload import Workload
from mopt.workload_files import ParallelismTable, is_path, load_workload, workload_from_dict, workload_to_dict

T = TypeVar("T")
Units = Annotated[int, Field(ge=0)]

_HEAD = "problem"
# What goes from a file to the problem as it is.
_PLAIN = ("time_limit", "samples", "latency_limit", "billing", "launches", "max_launches", "max_types", "budget",
          "utilization", "startup", "minimum_billing", "unit_overhead")
_UNITS_BY_NAME: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, Units], config=ConfigDict(strict=True))


def _peaks(value: object) -> object:
    by_precision = value if isinstance(value, Mapping) else {PRECISIONS[0]: value}
    if not by_precision or any(precision not in PRECISIONS for precision in by_precision):
        raise ValueError(f"must be a number, or a table with some of {', '.join(PRECISIONS)}")
    for peak in by_precision.values():
        if isinstance(peak, bool) or not isinstance(peak, int | float) or not 0 < peak < math.inf:
            raise ValueError("must be a finite number greater than 0, or a table from precision to such numbers")
    return value


def _one_or_several(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return value
    raise ValueError("must be a text or a list of texts")


def _name_or_table(value: object) -> object:
    if isinstance(value, str | Mapping):
        return value
    raise ValueError("must be the name of a shipped workload, the path of a workload file, or a table")


def _path_or_table(value: object) -> object:
    if isinstance(value, str | Mapping):
        return value
    raise ValueError('must be "auto", the path of a calibration file, or a table')


Peaks = Annotated[Any, BeforeValidator(_peaks)]
Values = Annotated[Any, BeforeValidator(_one_or_several)]
WorkloadEntry = Annotated[Any, BeforeValidator(_name_or_table)]
CalibrationEntry = Annotated[Any, BeforeValidator(_path_or_table)]


class _HeadTable(TomlTable):
    time_limit: Positive
    samples: Positive | None = None
    workload: WorkloadEntry = None
    latency_limit: Positive | None = None
    demands: list[Any] = Field(default_factory=list)
    billing: Billing = "reserved"
    launches: Literal["whole", "rate"] | None = None
    max_launches: Count | None = None
    max_types: Count | None = None
    budget: Positive | None = None
    utilization: Literal["compute", "bandwidth", "memory"] = "compute"
    calibration: CalibrationEntry = None
    startup: NonNegative = 0.0
    minimum_billing: NonNegative = 0.0
    unit_overhead: Literal["allreduce"] | None = None
    parallelism: Any = None
    catalog: Any = None
    resources: list[Any] = Field(default_factory=list)
    max_units: Any = None
    min_units: Any = None
    quotas: list[Any] = Field(default_factory=list)


class _DemandTable(TomlTable):
    workload: WorkloadEntry
    samples: Positive
    latency_limit: Positive | None = None
    parallelism: Any = None


class _CatalogTable(TomlTable):
    file: str | None = None
    provider: Values = None
    region: Values = None
    accelerator: Values = None
    names: Values = None
    spot: bool = False


class _QuotaTable(TomlTable):
    max_units: Units
    provider: str | None = None
    region: str | None = None
    accelerator: str | None = None


class _ResourceTable(TomlTable):
    required_figures = ("peak_flops", "memory_bandwidth", "memory")
    name: Annotated[str, Field(min_length=1)]
    peak_flops: Peaks = None
    peak_tflops: Peaks = None
    memory_bandwidth: Positive = 1.0
    memory_bandwidth_gbs: Positive = 1.0
    memory: Positive = 1.0
    memory_gb: Positive = 1.0
    price_per_hour: Positive
    max_units: Units | None = None
    compute_efficiency: Efficiency = 1.0
    bandwidth_efficiency: Efficiency = 1.0
    launch_floor: NonNegative = 0.0
    launch_overhead: NonNegative = 0.0
    unit_overhead: NonNegative = 0.0
    provider: str = ""
    region: str = ""
    accelerator: str = ""
    accelerator_count: Count = 1
    spot: bool = False
    trains: bool = True
    network_bandwidth: Positive | None = None
    network_gbps: Positive | None = None
    link_bandwidth: Positive | None = None
    link_bandwidth_gbs: Positive | None = None
    source: str = ""


class ProblemFile(NamedTuple):
    """What a problem file holds: the problem, and why its catalog keeps offers out, by name."""

    problem: Problem
    rejected: dict[str, str]


def load_problem(path: str | os.PathLike[str]) -> Problem:
    """Read a problem from a TOML file.

    Raises
    ------
    InputError
        If the file can't be read or anything in it, or in the files that it names, is wrong: all faulty values at
        once or, if there are none, all contradictions between values.
    """
    return read_problem_file(path).problem


def read_problem_file(path: str | os.PathLike[str]) -> ProblemFile:
    """`load_problem`, together with what the catalog keeps out."""
    file = Path(path)
    return _Reader(str(file), file.parent).read(load_toml(file))


def save_problem(problem: Problem, path: str | os.PathLike[str]) -> None:
    """Write `problem` in SI units, resources and workloads included; `load_problem` reads the file as an equal one.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    tables = _values_set(problem)
    if problem.workload is not None:
        tables["workload"] = workload_to_dict(problem.workload)
    if isinstance(problem.calibration, Calibration):
        tables["calibration"] = calibration_to_dict(problem.calibration)
    for key in ("resources", "quotas", "demands"):
        if key in tables:
            tables[key] = [_values_set(item) for item in tables[key]]
    for table, demand in zip(tables.get("demands", ()), problem.demands, strict=True):
        table["workload"] = workload_to_dict(demand.workload)
    Path(path).write_text(tomli_w.dumps(tables), encoding="utf-8", newline="\n")


def select_offers(
    file: str | os.PathLike[str] | None = None,
    *,
    spot: bool = False,
    provider: str | Sequence[str] | None = None,
    region: str | Sequence[str] | None = None,
    accelerator: str | Sequence[str] | None = None,
    names: str | Sequence[str] | None = None,
) -> Catalog:
    """The offers of a catalog, `file` or the shipped one, for which all conditions hold; see `Catalog.where`.

    Raises
    ------
    InputError
        If the file can't be used, or has nothing of a value asked for, or nothing of all together.
    """
    catalog = load_catalog(file, spot=spot)
    chosen = catalog.where(provider=provider, region=region, accelerator=accelerator, names=names)
    if not chosen:
        conditions = {"provider": provider, "region": region, "accelerator": accelerator, "names": names}
        asked = {key: value for key, value in conditions.items() if value is not None}
        kept_out = f"; {len(chosen.rejected)} that have were kept out" if chosen.rejected else ""
        raise InputError([Fault("", "catalog", ", ".join(asked), asked, f"no offer has all of these{kept_out}")])
    return chosen


def _values_set(record: Any) -> dict[str, Any]:
    """Fields of a record that are neither empty nor at their defaults, as TOML spells them."""
    values = {field.name: getattr(record, field.name) for field in fields(record)
              if getattr(record, field.name) != field.default}
    return {key: _spelt(value) for key, value in values.items() if value is not None and value not in ((), {})}


def _spelt(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _spelt(item) for key, item in value.items()}
    return plain_number(value) if isinstance(value, float) else value


@dataclass
class _Reader:
    """Reads one file; what is wrong gathers in `faults`."""

    file: str
    folder: Path
    faults: list[Fault] = field(default_factory=list)

    def read(self, data: Mapping[str, Any]) -> ProblemFile:
        head = self._table(data, _HeadTable, _HEAD)
        values: dict[str, Any] = {key: head[key] for key in _PLAIN if key in head}
        if "workload" in data:
            values["workload"] = self._split(self._workload(data["workload"], _HEAD), data, _HEAD)
        values["calibration"] = self._calibration(head.get("calibration"))
        values["demands"] = self._each(data, "demands", self._demand)
        values["quotas"] = self._each(data, "quotas", self._quota)
        before = len(self.faults)
        catalog, own = self._catalog(data), self._each(data, "resources", self._resource)
        resources = [*(catalog or ()), *own]
        names = [resource.name for resource in resources] if len(self.faults) == before else None
        values["min_units"] = self._units(data, "min_units", names)
        most = self._units(data, "max_units", names)
        if self.faults or catalog is None:
            raise InputError(self.faults)
        values["resources"] = [replace(r, max_units=most[r.name]) if r.name in most else r for r in resources]
        problem = self._made(lambda: Problem(**values), _HEAD)
        if problem is None:
            raise InputError(self.faults)
        return ProblemFile(problem, catalog.rejected)

    def _table(self, table: Any, model: type[TomlTable], record: str) -> dict[str, Any]:
        return read_table(table, model, self.file, record, self.faults)

    def _each(self, data: Mapping[str, Any], key: str, read: Callable[[Any, str], T | None]) -> list[T]:
        tables = data.get(key)
        if not isinstance(tables, list):
            return []
        found = [read(table, table_label(key, place, table)) for place, table in enumerate(tables)]
        return [item for item in found if item is not None]

    def _made(self, make: Callable[[], T], record: str) -> T | None:
        """What is made or, if it can't be, None; its faults are of this file unless they name another."""
        try:
            return make()
        except InputError as error:
            self.faults += [f if f.file else f._replace(file=self.file, record=record) for f in error.faults]
            return None

    def _workload(self, entry: Any, record: str) -> Workload | None:
        if isinstance(entry, Mapping):
            try:
                return workload_from_dict(entry, self.file)
            except InputError as error:
                inside = "" if record == _HEAD else f"{record}: "
                self.faults += [fault._replace(record=inside + fault.record) for fault in error.faults]
                return None
        if not isinstance(entry, str):
            return None  # a fault of the table that it stands in
        return self._made(lambda: load_workload(self.folder / entry if is_path(entry) else entry), record)

    def _split(self, workload: Workload | None, table: Mapping[str, Any], record: str) -> Workload | None:
        """The workload with the parallelism of the table that names it."""
        if workload is None or "parallelism" not in table:
            return workload
        before = len(self.faults)
        how = self._table(table["parallelism"], ParallelismTable, f"{record}: parallelism")
        if len(self.faults) > before:
            return None
        return self._made(lambda: replace(workload, parallelism=Parallelism(**how)), record)

    def _calibration(self, entry: str | Mapping[str, Any] | None) -> Calibration | str | None:
        if isinstance(entry, Mapping):
            return self._made(lambda: calibration_from_dict(entry, self.file), _HEAD)
        if entry is None or entry == "auto":
            return entry
        return self._made(lambda: load_calibration(self.folder / entry), _HEAD)

    def _demand(self, table: Any, record: str) -> Demand | None:
        before = len(self.faults)
        values = self._table(table, _DemandTable, record)
        if isinstance(table, Mapping):
            values["workload"] = self._split(self._workload(table.get("workload"), record), table, record)
        values.pop("parallelism", None)
        return Demand(**values) if len(self.faults) == before else None

    def _quota(self, table: Any, record: str) -> Quota | None:
        values = self._table(table, _QuotaTable, record)
        return self._made(lambda: Quota(**values), record) if values else None

    def _resource(self, table: Any, record: str) -> Resource | None:
        before = len(self.faults)
        values = self._table(table, _ResourceTable, record)
        return Resource(**values) if len(self.faults) == before else None

    def _catalog(self, data: Mapping[str, Any]) -> Catalog | None:
        """The catalog, empty if the file has resources of its own only; None if it can't be read."""
        if "catalog" not in data and isinstance(own := data.get("resources"), list) and own:
            return Catalog([])
        before = len(self.faults)
        values = self._table(data.get("catalog", {}), _CatalogTable, "catalog")
        if len(self.faults) > before:
            return None
        file = values.pop("file", None)
        return self._made(lambda: select_offers(None if file is None else self.folder / file, **values), "catalog")

    def _units(self, data: Mapping[str, Any], key: str, names: Iterable[str] | None) -> dict[str, int]:
        """Units by resource name; `names` are those there are, None if that can't be told."""
        given = data.get(key, {})
        if not isinstance(given, Mapping):
            allowed = "must be a table from resource name to number of units"
            self.faults.append(Fault(self.file, _HEAD, key, given, allowed))
            return {}
        try:
            units = _UNITS_BY_NAME.validate_python(given)
        except ValidationError as error:
            self.faults += faults_of(error, file=self.file, record=key)
            return {}
        if names is None:
            return units
        known = set(names)
        for name in [name for name in units if name not in known]:
            close = difflib.get_close_matches(name, known, n=3)
            allowed = "must be the name of a resource" + (f"; closest: {', '.join(close)}" if close else "")
            self.faults.append(Fault(self.file, key, name, units.pop(name), allowed))
        return units
