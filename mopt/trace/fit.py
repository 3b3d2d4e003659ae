"""From tapes at three batches to a workload: affine coefficients, layers and the footprint's pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt

from mopt.errors import Fault, InputError
from mopt.trace.tape import Tape, bytes_moved, live_bytes
from mopt.workload import Layer, MemoryPiece, Workload

_MOST_FAULTS = 10
# FLOPs that don't grow with the batch (tables of positions, say) have no place in F(b); more than this is an error.
_FIXED_FLOPS_SHARE = 0.01
_REPORTED_BATCHES = 2.0 ** np.arange(11)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Update:
    """An optimizer step: bytes moved, and the state that stays allocated between launches."""

    bytes_moved: float = 0.0
    state: float = 0.0
    gradients: float = 0.0


@dataclass(frozen=True)
class Trace:
    """A network's operators with their costs as affine functions of the batch b.

    Attributes
    ----------
    layer, operator : tuple of str
        Module path and name of each operator.
    flops, bytes_fixed, bytes_per_sample : ndarray
        f (FLOP per sample), q0 (B per launch) and q1 (B per sample) of each.
    flops_fixed : float
        FLOPs of a launch that don't depend on b, all operators together.
    memory : tuple of MemoryPiece
        The footprint is the largest of these pieces.
    weights : float
        Bytes of the parameters.
    """

    layer: tuple[str, ...]
    operator: tuple[str, ...]
    flops: Floats
    bytes_fixed: Floats
    bytes_per_sample: Floats
    flops_fixed: float
    memory: tuple[MemoryPiece, ...]
    weights: float
    update: Update
    about: str

    def grouping(self, depth: int | None) -> list[str]:
        """The group of each operator: its module path cut after `depth` names (None: whole; 0: all in one)."""
        if depth is None:
            return list(self.layer)
        if depth == 0:
            return ["all"] * len(self.layer)
        return [".".join(path.split(".")[:depth]) for path in self.layer]

    def layers(self, depth: int | None = None) -> tuple[Layer, ...]:
        """Operators summed by module path, in the order of execution, the optimizer last.

        Layers whose costs are equal and whose paths differ in numbers only are merged, which leaves the roofline as it
        is: n equal layers take n times as long as one.
        """
        sums: dict[str, Floats] = {}
        costs = np.column_stack([self.flops, self.bytes_fixed, self.bytes_per_sample])
        for group, cost in zip(self.grouping(depth), costs, strict=True):
            sums[group] = sums.get(group, np.zeros(3)) + cost
        alike: dict[tuple[object, ...], list[str]] = {}
        for group, cost in sums.items():
            alike.setdefault((re.sub(r"\d+", "*", group), *cost.round(6)), []).append(group)
        taken: dict[str, int] = {}
        layers = []
        for (pattern, *_), groups in alike.items():
            name = groups[0] if len(groups) == 1 else f"{pattern} x{len(groups)}"
            taken[name] = taken.get(name, 0) + 1
            name += f" ({taken[name]})" if taken[name] > 1 else ""
            flops, fixed, per_sample = np.sum([sums[group] for group in groups], axis=0)
            if flops or fixed or per_sample:
                layers.append(Layer(name, flops=flops, bytes_fixed=fixed, bytes_per_sample=per_sample))
        if self.update.bytes_moved:
            layers.append(Layer("optimizer", flops=0.0, bytes_fixed=self.update.bytes_moved))
        return tuple(layers)

    def grouping_gap(self, depth: int | None) -> tuple[float, float, float]:
        """How far grouping to `depth` lowers the roofline time, at worst.

        Returns
        -------
        share : float
            Largest (operators − groups) / operators of the launch time, over all ridge points and batches 1..1024.
        batch, ridge_point : float
            Where it is that large; ridge point in FLOP/B.
        """
        names = {name: k for k, name in enumerate(dict.fromkeys(self.grouping(depth)))}
        member = np.array([names[group] for group in self.grouping(depth)])
        worst = (0.0, 1.0, 0.0)
        for batch in _REPORTED_BATCHES:
            flops, moved = self.flops * batch, self.bytes_fixed + self.bytes_per_sample * batch
            coarse = [np.bincount(member, cost).astype(np.float64) for cost in (flops, moved)]
            # Both times are piecewise linear in 1/ridge, so that their ratio is extreme at a breakpoint.
            ridges = [f[(f > 0) & (q > 0)] / q[(f > 0) & (q > 0)] for f, q in ((flops, moved), coarse)]
            ridge = np.unique(np.concatenate(ridges))
            if not ridge.size:
                continue
            fine = _times(flops, moved, ridge) + self.update.bytes_moved
            share = 1 - (_times(coarse[0], coarse[1], ridge) + self.update.bytes_moved) / fine
            k = int(share.argmax())
            if share[k] > worst[0] + 1e-12:
                worst = (float(share[k]), float(batch), float(ridge[k]))
        return worst

    def workload(
        self,
        *,
        name: str,
        precision: str,
        mode: str,
        depth: int | None = None,
        sample: str = "sample",
        source: str = "",
    ) -> Workload:
        """The workload, with operators grouped to `depth`; its description says what the grouping changes."""
        layers = self.layers(depth)
        share, batch, ridge = self.grouping_gap(depth)
        notes = [
            self.about,
            f"{len(self.operator)} operators in {len(layers)} layers: the roofline time is at most {share:.1%} below "
            f"that of single operators" + (f" (batch {batch:.0f}, ridge point {ridge:.3g} FLOP/B)." if share else "."),
        ]
        if self.flops_fixed:
            notes.append(f"{self.flops_fixed:.3g} FLOP of a launch don't grow with the batch; counted per sample.")
        first, *others = self.memory
        return Workload(
            name=name,
            precision=precision,
            layers=layers,
            memory_fixed=first.fixed,
            memory_per_sample=first.per_sample,
            memory_pieces=tuple(others),
            mode="training" if mode == "train" else "inference",
            sample=sample,
            gradient_bytes=self.update.gradients,
            weight_bytes=self.weights,
            optimizer_bytes=self.update.state,
            description=" ".join(notes),
            source=source,
            date=date.today().isoformat(),
        )


def _times(flops: Floats, moved: Floats, ridge: Floats) -> Floats:
    """Roofline time for each ridge point, in bytes' worth of bandwidth; in slices, to keep the table small."""
    slices = np.array_split(ridge, max(1, len(ridge) * len(flops) // 4_000_000))
    return np.concatenate([np.maximum(flops / part[:, None], moved).sum(axis=1) for part in slices])


def fit(tapes: Sequence[Tape], *, fused: bool, weights: float, update: Update, about: str) -> Trace:
    """Coefficients from the first two tapes, checked at the third.

    Raises
    ------
    InputError
        If the operators differ between batches, or what one does is not affine in the batch: names the operators.
    """
    first = tapes[0].operators
    batches = [tape.batch for tape in tapes]
    _same_operators(tapes)
    flops = np.array([[operator.flops for operator in tape.operators] for tape in tapes])
    moved = np.array([bytes_moved(tape, fused) for tape in tapes])
    memory = np.array([live_bytes(tape, fused) for tape in tapes])
    where = [f"operator {k}, {operator.name} in {operator.layer}" for k, operator in enumerate(first)]
    faults = [
        *_affine_faults(flops, batches, where, "flops"),
        *_affine_faults(moved, batches, where, "bytes"),
    ] or _affine_faults(memory, batches, [*where, "end of the launch"], "memory")
    if not faults:
        f0, f1 = _affine(flops, batches)
        q0, q1 = _affine(moved, batches)
        if f0.sum() > _FIXED_FLOPS_SHARE * flops[0].sum():
            worst = int(f0.argmax())
            text = f"FLOPs must grow with the batch; a share of {f0.sum() / flops[0].sum():.1%} doesn't"
            faults = [Fault("", where[worst], "flops", flops[:, worst].tolist(), text)]
    if faults:
        more = len(faults) - _MOST_FAULTS
        tail = [Fault("", "trace", "operators", f"{more} more", "must be affine in the batch")] if more > 0 else []
        raise InputError(faults[:_MOST_FAULTS] + tail)
    return Trace(
        layer=tuple(operator.layer for operator in first),
        operator=tuple(operator.name for operator in first),
        flops=f0 + f1,
        bytes_fixed=q0,
        bytes_per_sample=q1,
        flops_fixed=float(f0.sum()),
        memory=_envelope(*_affine(memory, batches), update.state),
        weights=weights,
        update=update,
        about=about,
    )


def batch_faults(batches: Sequence[int]) -> list[Fault]:
    """Batch 1 is refused: frameworks take other paths there (squeezed dimensions, vector products)."""
    whole = all(isinstance(batch, int) and batch >= 2 for batch in batches)
    if whole and len(set(batches)) == len(batches) == 3:
        return []
    return [Fault("", "trace", "batches", tuple(batches), "must be three different whole numbers of at least 2")]


def _same_operators(tapes: Sequence[Tape]) -> None:
    for tape in tapes[1:]:
        pairs = zip(tapes[0].operators, tape.operators, strict=False)
        for k, (one, other) in enumerate(pairs):
            if (one.layer, one.name) != (other.layer, other.name):
                read = f"{one.name} in {one.layer} at batch {tapes[0].batch}, {other.name} in {other.layer} at "
                raise InputError(
                    [Fault("", f"operator {k}", "name", read + f"batch {tape.batch}", "must not depend on it")]
                )
        counts = len(tapes[0].operators), len(tape.operators)
        if counts[0] != counts[1]:
            longest = max(tapes[0], tape, key=lambda each: len(each.operators))
            extra = longest.operators[min(counts)]
            where = f"operator {min(counts)}, {extra.name} in {extra.layer}"
            text = f"must run at every batch, not at {longest.batch} alone"
            raise InputError([Fault("", where, "count", counts, text)])


def _affine_faults(values: npt.NDArray[np.int64], batches: list[int], where: list[str], field: str) -> list[Fault]:
    """A fault for each operator whose exact integer costs at three batches are not on one line with fixed part ≥ 0."""
    (b0, b1, b2), (y0, y1, y2) = batches, values
    bent = (y1 - y0) * (b2 - b0) != (y2 - y0) * (b1 - b0)
    falling = ~bent & ((y1 < y0) | (y0 * b1 < y1 * b0))
    at = ", ".join(map(str, batches))
    faults = []
    for k in np.flatnonzero(bent | falling):
        text = "must be affine in the batch" if bent[k] else "must be c + d*batch with c and d at least 0"
        faults.append(Fault("", where[k], field, values[:, k].tolist(), f"{text} (batches {at})"))
    return faults


def _affine(values: npt.NDArray[np.int64], batches: list[int]) -> tuple[Floats, Floats]:
    slope = (values[1] - values[0]) / (batches[1] - batches[0])
    return values[0] - slope * batches[0], slope


def _envelope(fixed: Floats, per_sample: Floats, state: float) -> tuple[MemoryPiece, ...]:
    """The lines that are the largest of all at some batch ≥ 1."""
    pieces = []
    batch = 1.0
    at = fixed + per_sample * batch
    best = max(range(len(at)), key=lambda k: (at[k], per_sample[k]))
    while True:
        pieces.append(MemoryPiece(fixed=float(fixed[best]) + state, per_sample=float(per_sample[best])))
        steeper = per_sample > per_sample[best]
        if not steeper.any():
            return tuple(pieces)
        crossing = np.full(len(at), np.inf)
        crossing[steeper] = (fixed[best] - fixed[steeper]) / (per_sample[steeper] - per_sample[best])
        nearest = crossing.min()
        ties = np.flatnonzero(crossing <= nearest * (1 + 1e-12))
        best = int(ties[per_sample[ties].argmax()])
