"""The catalog: offers to choose from (step S1), shipped or a user's, and what was kept out of it and why."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from html import escape
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, overload

from mopt.catalog_file import file_offers
from mopt.catalog_frame import frame_resources, frame_table, to_frame
from mopt.errors import MISSING, Fault, InputError
from mopt.offers import Rejected, resources_of
from mopt.record import Packed, pack, unpack
from mopt.resource import Resource
from mopt.skypilot import skypilot_offers
from mopt.tables import Table, read_csv

if TYPE_CHECKING:
    import pandas as pd

# Frames hold figures in customary units; a float in GB doesn't always become the same float in B again.
_ROUNDING = 1e-15


class Catalog(Sequence[Resource]):
    """Resources to choose from: an immutable sequence, indexed by position or name.

    Parameters
    ----------
    resources : iterable of Resource
        Names must be unique.
    rejected : iterable of Rejected
        Offers that were kept out.

    Attributes
    ----------
    names : tuple of str
    rejected : dict of str to str
        Name and reason of each offer that was kept out.

    Raises
    ------
    InputError
        If a name is not unique; by indexing, if there is no such name.

    Notes
    -----
    Catalogs are equal if their resources are, figures to within the rounding of a change of units (1e-15), whatever
    was kept out of them.
    """

    def __init__(self, resources: Iterable[Resource], rejected: Iterable[Rejected] = ()) -> None:
        self._resources = tuple(resources)
        self._rejected = tuple(rejected)
        self._index = {resource.name: position for position, resource in enumerate(self._resources)}
        if len(self._index) < len(self._resources):
            counts = Counter(self.names)
            raise InputError(
                Fault("", f"Resource {name!r}", "name", name, f"must be unique; there are {count}")
                for name, count in counts.items()
                if count > 1
            )

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Catalog:
        """The catalog that a frame in the columns of `to_frame` describes.

        Needed are name, price_usd_h, memory_gb, memory_bandwidth_gbs and either peak_tflops (any precision) or peaks by
        precision (peak_fp16_tflops, ...); the other columns are optional.

        Raises
        ------
        InputError
            If values are malformed, columns missing or unknown, or names not unique; all faults at once.
        """
        return cls(frame_resources(frame_table(frame)))

    def to_frame(self) -> pd.DataFrame:
        """One row a resource, with units in the names of the columns; `Catalog.from_frame` is its inverse."""
        return to_frame(self._resources)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources, in order."""
        return tuple(resource.name for resource in self._resources)

    @property
    def rejected(self) -> dict[str, str]:
        """Why each offer that was kept out was, by name."""
        return {offer.name: offer.reason for offer in self._rejected}

    def where(
        self,
        *,
        provider: str | Collection[str] | None = None,
        region: str | Collection[str] | None = None,
        accelerator: str | Collection[str] | None = None,
        spot: bool | None = None,
        names: str | Collection[str] | None = None,
    ) -> Catalog:
        """The part of the catalog for which all conditions hold, each a value or several; None asks for nothing.

        What was kept out is selected alike.

        Raises
        ------
        InputError
            If the catalog has nothing of a value asked for; it says what there is.
        """
        conditions: dict[str, Any] = {
            "provider": provider,
            "region": region,
            "accelerator": accelerator,
            "spot": spot,
            "name": names,
        }
        wanted = {
            field: {value} if isinstance(value, str | bool) else set(value)
            for field, value in conditions.items()
            if value is not None
        }
        self._check(wanted)

        def chosen(offer: Resource | Rejected) -> bool:
            return all(getattr(offer, field) in values for field, values in wanted.items())

        return Catalog(filter(chosen, self._resources), filter(chosen, self._rejected))

    def map(self, change: Callable[[Resource], Resource]) -> Catalog:
        """The catalog with each resource changed; what was kept out stays as it is."""
        return Catalog(map(change, self._resources), self._rejected)

    def _check(self, wanted: dict[str, set[Any]]) -> None:
        faults = []
        for field, values in wanted.items():
            known = {getattr(offer, field) for offer in (*self._resources, *self._rejected)}
            faults += [
                Fault("", "Catalog", field, value, _allowed(value, known)) for value in sorted(values - known, key=str)
            ]
        if faults:
            raise InputError(faults)

    def __len__(self) -> int:
        return len(self._resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources)

    @overload
    def __getitem__(self, key: int | str) -> Resource: ...

    @overload
    def __getitem__(self, key: slice) -> Catalog: ...

    def __getitem__(self, key: int | str | slice) -> Resource | Catalog:
        if isinstance(key, slice):
            return Catalog(self._resources[key], self._rejected)
        if not isinstance(key, str):
            return self._resources[key]
        position = self._index.get(key)
        if position is None:
            kept_out = self.rejected.get(key)
            allowed = _allowed(key, set(self.names)) if kept_out is None else f"was kept out: {kept_out}"
            raise InputError([Fault("", "Catalog", "name", key, allowed)])
        return self._resources[position]

    def __contains__(self, item: object) -> bool:
        return item in self._index if isinstance(item, str) else item in self._resources

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalog):
            return NotImplemented
        return self.names == other.names and all(map(_equal, self._resources, other._resources))

    def __reduce__(self) -> tuple[Callable[..., Catalog], tuple[Any, ...]]:
        return _unpacked, (pack(self._resources), self._rejected)

    def __repr__(self) -> str:
        providers = Counter(resource.provider or "other" for resource in self._resources)
        parts = ", ".join(f"{provider} {count}" for provider, count in providers.items())
        return f"<Catalog of {len(self)} resources{': ' if parts else ''}{parts}; {len(self._rejected)} rejected>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self).strip('<>'))}</p>"


