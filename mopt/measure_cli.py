"""The commands `mopt measure` and `mopt accuracy`: this machine's times, and how far predicted ones may be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mopt.errors import Fault, InputError


def measure(
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also time this shipped network (extras torch, hf), calibrate.")
    ] = None,
    batches: Annotated[str, typer.Option(help="Batches to time it at, separated by commas.")] = "1,4,16",
    precision: Annotated[
        str | None, typer.Option(help="Of the network; default: fp32 on a CPU, else the workload's own.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="numpy or torch; default: torch if it is installed.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda if there is one.")] = None,
    price: Annotated[float, typer.Option(help="$/h of this machine.")] = 1.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write resource.csv and calibration.toml there.")
    ] = None,
) -> None:
    """Time a matrix product for each precision and a copy in memory; with --workload also a network, and calibrate."""
    from mopt.measure_report import measure_machine

    measure_machine(workload, batches, precision, backend, device, price, out)


def accuracy(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write every measured and predicted time there, as CSV.")
    ] = None,
) -> None:
    """Predict the shipped measurements, with and without calibration and held out, and show the errors (minutes)."""
    from mopt.accuracy import prediction_table, print_tables

    predictions = prediction_table()
    if out is not None:
        try:
            predictions.to_csv(out, index=False)
        except OSError as error:
            raise InputError([Fault("", "", "--out", str(out), f"can't be written: {error.strerror}")]) from None
    print_tables(predictions)
