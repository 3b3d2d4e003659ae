"""From what a catalog lists to resources: the hardware behind an offer, and the reasons to keep one out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mopt.accelerators import Accelerator, corrections, cpu_family, find_accelerator
from mopt.resource import Resource

# Fetchers of GCP prices write 700 $/h (whatever the size) for a TPU that has no price in a region.
TPU_SENTINEL = 700.0
# $/h per accelerator or CPU socket. The dearest real ones are below 30 (H100 and H200 in the dearest Azure regions).
HIGHEST_PRICE = 100.0
# Times the median price per accelerator in the same file. Real offers of one accelerator differ by a factor of 4: host
# size, region.
OUTLIER = 10.0

FLOPS_PER_TFLOPS = 1e12
BYTES_PER_GB = 1e9
BYTES_PER_GIB = 2**30
BYTES_PER_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True)
class Offer:
    """What a catalog lists for one instance type in one region.

    `count` accelerators named `accelerator` (empty: a CPU instance) of `memory_gb` GB each, where listed;
    `possible_memory_gb` are the readings of a listing that may be of one device or of all. Prices in $/h.
    """

    provider: str
    region: str
    instance_type: str
    accelerator: str = ""
    count: float = 0.0
    memory_gb: float | None = None
    possible_memory_gb: tuple[float, ...] = ()
    hints: str = ""
    vcpus: float | None = None
    host_memory_gib: float | None = None
    network_gbps: float | None = None
    price: float | None = None
    spot_price: float | None = None
    price_source: str = ""
    spot_source: str = ""
    unusable: str = ""

    @property
    def name(self) -> str:
        """`provider/region/instance_type`, without the parts that are empty."""
        return "/".join(part for part in (self.provider, self.region, self.instance_type) if part)


def check_count(count: float, accelerator: str) -> float:
    """A count of accelerators that a catalog may list, or `ValueError`."""
    if accelerator and count == 0:
        raise ValueError("must be greater than 0 where an accelerator is named")
    if count > 0 and not accelerator:
        raise ValueError("must be 0 where no accelerator is named")
    if count > 1 and count != int(count):
        raise ValueError("must be a whole number, or below 1 for a part of an accelerator")
    return count


class Rejected(NamedTuple):
    """An offer that was kept out, and why."""

    name: str
    provider: str
    region: str
    accelerator: str
    spot: bool
    reason: str


class Hardware(NamedTuple):
    """`share` accelerators or CPU sockets (a fraction is a part of one) with `memory` bytes, as one unit."""

    accelerator: Accelerator
    share: float
    memory: float

    @property
    def units(self) -> int:
        """Accelerators that run data parallel: a part of one is one, and so are a machine's CPUs together."""
        return 1 if self.accelerator.kind == "cpu" else max(1, round(self.share))


def hardware_of(offer: Offer) -> Hardware | str:
    """The hardware behind an offer, or the reason why it can't be told."""
    if offer.unusable:
        return offer.unusable
    correction = corrections().get(offer.instance_type)
    if correction is not None:
        label, count = correction.accelerator, correction.count
    elif offer.accelerator:
        label, count = offer.accelerator, offer.count
    else:
        return _cpu_of(offer)
    accelerator = find_accelerator(label, offer.possible_memory_gb, offer.hints)
    if accelerator is None:
        return f"unknown accelerator {label!r}"
    # A correction knows better than the catalog's memory, too.
    memory_gb = offer.memory_gb if offer.memory_gb and correction is None else accelerator.memory_gb
    return _with_roofs(accelerator, count, None if memory_gb is None else memory_gb * count * BYTES_PER_GB)


def _cpu_of(offer: Offer) -> Hardware | str:
    name, family = cpu_family(offer.instance_type)
    if family is None:
        return f"unknown CPU family {name!r}"
    if family.cpu is None:
        return family.note
    if not offer.vcpus or not offer.host_memory_gib:
        return "a CPU offer without vCPUs or host memory"
    return _with_roofs(family.cpu, offer.vcpus / family.socket_vcpus, offer.host_memory_gib * BYTES_PER_GIB)