def _unpacked(packed: Packed, rejected: tuple[Rejected, ...]) -> Catalog:
    return Catalog(unpack(packed), rejected)


def _allowed(value: object, known: set[Any]) -> str:
    """What a value may be: all there is or, of many, what comes closest."""
    names = sorted(str(item) for item in known)
    if len(names) > 60:
        text = str(value)
        close = [name for name in names if text and text in name][:3] or difflib.get_close_matches(text, names, n=3)
        return f"is none of the {len(names)} there are" + (f"; closest: {', '.join(close)}" if close else "")
    return f"must be one of {', '.join(name or repr('') for name in names)}" if names else "the catalog is empty"


def _equal(one: Resource, other: Resource) -> bool:
    if one == other:
        return True
    return all(_same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(Resource))


def _same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_ROUNDING)
    return one == other


def load_catalog(
    path: str | os.PathLike[str] | None = None, *, spot: bool = False, provider: str | None = None
) -> Catalog:
    """Load the shipped catalog, or a user's from a CSV file.

    Parameters
    ----------
    path : path, optional
        A file in one of three column layouts, told apart by their headers: that of the shipped catalog.csv (cloud,
        instance_type, region, accelerator, accel_count, ...), that of `Catalog.to_frame`, or that of SkyPilot's public
        catalogs (InstanceType, AcceleratorName, ...), whose zones are merged into one offer per instance type and
        region at the lowest price. None: the shipped one.
    spot : bool
        Also load spot offers, as resources of their own named `.../spot`.
    provider : str, optional
        Provider of a SkyPilot file, which doesn't say; by default what the name of the file (aws.csv) or, for vms.csv,
        of its folder says.

    Returns
    -------
    Catalog
        `provider/region/instance_type` each. What some instance types hold is corrected where catalogs are known to
        list it wrongly (data/corrections.csv): Azure's parts of a GPU, PCIe cards listed as SXM. Offers that can't be
        used are in its `rejected`, with the reason: unknown accelerators or CPU families; no peak, bandwidth or memory
        known; prices that are missing, zero, negative, a sentinel (700 $/h for a TPU), above 100 $/h per accelerator or
        above 10 times the file's median for the accelerator; accelerators priced without their host; spot prices above
        on-demand.

    Raises
    ------
    InputError
        If the file can't be read, has none of the layouts, or has malformed cells; all faults at once.
    """
    if path is None:
        with as_file(files("mopt").joinpath("data", "catalog.csv")) as shipped:
            table = read_csv(shipped)
    else:
        table = read_csv(path)
    layout = _layout(table)
    if provider is not None and layout != "skypilot":
        raise InputError([Fault(table.file, "", "provider", provider, "is for SkyPilot's layout; the file says it")])
    if layout == "frame":
        return Catalog(resource for resource in frame_resources(table) if spot or not resource.spot)
    offers = skypilot_offers(table, provider) if layout == "skypilot" else file_offers(table)
    return Catalog(*resources_of(offers, spot=spot))


_LAYOUTS = {
    "skypilot": {"InstanceType", "AcceleratorName", "AcceleratorCount"},
    "file": {"cloud", "instance_type", "accel_count"},
    "frame": {"name", "memory_gb", "memory_bandwidth_gbs"},
}


def _layout(table: Table) -> str:
    """The layout whose telling columns the table has most of."""
    layout = max(_LAYOUTS, key=lambda name: len(_LAYOUTS[name].intersection(table.columns)))
    if not _LAYOUTS[layout].intersection(table.columns):
        allowed = "must be those of the shipped catalog.csv, of Catalog.to_frame or of SkyPilot's catalogs"
        raise InputError([Fault(table.file, "header", "columns", ", ".join(table.columns) or MISSING, allowed)])
    return layout
