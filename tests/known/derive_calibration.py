"""The calibration that mopt ships, fitted to the measurements that it ships.

`python tests/known/derive_calibration.py` writes mopt/data/calibration.toml anew (minutes), figures rounded to 4 digits.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from mopt.accuracy import calibrate_shipped
from mopt.calibration import Calibration
from mopt.calibration_files import save_calibration
from mopt.measurements import Measurement

SHIPPED = Path(__file__).resolve().parents[2] / "mopt" / "data" / "calibration.toml"
SOURCE = "fitted to data/measured, whose README names the sources, by tests/known/derive_calibration.py"
DATE = "2026-12-02"


def rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(rounded, value))
    return float(f"{value:.4g}") if isinstance(value, float) else value


def derive(rows: list[Measurement] | None = None) -> Calibration:
    """The shipped calibration, or its part of some of the shipped measurements."""
    entries = tuple(
        dataclasses.replace(entry, **{f.name: rounded(getattr(entry, f.name)) for f in dataclasses.fields(entry)})
        for entry in calibrate_shipped(rows, leave_one_out=True).entries
    )
    return Calibration(entries, source=SOURCE, date=DATE)


if __name__ == "__main__":
    save_calibration(derive(), SHIPPED)
