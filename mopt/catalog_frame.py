"""Resources as a frame and back: one row a resource, customary units in the names of the columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mopt.errors import MISSING, Fault, InputError
from mopt.offers import BYTES_PER_GB, BYTES_PER_GBIT, FLOPS_PER_TFLOPS
from mopt.resource import PRECISIONS, Count, Efficiency, NonNegative, Positive, Resource
from mopt.tables import Table, TableRow, check_columns, check_names, check_rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("name", "price_usd_h", "memory_gb", "memory_bandwidth_gbs")

_PEAK = "peak_tflops"
_PEAKS = {precision: f"peak_{precision}_tflops" for precision in PRECISIONS}


class FrameRow(TableRow):
    """One resource. `peak_tflops` holds for any precision; otherwise give peaks by precision."""

    name: Annotated[str, Field(min_length=1)]
    provider: str = ""
    region: str = ""
    accelerator: str = ""
    accelerator_count: Count = 1
    spot: bool = False
    trains: bool = True
    price_usd_h: Positive
    memory_gb: Positive
    memory_bandwidth_gbs: Positive
    peak_tflops: Positive | None = None
    peak_fp64_tflops: Positive | None = None
    peak_fp32_tflops: Positive | None = None
    peak_tf32_tflops: Positive | None = None
    peak_fp16_tflops: Positive | None = None
    peak_bf16_tflops: Positive | None = None
    peak_fp8_tflops: Positive | None = None
    peak_int8_tflops: Positive | None = None
    network_gbps: Positive | None = None
    link_bandwidth_gbs: Positive | None = None
    max_units: Annotated[int, Field(ge=0)] | None = None
    compute_efficiency: Efficiency = 1.0
    bandwidth_efficiency: Efficiency = 1.0
    launch_floor_s: NonNegative = 0.0
    launch_overhead_s: NonNegative = 0.0
    unit_overhead_s: NonNegative = 0.0
    source: str = ""


def to_frame(resources: Iterable[Resource]) -> pd.DataFrame:
    """Everything there is to know of the resources, one row each."""
    import pandas as pd

    frame = pd.DataFrame([_cells(resource) for resource in resources], columns=list(FrameRow.model_fields))
    peaks = [_PEAK, *_PEAKS.values()]
    numbers = [*peaks, "network_gbps", "link_bandwidth_gbs"]
    frame[numbers] = frame[numbers].astype(float)
    frame["max_units"] = frame["max_units"].astype("Int64")
    return frame.drop(columns=[column for column in peaks if frame[column].isna().all()])


def frame_table(frame: pd.DataFrame) -> Table:
    """A frame as a table, its missing values left out."""
    import pandas as pd

    columns = tuple(str(column) for column in frame.columns)
    rows = tuple(
        (f"row {index}", {column: cell for column, cell in zip(columns, cells, strict=True) if not pd.isna(cell)})
        for index, cells in enumerate(frame.itertuples(index=False, name=None))
    )
    return Table("", columns, rows)


def frame_resources(table: Table) -> list[Resource]:
    """The resources of a table in the columns of `to_frame`.

    Raises
    ------
    InputError
        If cells are malformed, columns missing or unknown, or names not unique; all faults at once.
    """
    check_columns(table, FrameRow, COLUMNS, others=False)
    checked = check_rows(table, FrameRow, lambda cells: str(cells.get("name", "")))
    peaks = [(record, _peaks(row)) for record, row in checked]
    for (record, by_precision), (_, row) in zip(peaks, checked, strict=True):
        if not by_precision and row.peak_tflops is None:
            allowed = f"this or one of {', '.join(_PEAKS.values())} must be given"
            checked.faults.append(Fault(table.file, record, _PEAK, MISSING, allowed))
        if by_precision and row.peak_tflops is not None:
            allowed = "must be left out where peaks by precision are given"
            checked.faults.append(Fault(table.file, record, _PEAK, row.peak_tflops, allowed))
    check_names(table.file, [(record, row.name) for record, row in checked], "name", checked.faults)
    if checked.faults:
        raise InputError(checked.faults)
    return [_resource(row) for _, row in checked]


def _peaks(row: FrameRow) -> dict[str, float]:
    listed = {precision: getattr(row, column) for precision, column in _PEAKS.items()}
    return {precision: value for precision, value in listed.items() if value is not None}


def _resource(row: FrameRow) -> Resource:
    by_precision = {precision: value * FLOPS_PER_TFLOPS for precision, value in _peaks(row).items()}
    return Resource(
        name=row.name,
        peak_flops=by_precision if row.peak_tflops is None else row.peak_tflops * FLOPS_PER_TFLOPS,
        memory_bandwidth=row.memory_bandwidth_gbs * BYTES_PER_GB,
        memory=row.memory_gb * BYTES_PER_GB,
        price_per_hour=row.price_usd_h,
        max_units=row.max_units,
        compute_efficiency=row.compute_efficiency,
        bandwidth_efficiency=row.bandwidth_efficiency,
        launch_floor=row.launch_floor_s,
        launch_overhead=row.launch_overhead_s,
        unit_overhead=row.unit_overhead_s,
        provider=row.provider,
        region=row.region,
        accelerator=row.accelerator,
        accelerator_count=row.accelerator_count,
        spot=row.spot,
        trains=row.trains,
        network_bandwidth=None if row.network_gbps is None else row.network_gbps * BYTES_PER_GBIT,
        link_bandwidth=None if row.link_bandwidth_gbs is None else row.link_bandwidth_gbs * BYTES_PER_GB,
        source=row.source,
    )


def _cells(resource: Resource) -> Mapping[str, Any]:
    peak = resource.peak_flops
    if isinstance(peak, dict):
        peaks = {_PEAKS[precision]: _in_units(value, FLOPS_PER_TFLOPS) for precision, value in peak.items()}
    else:
        peaks = {_PEAK: _in_units(peak, FLOPS_PER_TFLOPS)}
    network, link = resource.network_bandwidth, resource.link_bandwidth
    return {
        "name": resource.name,
        "provider": resource.provider,
        "region": resource.region,
        "accelerator": resource.accelerator,
        "accelerator_count": resource.accelerator_count,
        "spot": resource.spot,
        "trains": resource.trains,
        "price_usd_h": resource.price_per_hour,
        "memory_gb": _in_units(resource.memory, BYTES_PER_GB),
        "memory_bandwidth_gbs": _in_units(resource.memory_bandwidth, BYTES_PER_GB),
        **peaks,
        "network_gbps": None if network is None else _in_units(network, BYTES_PER_GBIT),
        "link_bandwidth_gbs": None if link is None else _in_units(link, BYTES_PER_GB),
        "max_units": resource.max_units,
        "compute_efficiency": resource.compute_efficiency,
        "bandwidth_efficiency": resource.bandwidth_efficiency,
        "launch_floor_s": resource.launch_floor,
        "launch_overhead_s": resource.launch_overhead,
        "unit_overhead_s": resource.unit_overhead,
        "source": resource.source,
    }


def _in_units(value: float, unit: float) -> float:
    """`value` in units, such that multiplying by the unit gives it back to the last bit wherever a float does."""
    quotient = value / unit
    around = (quotient, math.nextafter(quotient, math.inf), math.nextafter(quotient, 0.0))
    return next((number for number in around if number * unit == value), quotient)
