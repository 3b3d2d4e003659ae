"""What known solutions leave to be found: below the corners of a staircase."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mopt.whole import Floats


class Staircase:
    """Corners u, of which a solution is to be at or below one, in both costs.

    Parameters
    ----------
    corners : array of shape (corners, 2)
        The first cost rising, the second falling; sides may be infinite.
    directions : array of shape (directions, 2)
        In which costs are bounded, at least 0: both axes, then others.
    """

    def __init__(self, corners: Floats, directions: Floats) -> None:
        self._corners = corners
        along = np.array([self._corners[:, d > 0] @ d[d > 0] for d in directions])
        #: How far the furthest corner is, in each direction.
        self.furthest: Floats = along.max(axis=1)
        # And the furthest of 1, 2, 4, ... corners in a row, from each on: shape (directions, powers, corners).
        ranges = [along]
        while 2 ** len(ranges) <= len(corners):
            step, last = 2 ** (len(ranges) - 1), ranges[-1]
            ranges.append(np.hstack([np.maximum(last[:, :-step], last[:, step:]), last[:, -step:]]))
        self._ranges = np.stack(ranges, axis=1)

    def __len__(self) -> int:
        return len(self._corners)

    def reached(self, bounds: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
        """Which bounds are at or below a corner, and how much below the furthest such corner in the third direction.

        A corner of its own may serve for each direction but the axes.

        Parameters
        ----------
        bounds : array of shape (directions, n)
            What n solutions cost at least.
        """
        # Corners whose first side is far enough, and whose second one is, are some in a row.
        first = np.searchsorted(self._corners[:, 0], bounds[0], "left")
        end = np.searchsorted(-self._corners[:, 1], -bounds[1], "right")
        kept = np.flatnonzero(first < end)
        first, end = first[kept], end[kept]
        power = np.frexp(end - first)[1] - 1
        second = end - (1 << power)
        room = np.zeros(len(kept))
        for k, (ranges, bound) in enumerate(zip(self._ranges[2:], bounds[2:], strict=True)):
            left = np.maximum(ranges[power, first], ranges[power, second]) - bound[kept]
            inside = left >= 0
            room = (room if k else left)[inside]
            kept, first, second, power = kept[inside], first[inside], second[inside], power[inside]
        return kept, room
