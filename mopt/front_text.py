"""A front in words: how large it is, what is missing, and what was proven."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from mopt import geometry

if TYPE_CHECKING:
    from mopt.front import ParetoFront


def size(front: ParetoFront) -> str:
    """How many points and segments."""
    parts = [(len(front.points), "point"), (len(front.segments), "segment")][: 2 if front.segments else 1]
    return " and ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in parts)


def state(front: ParetoFront) -> str:
    """Whether it is complete; if not, why, and what is still open."""
    if front.complete:
        return "complete"
    open_ = ", ".join(f"{low:.6g} to {high:.6g}" for low, high in front.unexplored)
    still = f"; {front.names[1]} still open: {open_}" if open_ else ""
    return f"not complete ({front.why_incomplete or 'no reason given'}{still})"


def described(front: ParetoFront) -> str:
    """Several lines: size, ranges, what was proven and assumed."""
    lines = [f"ParetoFront of {size(front)}, {state(front)}"]
    if front.points:
        ranges = geometry.ranges(front.pieces, front.senses)
        for name, sense, (low, high) in zip(front.names, front.senses, ranges, strict=True):
            lines.append(f"  {name} ({'minimised' if sense == 1 else 'maximised'}): {low:.6g} to {high:.6g}")
    lines += [f"  {statement}" for statement in front.certificate.statements]
    lines += [f"  assumed: {assumption}" for assumption in front.assumptions]
    return "\n".join(lines)


def as_html(front: ParetoFront) -> str:
    """For notebooks: the same around the table."""
    head = html.escape(f"Pareto front of {size(front)}, {state(front)}")
    foot = html.escape("; ".join(front.certificate.statements))
    table = front.to_frame().to_html(max_rows=20, float_format="{:.6g}".format, na_rep="", border=0)
    return f"<div><p><b>{head}</b></p>{table}<p><small>{foot}</small></p></div>"
