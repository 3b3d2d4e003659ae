"""What accelerators and CPUs can do, and which of them a catalog's label or an instance type means."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files

_PEAKS = {
    "fp32": "fp32_tflops",
    "tf32": "tf32_tflops_dense",
    "fp16": "fp16_tflops_dense",
    "bf16": "bf16_tflops_dense",
    "fp8": "fp8_tflops_dense",
    "int8": "int8_tops_dense",
}
_VENDORS = {"amd", "aws", "geforce", "google", "instinct", "intel", "nvidia", "radeon", "tesla"}
_MEMORY = re.compile(r"(\d+)gb")
_PLAIN_FORM = re.compile(r"sxm\d?|nvlink|hgx|mega|hbm\w*")
_SAME_PART = {"a6000": "rtxa6000", "rtxpro6000s": "rtxpro6000", "gaudihl205": "gaudi"}

# Vendors' 80 GB are 80 GiB, of which drivers report a few percent less; the closest variants are 80 and 94 GB.
_MEMORY_TOLERANCE = 0.08


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator, or one socket of a CPU.

    Memory in GB, bandwidth in GB/s, dense peaks in TFLOP/s by precision, thermal design power in W; what it sends to
    others in a machine in GB/s, one way: by its links or, if it has none, by PCIe.
    """

    name: str
    kind: str
    memory_gb: float | None
    bandwidth_gbs: float | None
    peak_tflops: dict[str, float]
    trains: bool
    power_w: float | None
    link_gbs: float | None = None


@dataclass(frozen=True, slots=True)
class CpuFamily:
    """The CPU of an instance family and the vCPUs of one socket; without them, `note` says why."""

    cpu: Accelerator | None
    socket_vcpus: float
    note: str


@dataclass(frozen=True, slots=True)
class Correction:
    """What an instance type really holds, where catalogs list something else."""

    accelerator: str
    count: float


@dataclass(frozen=True, slots=True)
class _Label:
    """A label taken apart: "A100-80GB-PCIe" is ("a100", 80, "pcie")."""

    base: str
    memory_gb: float | None
    form: str


@lru_cache(maxsize=4096)
def _parse(label: str) -> _Label:
    base, memory_gb, form = "", None, ""
    for token in re.split(r"[^a-z0-9]+", label.lower()):
        if match := _MEMORY.fullmatch(token):
            memory_gb = float(match[1])
        elif token in ("pcie", "nvl"):
            form = token
        elif token not in _VENDORS and not _PLAIN_FORM.fullmatch(token):
            base += token
    return _Label(_SAME_PART.get(base, base), memory_gb, form)


def _data(name: str) -> Iterator[dict[str, str]]:
    with files("mopt").joinpath("data", name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


@cache
def accelerators() -> dict[str, Accelerator]:
    """The shipped table, by name."""
    return {
        row["name"]: Accelerator(
            name=row["name"],
            kind=row["kind"],
            memory_gb=float(row["mem_gb"]) if row["mem_gb"] else None,
            bandwidth_gbs=float(row["mem_bw_gbs"]) if row["mem_bw_gbs"] else None,
            peak_tflops={key: float(row[column]) for key, column in _PEAKS.items() if row[column]},
            trains=row["trains"] == "yes",
            power_w=float(row["tdp_w"]) if row["tdp_w"] else None,
            link_gbs=float(row["link_gbs_bidir"] or 0) / 2 or float(row["pcie_gbs_1dir"] or 0) or None,
        )
        for row in _data("accelerators.csv")
    }


@cache
def _variants() -> dict[str, list[Accelerator]]:
    variants: dict[str, list[Accelerator]] = {}
    for accelerator in accelerators().values():
        variants.setdefault(_parse(accelerator.name).base, []).append(accelerator)
    return variants


@cache
def _cpu_families() -> dict[str, CpuFamily]:
    return {
        row["family"]: CpuFamily(accelerators().get(row["cpu"]), float(row["socket_vcpus"] or 0), row["note"])
        for row in _data("cpu_families.csv")
    }


@cache
def corrections() -> dict[str, Correction]:
    """The shipped corrections, by instance type."""
    return {
        row["instance_type"]: Correction(row["accelerator"], float(Fraction(row["accel_count"])))
        for row in _data("corrections.csv")
    }


def chip(label: str) -> str:
    """The part that a label means, whatever its memory and form: "a100" for "NVIDIA A100-80GB-PCIe"."""
    return _parse(label).base


def find_accelerator(label: str, memory_gb: Iterable[float] = (), hints: str = "") -> Accelerator | None:
    """The accelerator of the table that a catalog's label means; None if there is none.

    Vendor words, case and punctuation don't matter. Among variants of one part, memory decides first (the label's
    own, else whatever `memory_gb` may mean: a catalog that lists 40 or 80 GB for two A100 does not say which), then the
    form (PCIe, NVL) that the label or else the hints (instance type, device name) name, then the order of the table.
    """
    wanted = _parse(label)
    sizes = tuple(memory_gb) if wanted.memory_gb is None else (wanted.memory_gb,)
    form = wanted.form or _parse(hints).form

    def mismatch(accelerator: Accelerator) -> tuple[bool, bool]:
        size = accelerator.memory_gb
        other_size = bool(sizes) and not any(size and abs(s - size) <= _MEMORY_TOLERANCE * size for s in sizes)
        return other_size, _parse(accelerator.name).form != form

    return min(_variants().get(wanted.base, ()), key=mismatch, default=None)


def cpu_family(instance_type: str) -> tuple[str, CpuFamily | None]:
    """The family of an instance type ("c5.*", "Standard_D*as_v6", "c3-*") and, where the table has it, its CPU."""
    if instance_type.startswith("Standard_"):
        family = re.sub(r"(?<=^Standard_[A-Z])\d+", "*", instance_type)
    else:
        family = re.sub(r"(?<=[.-]).*", "*", instance_type, count=1)
    return family, _cpu_families().get(family)
