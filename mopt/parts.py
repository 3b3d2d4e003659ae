"""The front of a whole program in parts, between nondominated points: each can be searched by itself.

The parts are the same whoever searches them, one after the other or several at once; so is what is found in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mopt.listing import Boxes, Listed, TooManyError, distinct
from mopt.search import Search
from mopt.whole import Pair, WholeProgram

# Parts are at least so wide, as a share of the front's extent in both costs together.
_WIDE = 1 / 8


@dataclass(eq=False)
class Part:
    """A part of the front, from a nondominated point (without it) to another one (with it).

    Attributes
    ----------
    extent : pair of float
        Of the whole front, in both costs.
    search : Search
        Where the search of it stands.
    found : list of Listed
        What the search has found.
    parts : list of Part
        What the rest was split into.
    failed : bool
        Whether the search met a box with too much to list.
    """

    end: Listed
    extent: Pair
    search: Search
    found: list[Listed] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    failed: bool = False
    _tried: set[Pair] = field(default_factory=set)

    @classmethod
    def of_front(cls, start: Pair, end: Listed) -> Part:
        """All of the front after a nondominated point."""
        extent = end.costs[0] - start[0], start[1] - end.costs[1]
        return cls(end, extent, Search(start, end.costs))

    @property
    def width(self) -> float:
        """How wide what is left to search is, as a share of the front's extent."""
        return self._width(self.search.last, self.end.costs)

    def work(self, program: WholeProgram, check_time: Callable[[], None]) -> Iterator[Listed]:
        """Search on from where the search stands: what is found. At the end it is over, split, or has failed."""
        boxes = Boxes(program, check_time)
        self.failed = False
        try:
            while not self.search.over and not self.parts:
                found = self.search.step(boxes)
                self.found += found
                yield from found
                if not found:
                    self._split(boxes)
        except TooManyError:
            self.failed = True

    def _split(self, boxes: Boxes) -> None:
        """Split what is left at solutions that the search has met, made nondominated, some way from each other."""
        places, met = [], self.search.between
        last = self.search.last
        for costs in met:
            if costs in self._tried or self._width(last, costs) < _WIDE:
                continue
            self._tried.add(costs)
            try:
                place = boxes.nondominated(costs)
            except TooManyError:
                continue
            if distinct(last, place.costs) and distinct(place.costs, self.end.costs):
                places.append(place)
                last = place.costs
        if not places:
            return
        start = self.search.last
        for end in [*places, self.end]:
            self.parts.append(Part(end, self.extent, self.search.part(start, end.costs)))
            start = end.costs

    def _width(self, a: Pair, b: Pair) -> float:
        return sum(abs(b[k] - a[k]) / self.extent[k] for k in (0, 1) if self.extent[k] > 0) / 2
