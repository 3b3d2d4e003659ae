"""The rows of a tiny instance, one file a billing: a changed coefficient is seen.

Two resources: `one` with one accelerator, `two` with two; a workload of one layer; limits of every kind. A launch of b
samples takes 0.1 + 0.1·b s on `one` up to b = 2 and 0.15·b s from there, and 0.1 + 0.05·b s on `two`; memory allows 3 and
8. Money is in $ per period. After a change that is meant, `python tests/golden/test_golden_rows.py` writes the files
anew; read the difference before you commit it.
"""

from pathlib import Path

import numpy as np
import pytest

from mopt import Layer, Problem, Quota, Resource, Workload, build_model
from mopt.compile import compile_model
from mopt.formulation import build_covering

HERE = Path(__file__).parent

NET = Workload("net", "fp16", [Layer("all", 1.5e11, 1e9, 1e9)], memory_fixed=1e9, memory_per_sample=1e9)
ONE = Resource("one", peak_flops=1e12, memory_bandwidth=1e10, memory=4e9, price_per_hour=3600, max_units=2)
TWO = Resource(
    "two", peak_flops=3e12, memory_bandwidth=2e10, memory=10e9, price_per_hour=9000, max_units=1, accelerator_count=2,
    unit_overhead=0.1, provider="B",
)


def problem(billing, **changes):
    return Problem(
        [ONE, TWO], NET, 12, time_limit=1.0, billing=billing, max_launches=None if billing == "per_use" else 2,
        max_types=1, budget=10.0, min_units={"one": 1}, quotas=[Quota(1, provider="B")], **changes,
    )


MODELS = {
    "reserved": lambda: build_model(problem("reserved")),
    "reserved_covering": lambda: build_covering(problem("reserved")),
    "per_use": lambda: build_model(problem("per_use")),
    "elapsed": lambda: build_model(problem("elapsed")),
}


def text(model):
    """Objectives, rows and bounds, one a line."""
    linear, _ = compile_model(model, (model.cost, model.utilization))

    def terms(coefficients):
        return " ".join(f"{c:+.10g} {name}" for name, c in sorted(zip(linear.names, coefficients, strict=True)) if c)

    cost, utilization = linear.objectives
    used = terms(utilization.numerator.coefficients) + f"{utilization.numerator.constant:+.10g}"
    lines = [
        f"minimise {terms(cost.numerator.coefficients)}",
        f"maximise ({used}) / ({terms(utilization.denominator.coefficients)})",
        "subject to",
    ]
    names = map(linear.row_name, range(len(linear.row_lower)))
    rows = zip(names, linear.row_lower, linear.row_upper, linear.matrix.toarray(), strict=True)
    for name, low, high, coefficients in rows:
        body = terms(coefficients)
        if low == high:
            lines.append(f"  {name}: {body} = {low:.10g}")
        elif np.isinf(high):
            lines.append(f"  {name}: {body} >= {low:.10g}")
        else:
            assert np.isinf(low)
            lines.append(f"  {name}: {body} <= {high:.10g}")
    lines.append("with")
    bounds = zip(linear.names, linear.lower + 0.0, linear.upper, linear.integer, strict=True)
    lines += [f"  {low:g} <= {name} <= {high:g}{' whole' if whole else ''}" for name, low, high, whole in sorted(bounds)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", MODELS)
def test_rows(name):
    assert text(MODELS[name]()) == (HERE / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, make in MODELS.items():
        (HERE / f"{name}.txt").write_text(text(make()), encoding="utf-8")