def _with_roofs(accelerator: Accelerator, share: float, memory: float | None) -> Hardware | str:
    missing = [
        what
        for what, value in (
            ("peak FLOP/s", accelerator.peak_tflops),
            ("memory bandwidth", accelerator.bandwidth_gbs),
            ("memory size", memory),
        )
        if not value
    ]
    if missing or memory is None:
        return f"no {' or '.join(missing)} is known of {accelerator.name}"
    return Hardware(accelerator, share, memory)


def is_real_price(price: float | None, tpu: bool = False) -> bool:
    """Whether a listed price is one at all: not missing, zero, negative or a sentinel."""
    return price is not None and price > 0 and not (tpu and price == TPU_SENTINEL)


def _price_fault(price: float | None, hardware: Hardware, median: float | None) -> str:
    """Why a price can't be used; empty if it can."""
    if price is None:
        return "no price"
    if price <= 0:
        return f"a price of {price:g} $/h"
    if not is_real_price(price, hardware.accelerator.kind == "tpu"):
        return f"{price:g} $/h stands for a TPU without a price"
    each = price / hardware.share
    unit = "CPU socket" if hardware.accelerator.kind == "cpu" else "accelerator"
    if each > HIGHEST_PRICE:
        return f"{each:g} $/h per {unit} is above {HIGHEST_PRICE:g}, more than any costs"
    if median is not None and each > OUTLIER * median:
        return f"{each:g} $/h per {unit} is above {OUTLIER:g} times the median of {hardware.accelerator.name}"
    return ""


def _medians(found: Iterable[tuple[Offer, Hardware | str]]) -> dict[str, float]:
    """Median on-demand $/h per accelerator or socket, by name."""
    each: dict[str, list[float]] = {}
    for offer, hardware in found:
        if isinstance(hardware, Hardware) and offer.price and not _price_fault(offer.price, hardware, None):
            each.setdefault(hardware.accelerator.name, []).append(offer.price / hardware.share)
    return {name: statistics.median(prices) for name, prices in each.items()}


def resources_of(offers: Sequence[Offer], *, spot: bool) -> tuple[list[Resource], list[Rejected]]:
    """Every offer either as a resource or as rejected with a reason; so is its spot offer, if `spot` and it has one."""
    found = [(offer, hardware_of(offer)) for offer in offers]
    medians = _medians(found)
    resources: list[Resource] = []
    rejected: list[Rejected] = []
    for offer, hardware in found:
        listed = [(False, offer.price)]
        if spot and offer.spot_price is not None:
            listed.append((True, offer.spot_price))
        for is_spot, price in listed:
            if isinstance(hardware, str):
                reason, accelerator = hardware, offer.accelerator
            else:
                accelerator = hardware.accelerator.name
                reason = _price_fault(price, hardware, medians.get(accelerator))
                if is_spot and not reason and _is_above(price, offer.price):
                    reason = f"a spot price of {price:g} $/h, above the {offer.price:g} on demand"
            if reason or isinstance(hardware, str) or price is None:
                name = _name(offer, is_spot)
                rejected.append(Rejected(name, offer.provider, offer.region, accelerator, is_spot, reason))
            else:
                resources.append(_resource(offer, hardware, price, is_spot))
    return resources, rejected


def _is_above(spot_price: float | None, price: float | None) -> bool:
    return spot_price is not None and price is not None and 0 < price < spot_price


def _name(offer: Offer, spot: bool) -> str:
    return f"{offer.name}/spot" if spot else offer.name


def _resource(offer: Offer, hardware: Hardware, price: float, spot: bool) -> Resource:
    accelerator, share = hardware.accelerator, hardware.share
    bandwidth_gbs = accelerator.bandwidth_gbs or 0.0
    return Resource(
        name=_name(offer, spot),
        peak_flops={key: value * share * FLOPS_PER_TFLOPS for key, value in accelerator.peak_tflops.items()},
        memory_bandwidth=bandwidth_gbs * share * BYTES_PER_GB,
        memory=hardware.memory,
        price_per_hour=price,
        provider=offer.provider,
        region=offer.region,
        accelerator=accelerator.name,
        accelerator_count=hardware.units,
        spot=spot,
        trains=accelerator.trains,
        network_bandwidth=None if offer.network_gbps is None else offer.network_gbps * BYTES_PER_GBIT,
        link_bandwidth=accelerator.link_gbs * BYTES_PER_GB if hardware.units > 1 and accelerator.link_gbs else None,
        source=offer.spot_source if spot else offer.price_source,
    )
