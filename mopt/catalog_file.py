"""Catalogs in mopt's own CSV layout, that of the shipped data/catalog.csv: one row an instance type and region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from mopt.errors import InputError
from mopt.offers import Offer, check_count
from mopt.resource import Positive
from mopt.tables import Table, TableRow, check_columns, check_names, check_rows

COLUMNS = (
    "cloud",
    "instance_type",
    "region",
    "accelerator",
    "accel_count",
    "vcpus",
    "host_mem_gib",
    "price_usd_h",
)


class CatalogRow(TableRow):
    """One offer: whole-instance prices in $/h; `accel_mem_gb` of one accelerator, network in Gbit/s."""

    cloud: str = ""
    instance_type: str
    region: str = ""
    accelerator: str = ""
    accel_count: Annotated[float, Field(ge=0, validate_default=True)] = 0.0
    accel_mem_gb: Positive | None = None
    vcpus: Positive | None = None
    host_mem_gib: Positive | None = None
    network_gbps: Positive | None = None
    price_usd_h: float | None = None
    spot_usd_h: float | None = None
    price_date: str = ""
    spot_date: str = ""
    source: str = ""

    @field_validator("accel_count")
    @classmethod
    def _counts(cls, value: float, info: ValidationInfo) -> float:
        return check_count(value, info.data.get("accelerator", ""))


def file_offers(table: Table) -> list[Offer]:
    """The offers of a table, one a row.

    Raises
    ------
    InputError
        If cells are malformed, columns missing or unknown, or offers listed twice; all faults at once.
    """
    check_columns(table, CatalogRow, COLUMNS, others=False)
    checked = check_rows(table, CatalogRow, _label)
    offers = [(record, _offer(row)) for record, row in checked]
    check_names(table.file, [(record, offer.name) for record, offer in offers], "instance_type", checked.faults)
    if checked.faults:
        raise InputError(checked.faults)
    return [offer for _, offer in offers]


def _label(cells: Mapping[str, Any]) -> str:
    return "/".join(cells[column] for column in ("cloud", "region", "instance_type") if column in cells)


def _offer(row: CatalogRow) -> Offer:
    return Offer(
        provider=row.cloud,
        region=row.region,
        instance_type=row.instance_type,
        accelerator=row.accelerator,
        count=row.accel_count,
        memory_gb=row.accel_mem_gb,
        possible_memory_gb=() if row.accel_mem_gb is None else (row.accel_mem_gb,),
        vcpus=row.vcpus,
        host_memory_gib=row.host_mem_gib,
        network_gbps=row.network_gbps,
        price=row.price_usd_h,
        spot_price=row.spot_usd_h,
        price_source=", ".join(part for part in (row.source, row.price_date) if part),
        spot_source=", ".join(part for part in (row.source, row.spot_date) if part),
    )
