"""What `mopt measure` does and prints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mopt.calibrating import calibrate
from mopt.calibration import Calibration, rate
from mopt.calibration_files import save_calibration
from mopt.catalog import Catalog
from mopt.errors import Fault, InputError
from mopt.measure import measure_resource, measure_workload, shipped_network
from mopt.measurements import at_precision
from mopt.resource import PRECISIONS, Resource
from mopt.workload_files import load_workload


def measure_machine(
    workload: str | None,
    batches: str,
    precision: str | None,
    backend: str | None,
    device: str | None,
    price: float,
    out: Path | None,
) -> tuple[Resource, Calibration | None]:
    """Measure, print and write; see `mopt measure --help`.

    Raises
    ------
    InputError
        If an option has a value that isn't allowed; all faults at once.
    """
    _check(batches, precision, backend, device, workload, price)
    if out is not None:
        _make_folder(out)
    options: dict[str, Any] = {"backend": backend if workload is None else "torch", "device": device}
    resource = measure_resource(**options, price_per_hour=price)
    console = Console()
    console.print(f"{resource.name}: {resource.source}")
    table = Table("precision", "TFLOP/s", "ridge point, FLOP/B")
    for name in resource.peak_flops if isinstance(resource.peak_flops, dict) else ():
        table.add_row(name, f"{(resource.peak(name) or 0) / 1e12:.4g}", f"{resource.ridge_point(name):.4g}")
    console.print(table)
    console.print(f"{resource.memory_bandwidth / 1e9:.4g} GB/s, {resource.memory / 1e9:.4g} GB")
    calibration = None
    if workload is not None:
        calibration = _calibrated(console, resource, workload, _batches(batches), precision, device)
    if out is not None:
        Catalog([resource]).to_frame().to_csv(out / "resource.csv", index=False)
        if calibration is not None:
            save_calibration(calibration, out / "calibration.toml")
    return resource, calibration


def _calibrated(
    console: Console, resource: Resource, name: str, batches: list[int], precision: str | None, device: Any
) -> Calibration:
    own = load_workload(name)
    wanted = precision or (own.precision if resource.accelerator else "fp32")
    workload = at_precision(own, wanted)
    if resource.peak(wanted) is None:
        known = ", ".join(resource.peak_flops) if isinstance(resource.peak_flops, dict) else ""
        raise InputError([Fault("", "measure", "precision", wanted, f"this machine has {known}")])
    network = shipped_network(name)
    times = measure_workload(
        network.module, network.inputs, workload, batches, resource=resource.name, device=device,
        optimizer=network.optimizer,
    )  # fmt: skip
    made = calibrate(times, resource, workload, source=resource.source)
    table = Table("batch", "measured, ms", "samples/s", "bound, ms", "fitted, ms")
    for r in made.residuals:
        cells = (r.seconds * 1e3, r.batch / r.seconds, r.ideal * 1e3, r.predicted * 1e3)
        table.add_row(f"{r.batch:g}", *(f"{value:.4g}" for value in cells))
    console.print(f"{workload.name} in {rate(wanted)}")
    console.print(table)
    fitted = made.resource_for(resource, workload).resource
    console.print(
        f"compute efficiency {fitted.compute_efficiency:.3g}, bandwidth efficiency {fitted.bandwidth_efficiency:.3g}, "
        f"overhead {fitted.launch_overhead * 1e3:.3g} ms, floor {fitted.launch_floor * 1e3:.3g} ms a launch"
    )
    return made


def _batches(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _make_folder(out: Path) -> None:
    """Made before measuring, so that a wrong path shows at once."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError([Fault("", "", "--out", str(out), f"can't be made: {error.strerror}")]) from None


def _check(
    batches: str, precision: str | None, backend: str | None, device: str | None, workload: str | None, price: float
) -> None:
    def fault(field: str, value: object, allowed: str) -> Fault:
        return Fault("", "measure", field, value, allowed)

    faults = []
    if not all(part.strip().isdigit() and int(part) > 0 for part in batches.split(",")):
        faults.append(fault("batches", batches, "must be whole numbers greater than 0, separated by commas"))
    if precision is not None and precision not in PRECISIONS:
        faults.append(fault("precision", precision, f"must be one of {', '.join(PRECISIONS)}"))
    if backend not in (None, "numpy", "torch"):
        faults.append(fault("backend", backend, "must be numpy or torch"))
    if device not in (None, "cpu", "cuda"):
        faults.append(fault("device", device, "must be cpu or cuda"))
    if not 0 < price < math.inf:
        faults.append(fault("price", price, "must be a finite number greater than 0"))
    if workload is not None and backend == "numpy":
        faults.append(fault("backend", backend, "must be torch to time a workload"))
    if faults:
        raise InputError(faults)
