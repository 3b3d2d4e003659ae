"""Catalogs in the column layout of SkyPilot's public ones (github.com/skypilot-org/skypilot-catalog, schemas v5-v8).

What the files of its clouds have in common is the columns, not their sense; read here as follows.

* Zones: a region's rows for an instance type are one offer, at the lowest real price over the zones, on demand and
  spot each (a user is free to choose the zone). Zones that disagree on the accelerators make no offer.
* `GpuInfo` is used, where it is a mapping, to tell variants of a part apart: 40 from 80 GB, PCIe from SXM. Some clouds
  state the memory of one device, some of all, some in MiB, some in GiB; all readings are tried. Text is ignored.
* GCP rows without an instance type price the accelerators without a host, and GCP hosts of the series a2, a3, g2, ...
  come without their accelerators: neither is an offer. TPUs are, as their price includes the host (so SkyPilot's own
  gcp_catalog.py).
* TPU names count TensorCores up to v4 and for v5p (2 a chip), chips for v5e and v6e (cloud.google.com/tpu/docs).
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from mopt.errors import MISSING, Fault, InputError
from mopt.offers import Offer, check_count, is_real_price
from mopt.tables import Table, TableRow, check_columns, check_rows

CLOUDS = {
    "aws": "AWS",
    "azure": "Azure",
    "gcp": "GCP",
    "cudo": "Cudo",
    "do": "DO",
    "fluidstack": "Fluidstack",
    "hyperbolic": "Hyperbolic",
    "hyperstack": "Hyperstack",
    "ibm": "IBM",
    "lambda": "Lambda",
    "mithril": "Mithril",
    "nebius": "Nebius",
    "oci": "OCI",
    "paperspace": "Paperspace",
    "primeintellect": "PrimeIntellect",
    "runpod": "RunPod",
    "scaleway": "Scaleway",
    "scp": "SCP",
    "seeweb": "Seeweb",
    "shadeform": "Shadeform",
    "vast": "Vast",
    "verda": "Verda",
}

_TPU = re.compile(r"tpu-?(v\d+\w*?)-(\d+)")
_TPUS = {
    "v2": ("TPUv2", 2),
    "v3": ("TPUv3", 2),
    "v4": ("TPUv4", 2),
    "v5litepod": ("TPUv5e", 1),
    "v5e": ("TPUv5e", 1),
    "v5p": ("TPUv5p", 2),
    "v6e": ("TPUv6e", 1),
}


class SkyPilotRow(TableRow):
    """One instance type in one zone."""

    InstanceType: str = ""
    AcceleratorName: str = ""
    AcceleratorCount: Annotated[float, Field(ge=0, validate_default=True)] = 0.0
    vCPUs: Annotated[float, Field(ge=0)] | None = None
    MemoryGiB: Annotated[float, Field(ge=0)] | None = None
    Price: float | None = None
    Region: str = ""
    SpotPrice: float | None = None
    GpuInfo: dict[str, Any] | None = None
    AvailabilityZone: str = ""

    @field_validator("AcceleratorCount")
    @classmethod
    def _counts(cls, value: float, info: ValidationInfo) -> float:
        return check_count(value, info.data.get("AcceleratorName", ""))

    @field_validator("GpuInfo", mode="before")
    @classmethod
    def _mapping(cls, value: str) -> Any:
        if not value.startswith("{"):
            return None
        for parse in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError):
                info = parse(value)
                if isinstance(info, dict):
                    return info
        raise ValueError("must be text, or a mapping as JSON or Python write it")


COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "Region")


def cloud_of(file: str) -> str:
    """The provider that a file's name (aws.csv) or its folder's (aws/vms.csv) says; empty if neither does."""
    path = PurePath(file)
    stem = path.parent.name if path.stem == "vms" else path.stem
    return CLOUDS.get(stem.lower(), "")


def skypilot_offers(table: Table, provider: str | None) -> list[Offer]:
    """The offers of a table, one per instance type and region.

    Raises
    ------
    InputError
        If cells are malformed or columns missing; all faults at once.
    """
    check_columns(table, SkyPilotRow, COLUMNS, others=True)
    cloud = cloud_of(table.file) if provider is None else provider
    checked = check_rows(table, SkyPilotRow, _label)
    checked.faults.extend(
        Fault(table.file, record, "InstanceType", MISSING, "must be given, or AcceleratorName must")
        for record, row in checked
        if not row.InstanceType and not row.AcceleratorName
    )
    if checked.faults:
        raise InputError(checked.faults)
    zones: dict[str, list[Offer]] = {}
    for _, row in checked:
        offer = _offer(row, cloud, PurePath(table.file).name)
        zones.setdefault(offer.name, []).append(offer)
    return [_merge(offers) for offers in zones.values()]


def _label(cells: Mapping[str, Any]) -> str:
    named = (cells.get("Region"), cells.get("InstanceType") or cells.get("AcceleratorName"))
    return "/".join(part for part in named if part)


def _offer(row: SkyPilotRow, cloud: str, source: str) -> Offer:
    label, count, unusable = row.AcceleratorName, row.AcceleratorCount, ""
    instance_type = row.InstanceType
    if tpu := _TPU.fullmatch(label):
        instance_type = instance_type or (label if count == 1 else f"{count:g}x{label}")
        label, per_chip = _TPUS.get(tpu[1], (label, 1))
        count *= int(tpu[2]) / per_chip
    elif not instance_type:
        instance_type = f"{count:g}x{label}"
        unusable = "price of the accelerators without a host"
    return Offer(
        provider=cloud,
        region=row.Region,
        instance_type=instance_type,
        accelerator=label,
        count=count,
        possible_memory_gb=tuple(_memory_readings(row.GpuInfo or {}, count)),
        hints=f"{row.InstanceType} {_device_name(row.GpuInfo or {})}",
        vcpus=row.vCPUs,
        host_memory_gib=row.MemoryGiB,
        price=row.Price,
        spot_price=row.SpotPrice,
        price_source=source,
        spot_source=source,
        unusable=unusable,
    )


def _devices(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = info.get("Gpus")
    return [device for device in listed if isinstance(device, Mapping)] if isinstance(listed, list) else []


def _device_name(info: Mapping[str, Any]) -> str:
    return " ".join(str(device.get("Name", "")) for device in _devices(info))


def _memory_readings(info: Mapping[str, Any], count: float) -> Iterator[float]:
    """What the memory of one device may be, in GiB."""
    for device in (info, *_devices(info)):
        memory = device.get("MemoryInfo")
        sizes = (device.get("TotalGpuMemoryInMiB"), memory.get("SizeInMiB") if isinstance(memory, Mapping) else None)
        for size in sizes:
            if isinstance(size, int | float):
                gib = size if size < 1024 else size / 1024
                yield gib
                yield gib / max(count, 1)


def _merge(zones: list[Offer]) -> Offer:
    """One offer out of those of a region's zones."""
    first = zones[0]
    if any((zone.accelerator, zone.count) != (first.accelerator, first.count) for zone in zones):
        return replace(first, unusable="the region's zones list different accelerators")
    tpu = first.accelerator.startswith("TPU")
    return replace(
        first,
        price=_lowest((zone.price for zone in zones), tpu),
        spot_price=_lowest((zone.spot_price for zone in zones), tpu),
    )


def _lowest(prices: Iterable[float | None], tpu: bool) -> float | None:
    """The lowest real price; if none is real, the first that is listed, so that the reason can say what it was."""
    listed = [price for price in prices if price is not None]
    return min((price for price in listed if is_real_price(price, tpu)), default=listed[0] if listed else None)
