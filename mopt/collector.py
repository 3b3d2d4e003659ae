"""The garbage collector, out of the way while a model is made."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSING = threading.RLock()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector, which would look through all that a model is made of again and again as it grows.

    It is the process's, and Pyomo's compiler pauses it too: one thread at a time, then.
    """
    with _PAUSING:
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if enabled:
                gc.enable()
