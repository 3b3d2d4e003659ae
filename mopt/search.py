"""The front of a whole program from left to right: ever more solutions are known, until what is left can be listed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from mopt.listing import EQUAL, Boxes, Listed, TooManyError, distinct
from mopt.whole import Pair

# Of a front's partial solutions so many are kept at first, and of a part's: few, so that there soon are parts.
_FIRST, _BEAM = 300, 1_000
# More are kept where that finds too little, up to so many before fewer steps are taken at once.
_RAISED = 6_000
# And at most, in programs with one row and with several, whose partial solutions are compared at greater cost.
_WIDEST, _WIDEST_ROWS = 100_000, 12_000
# Too little: so many new solutions for each known one.
_GAIN = 0.05


class Search:
    """Where the search of a part of a front stands.

    Known solutions make a staircase that others must be below; all that are come in one listing, if its partial
    solutions stay few. If not, the most promising of them are kept, which lead to more known solutions, and so on.

    Parameters
    ----------
    last, end : pair of float
        Costs of nondominated solutions: what comes after the last, up to the end, is searched.
    between : sequence of pair of float
        Costs of solutions between them.
    around : pair of float, optional
        The corner of a wider box, whose multipliers sometimes lead to solutions where the box's own don't.
    beam : int, optional
        How many partial solutions to keep at first.
    """

    def __init__(
        self, last: Pair, end: Pair, between: Sequence[Pair] = (), around: Pair | None = None, beam: int = 0
    ) -> None:
        self.last = last
        # Known solutions right of the last; those between may turn out to be dominated.
        self._known = _undominated([*between, end])
        self._around = around or (end[0], last[1])
        self._steps, self._beam = len(self._known), beam or _FIRST
        # Whether multipliers are those of the box that is searched, or of the wider one.
        self._near = True

    @property
    def over(self) -> bool:
        """Whether the last point is the end."""
        while self._known and not distinct(self.last, self._known[0]):
            del self._known[0]
        return not self._known

    @property
    def between(self) -> list[Pair]:
        """Costs of solutions between the last point and the end, the first cost rising."""
        return self._known[:-1]

    def part(self, start: Pair, end: Pair) -> Search:
        """The search of what is between two nondominated points."""
        between = [costs for costs in self._known if distinct(start, costs) and distinct(costs, end)]
        return Search(start, end, between, self._around, _BEAM)

    def move(self, last: Pair) -> None:
        """Go on after a nondominated point."""
        self.last = last

    def step(self, boxes: Boxes) -> list[Listed]:
        """The next nondominated solutions; none if there are too many to list them at once: more are known then.

        Parameters
        ----------
        boxes : Boxes
            Of a feasible program.

        Raises
        ------
        TooManyError
            If there is too much to list; `move` past a point found otherwise, then.
        """
        known = self._known[: self._steps]
        found, all_of_them = boxes.below(self.last, known, self._beam, None if self._near else self._around)
        if all_of_them:
            self._steps, self._beam = 2 * len(known), max(_BEAM, self._beam // 2)
            self.move(found[-1].costs)
            return found
        new = [one.costs for one in found if not _covered(known, one.costs)]
        if new:
            self._known[: len(known)] = _undominated([*known, *new])
        if len(new) <= _GAIN * len(known):
            self._try_harder(len(known), not new and self._beam >= (_WIDEST if boxes.rows == 1 else _WIDEST_ROWS))
        else:
            self._steps = max(self._steps, len(known) + len(new))
        return []

    def _try_harder(self, steps: int, at_most: bool) -> None:
        """Other multipliers, more partial solutions, or fewer steps at once."""
        if self._near:
            self._near = False
            return
        self._near = True
        if self._beam < _RAISED:
            self._beam *= 2
        elif steps > 1:
            self._steps = max(steps // 4, 1)
        elif at_most:
            raise TooManyError
        else:
            self._beam *= 4


def _covered(known: list[Pair], costs: Pair) -> bool:
    """Whether a known solution is as good, but for rounding."""
    k = bisect_right(known, costs[0] * (1 + EQUAL), key=lambda one: one[0])
    return k > 0 and known[k - 1][1] <= costs[1] * (1 + EQUAL)


def _undominated(some: Sequence[Pair]) -> list[Pair]:
    """Those that no other dominates, the first cost rising; of some that are the same but for rounding, one."""
    kept: list[Pair] = []
    least = math.inf
    for costs in sorted(some):
        if costs[1] < least * (1 - EQUAL):
            kept.append(costs)
            least = costs[1]
    return kept
