"""What a traced network does, operator by operator, and what each operator moves to and from memory.

A *buffer* is one allocation; a *value* is a buffer between two writes. Bytes are those that an operator must move if it
reads each operand once and writes each result once; caches are not modelled, and neither is workspace.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

# How operators are fused: "rowwise" ones are norms and the like, which need a row before its first result.
Kind = Literal["elementwise", "rowwise", "reduction", "convolution", "other"]
Value = tuple[int, int]


class Access(NamedTuple):
    """A read or write of a value (buffer, version): which part of it (None: rows by index), and how many bytes."""

    value: Value
    region: Hashable
    nbytes: int


class Operator(NamedTuple):
    """One kernel launch."""

    layer: str
    name: str
    flops: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    kind: Kind


@dataclass(slots=True)
class Buffer:
    """An allocation, live from operator `born` up to (not including) `died`; None: to the end of the launch."""

    nbytes: int
    born: int
    died: int | None = None


@dataclass(slots=True)
class Tape:
    """Operators in the order of execution, and the buffers that they use."""

    batch: int
    operators: list[Operator] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)


def kernels(operators: Sequence[Operator]) -> list[int]:
    """The kernel that each operator is part of when elementwise operators are fused with their neighbours.

    A value's level is the number of products, convolutions and the like on the longest path to it. Elementwise and
    rowwise operators are fused with those at the same level that make their operands, so that no kernel can wait for
    its own result. A reduction over the batch is fused with its producers and its result is one level up.

    What is elementwise and needs nothing else of its level but results of convolutions becomes part of the latest of
    these, its epilogue, as inference libraries do with bias, batch norm, activation and shortcut. Such a kernel has the
    index of its convolution.
    """
    level: dict[Value, int] = {}
    producer: dict[Value, int] = {}
    convolution: dict[Value, int] = {}
    parent = list(range(len(operators)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    for k, operator in enumerate(operators):
        own = max((level.get(access.value, 0) for access in operator.reads), default=0)
        current = [access.value for access in operator.reads if level.get(access.value, 0) == own]
        fused = [producer[value] for value in current if value in producer]
        epilogue_of = max((convolution.get(value, -1) for value in current), default=-1)
        if operator.kind == "convolution":
            epilogue_of = k
        elif operator.kind == "elementwise" and not fused and epilogue_of >= 0:
            parent[k] = epilogue_of
        else:
            epilogue_of = -1
            if operator.kind != "other":
                for one in fused:
                    parent[root(one)] = root(k)
        up = operator.kind in ("reduction", "convolution", "other")
        for access in operator.writes:
            level[access.value] = own + up
            producer.pop(access.value, None)
            convolution.pop(access.value, None)
            if epilogue_of >= 0:
                convolution[access.value] = epilogue_of
            elif not up:
                producer[access.value] = k
    return [root(k) for k in range(len(operators))]


def unmaterialized(tape: Tape, kernel: Sequence[int]) -> set[Value]:
    """Values that one kernel makes and uses alone: they never reach memory."""
    made: dict[Value, int] = {}
    for k, operator in enumerate(tape.operators):
        if operator.kind in ("elementwise", "rowwise", "convolution"):
            made.update((access.value, kernel[k]) for access in operator.writes)
    last: dict[int, int] = {}
    for buffer, version in made:
        last[buffer] = max(version, last.get(buffer, 0))
    inside = {
        (buffer, version) for buffer, version in made if version < last[buffer] or tape.buffers[buffer].died is not None
    }
    for k, operator in enumerate(tape.operators):
        inside -= {access.value for access in operator.reads if made.get(access.value) != kernel[k]}
    return inside


def bytes_moved(tape: Tape, fused: bool) -> npt.NDArray[np.int64]:
    """Bytes that each operator reads and writes; with `fused`, elementwise intermediates stay in registers.

    The reads of a kernel are charged to the first of its operators that needs them, the writes to the one that makes
    them; those of an epilogue to its convolution, with which they overlap in time. No kernel reads more of a value than
    the whole of its buffer, except rows by index (embeddings).
    """
    kernel = kernels(tape.operators) if fused else range(len(tape.operators))
    inside = unmaterialized(tape, kernel) if fused else set()
    moved = np.zeros(len(tape.operators), dtype=np.int64)
    made: dict[Value, int] = {}
    seen: set[tuple[int, Value, Hashable]] = set()
    left: dict[tuple[int, Value], int] = {}
    for k, operator in enumerate(tape.operators):
        own = kernel[k]
        at = own if tape.operators[own].kind == "convolution" else k
        for value, region, nbytes in operator.reads:
            if made.get(value) == own or (own, value, region) in seen:
                continue
            if region is None:
                moved[at] += nbytes
                continue
            seen.add((own, value, region))
            room = left.get((own, value), tape.buffers[value[0]].nbytes)
            moved[at] += min(nbytes, room)
            left[own, value] = room - min(nbytes, room)
        for value, _, nbytes in operator.writes:
            made[value] = own
            if value not in inside:
                moved[at] += nbytes
    return moved


def live_bytes(tape: Tape, fused: bool) -> npt.NDArray[np.int64]:
    """Bytes allocated while each operator runs (its operands and results included), and at the end of the launch."""
    kept = tape.buffers
    if fused:
        inside = unmaterialized(tape, kernels(tape.operators))
        written = {access.value for operator in tape.operators for access in operator.writes}
        in_memory = {value[0] for value in written - inside}
        made = {value[0] for value in written}
        kept = [buffer for k, buffer in enumerate(tape.buffers) if k in in_memory or k not in made]
    change = np.zeros(len(tape.operators) + 2, dtype=np.int64)
    for buffer in kept:
        change[buffer.born] += buffer.nbytes
        if buffer.died is not None:
            change[buffer.died] -= buffer.nbytes
    return np.cumsum(change)[:-1]
