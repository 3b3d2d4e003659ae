"""Throughput tables of language model serving: requests per second of a GPU, by input and output length.

The layout is that of Mélange's configuration (Griggs et al., Mélange: Cost Efficient Large Language Model Serving by
Exploiting GPU Heterogeneity, arXiv 2404.14527):

    {"gpu_info": {"A10G": {"cost": 1.01, "tputs": [[2, 1], [5, 2]]}, ...},     $/h; requests/s, 0 where it can't serve
     "workload_distribution": [[0.2, 0.1], [0.5, 0.2]],                        shares: a row an input length
     "total_request_rate": 30.0}                                               requests/s
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mopt.accelerators import find_accelerator
from mopt.errors import MISSING, Fault, InputError
from mopt.operating_points import OperatingPoint
from mopt.problem import Demand, Problem
from mopt.resource import NonNegative, Positive, Resource
from mopt.toml_tables import TomlTable, read_table
from mopt.workload import Workload

Matrix = Sequence[Sequence[float]]
_Rows = Annotated[list[Annotated[list[NonNegative], Field(min_length=1)]], Field(min_length=1)]

# The period: costs per period are $/h then.
HOUR = 3600.0


class _Config(TomlTable):
    gpu_info: dict[str, Any]
    workload_distribution: _Rows
    total_request_rate: Positive | None = None
    slice_factor: Any = None


class _Gpu(TomlTable):
    cost: Positive
    tputs: _Rows


def load_melange(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    total_rate: float | None = None,
    resources: Mapping[str, Resource] | None = None,
    flops: Matrix | None = None,
    precision: str = "fp16",
) -> Problem:
    """A serving problem from a throughput table: one demand a pair of lengths, one table of launch times each.

    Each unit serves one demand: where rates are low, that takes more units than Mélange, whose GPUs may serve several
    request sizes in turn. `slice_factor` is of no effect, as demands may be split anyhow.

    Parameters
    ----------
    source : path or mapping
        A JSON file, or what stands in it.
    total_rate : float, optional
        Requests per second, instead of the file's.
    resources : mapping of GPU to Resource, optional
        Where peak, bandwidth and memory are from, for GPUs that the shipped table of accelerators doesn't have.
    flops : matrix, optional
        FLOP of one request, shape (input lengths, output lengths). By default a request counts as what the GPU spends
        on it that spends least, π/throughput: utilization is then relative to the best GPU for each request.
    precision : str
        Of the peaks.

    Returns
    -------
    Problem
        Reserved by the hour, so that `cost` is $/h, with launches at a rate. Demands are named "input I, output O".

    Raises
    ------
    InputError
        If the file can't be read, or tables don't have the same shape, or figures are missing or wrong; all faults at
        once.
    """
    data, file = (source, "") if isinstance(source, Mapping) else _read(Path(source))
    faults: list[Fault] = []
    config = read_table(data, _Config, file, "configuration", faults)
    gpus = {
        name: read_table(table, _Gpu, file, f"gpu_info {name!r}", faults)
        for name, table in (config.get("gpu_info") or {}).items()
    }
    rate = total_rate if total_rate is not None else config.get("total_request_rate")
    if rate is None and not faults:
        faults.append(Fault(file, "configuration", "total_request_rate", MISSING, "missing: requests per second"))
    elif rate is not None and not 0 < rate < float("inf"):
        faults.append(Fault(file, "configuration", "total_rate", rate, "must be a finite number greater than 0"))
    if faults:
        raise InputError(faults)
    shares: Matrix = config["workload_distribution"]
    matrices = {"workload_distribution": shares, **{f"gpu_info {name!r}": gpu["tputs"] for name, gpu in gpus.items()}}
    if flops is not None:
        matrices["flops"] = flops
    shape = [len(row) for row in shares]
    for name, matrix in matrices.items():
        if (found := [len(row) for row in matrix]) != [shape[0]] * len(shape):
            faults.append(Fault(file, name, "numbers a row", found, f"must be {[shape[0]] * len(shape)}, as all tables"))
    made = {name: _resource(name, gpu["cost"], (resources or {}).get(name), file, faults) for name, gpu in gpus.items()}
    if not gpus:
        faults.append(Fault(file, "configuration", "gpu_info", {}, "at least one GPU"))
    if not any(share for row in shares for share in row):
        faults.append(Fault(file, "configuration", "workload_distribution", shares, "at least one share above 0"))
    found_resources = [resource for resource in made.values() if resource is not None]
    faults += [
        Fault(file, f"gpu_info {r.name!r}", "precision", precision, "has no peak of this precision")
        for r in found_resources
        if r.peak(precision) is None
    ]
    if faults or rate is None:
        raise InputError(faults)
    tables = {resource.name: gpus[resource.name]["tputs"] for resource in found_resources}
    demands = []
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            if not share:
                continue
            name = f"input {i}, output {j}"
            served = [(r, tables[r.name][i][j]) for r in found_resources if tables[r.name][i][j]]
            if not served:
                faults.append(Fault(file, name, "tputs", 0, "must be above 0 on some GPU: it has a share of requests"))
                continue
            work = flops[i][j] if flops is not None else min((r.peak(precision) or 0.0) / t for r, t in served)
            points = tuple(OperatingPoint(1, flops=(work,), time=1 / t, resource=r.name) for r, t in served)
            demands.append(Demand(Workload(name, precision, points=points, sample="request"), share * rate * HOUR))
    if faults:
        raise InputError(faults)
    return Problem(tuple(found_resources), demands=tuple(demands), time_limit=HOUR, launches="rate")


def _read(file: Path) -> tuple[Any, str]:
    try:
        return json.loads(file.read_text(encoding="utf-8")), str(file)
    except OSError as error:
        raise InputError([Fault(str(file), "", "file", MISSING, f"can't be read: {error.strerror}")]) from None
    except ValueError as error:
        raise InputError([Fault(str(file), "", "file", MISSING, f"is not JSON: {error}")]) from None


def _resource(name: str, cost: float, given: Resource | None, file: str, faults: list[Fault]) -> Resource | None:
    if given is not None:
        return replace(given, name=name, price_per_hour=cost)
    accelerator = find_accelerator(name)
    if accelerator is None or not accelerator.bandwidth_gbs or not accelerator.memory_gb:
        allowed = "not in the table of accelerators: give its figures by resources={name: Resource(...)}"
        faults.append(Fault(file, "configuration", "gpu_info", name, allowed))
        return None
    return Resource(
        name,
        peak_flops={key: peak * 1e12 for key, peak in accelerator.peak_tflops.items()},
        memory_bandwidth=accelerator.bandwidth_gbs * 1e9,
        memory=accelerator.memory_gb * 1e9,
        price_per_hour=cost,
        accelerator=accelerator.name,
        trains=accelerator.trains,
    )
