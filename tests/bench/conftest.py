"""`measure` runs a front under pytest-benchmark; what it took is in the benchmark's `extra_info` and printed last."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "known"))

ROWS = pytest.StashKey[list]()
COLUMNS = ("points", "solves", "seconds", "HiGHS", "listing", "rest", "rest %", "rival", "times")


def pytest_configure(config):
    config.stash[ROWS] = []


@pytest.fixture
def measure(benchmark, request):
    """From a function that gives a front, and perhaps a rival that gives its points, to the front; and a row for it."""

    def run(solve, rival=None):
        front = benchmark.pedantic(solve, rounds=3 if rival is None else 1, warmup_rounds=1)
        wall = benchmark.stats.stats.min
        solver = front.statistics["solver_seconds"]
        listing = front.statistics["listing_seconds"]
        own = front.statistics["seconds"]
        rest = own - solver - listing
        info = {
            "points": len(front), "solves": front.statistics["solves"], "seconds": wall, "HiGHS": solver,
            "listing": listing, "rest": rest, "rest %": 100 * rest / own,
        }
        if rival is not None:
            began = time.perf_counter()
            points = rival()
            info["rival"] = time.perf_counter() - began
            info["times"] = info["rival"] / wall
            np.testing.assert_allclose(sorted(front.values.tolist()), sorted(map(list, points)))
        benchmark.extra_info.update(info)
        request.config.stash[ROWS].append((request.node.name, info))
        return front

    return run


def pytest_terminal_summary(terminalreporter, config):
    if config.stash[ROWS]:
        terminalreporter.write_sep("-", "fronts (times in s; rest: outside HiGHS and listing, of the last run)")
        terminalreporter.write_line(f"{'':48}" + "".join(f"{name:>9}" for name in COLUMNS))
        for name, info in config.stash[ROWS]:
            cells = "".join(f"{info[c]:9.4g}" if c in info else f"{'':9}" for c in COLUMNS)
            terminalreporter.write_line(f"{name:48}{cells}")
