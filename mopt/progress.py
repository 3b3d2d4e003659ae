"""A progress bar for long runs: points found, share of the range proven, time."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any


class Progress:
    """A tqdm bar over the share of the second objective's range that is proven; does nothing if not wanted."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if self._wanted:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=100.0, bar_format="{l_bar}{bar}| {postfix} [{elapsed}]", desc="front", leave=False)
        return self

    def show(self, points: int, share: Callable[[], float], seconds: float) -> None:
        """Show what is done."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"{points} points, {seconds / max(points, 1):.2g} s each")
            self._bar.update(100.0 * share() - self._bar.n)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
