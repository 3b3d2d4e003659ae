"""Operating points: what a launch costs at the batches of a table, for workloads that are measured or not affine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator

from mopt.record import record
from mopt.resource import Count, NonNegative, Positive


def _several(value: object) -> object:
    return (value,) if isinstance(value, int | float) else value


# One number for the whole launch, or one for each layer.
Figures = Annotated[tuple[NonNegative, ...], BeforeValidator(_several)]


@record
class OperatingPoint:
    """One launch of batch b on one accelerator: what it costs, or how long it takes where it was measured.

    Parameters
    ----------
    batch : int
        Samples of the launch. Launches of fewer samples are padded.
    flops, bytes : float or sequence of float
        FLOP and bytes moved by the launch: one number, or one for each layer, whose roofline times then add up. The
        same number of layers at all points without a `time`.
    memory : float, optional
        Bytes in use. Left out: the workload's own footprint.
    time : float, optional
        Measured seconds. They hold for `resource`, and go before any roofline.
    resource : str
        Name of the resource, or its accelerator, on which it was measured.

    Raises
    ------
    InputError
        If a value is outside its range; all faults at once.
    """

    batch: Count
    flops: Figures = ()
    bytes: Figures = ()
    memory: NonNegative | None = None
    time: Positive | None = None
    resource: str = ""


def point_faults(points: Sequence[OperatingPoint], *, with_layers: bool) -> Iterator[tuple[str, Any, str]]:
    """What is wrong with a workload's points seen together: field, value, what is allowed."""
    counts = Counter((point.resource, point.batch) for point in points)
    layers = {len(point.flops or point.bytes) for point in points if point.time is None and not point.resource}
    for place, point in enumerate(points):
        at = f"points[{place}]"
        if counts[point.resource, point.batch] > 1:
            where = f" on {point.resource}" if point.resource else ""
            yield f"{at}.batch", point.batch, f"given {counts[point.resource, point.batch]} times{where}: keep one"
        if (point.time is None) != (not point.resource):
            yield f"{at}.time", point.time, "a time and the resource it was measured on belong together"
        elif point.time is None and with_layers:
            yield at, point.batch, "costs are those of the layers: give a time and its resource, or no layers"
        elif point.time is None and not any((*point.flops, *point.bytes)):
            yield f"{at}.flops", point.flops, "needs FLOPs or bytes, or a time and its resource"
        if point.flops and point.bytes and len(point.flops) != len(point.bytes):
            yield f"{at}.bytes", point.bytes, f"one number for each of the {len(point.flops)} layers that flops has"
        elif len(layers) > 1 and point.time is None and not point.resource:
            numbers = ", ".join(map(str, sorted(layers)))
            yield f"{at}.flops", point.flops, f"the same number of layers at all points: some have {numbers}"
