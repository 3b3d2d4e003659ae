"""Fronts of shared models equal a plain enumeration, with memory, times and exchanges written out from their formulas."""

import itertools
import math

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import mopt
from mopt import Layer, Parallelism, Problem, Resource, Workload

FITS = 1 + 1e-9


def checked(examples):
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


@st.composite
def problems(draw, billing):
    """Two resources of several accelerators, and a training workload that they share in some way."""
    made = []
    for k in range(2):
        g = draw(st.sampled_from([1, 2, 4]))
        made.append(
            Resource(
                f"r{k}",
                peak_flops=draw(st.integers(1, 4)) * g * 1e12,
                memory_bandwidth=draw(st.sampled_from([1e11, 2e11])) * g,
                memory=draw(st.sampled_from([8e9, 16e9, 32e9])) * g,
                price_per_hour=draw(st.integers(2, 20)) / 2,
                max_units=draw(st.sampled_from([3, 2, 4])),
                unit_overhead=draw(st.sampled_from([0.0, 0.05])),
                accelerator_count=g,
                link_bandwidth=draw(st.sampled_from([1e10, 1e11, 1e12, None])),
                network_bandwidth=draw(st.sampled_from([None, 2e10, 1e12])),
            )
        )
    tensor, pipeline = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (4, 1)]))
    how = Parallelism(tensor, pipeline, draw(st.sampled_from([None, 2])) if pipeline > 1 else None,
                      draw(st.integers(0, 3)))  # fmt: skip
    net = Workload(
        "net",
        "fp16",
        [Layer("a", 2e10, 2e9, 5e8), Layer("b", 1e10, 1e8, 1e8)],
        mode="training",
        memory_fixed=draw(st.sampled_from([6e9, 9e9])),
        memory_per_sample=draw(st.sampled_from([2e8, 1e9])),
        weight_bytes=1e9,
        gradient_bytes=1e9,
        optimizer_bytes=draw(st.sampled_from([2e9, 4e9])),
        tensor_bytes=draw(st.sampled_from([1e8, 1e9])),
        pipeline_bytes=1e8,
        parallelism=how,
    )
    return Problem(made, net, draw(st.integers(4, 24)), time_limit=1.0, billing=billing,
                   unit_overhead=draw(st.sampled_from([None, "allreduce"])),
                   max_launches=1 if billing == "elapsed" else None)  # fmt: skip


class Unit:
    """One unit of a resource, by the formulas."""

    def __init__(self, problem, resource):
        w, how, g = problem.workload, problem.workload.parallelism, resource.accelerator_count
        t, p = how.tensor, how.pipeline
        self.R = g // (t * p) if g % (t * p) == 0 else 0
        self.m = how.microbatches or (4 * p if p > 1 else 1)
        self.step = max(self.R, 1) * self.m
        self.w, self.t, self.p, self.r, self.zero = w, t, p, resource, how.zero
        R = max(self.R, 1)
        exchange = problem.unit_overhead is not None
        sends = t > 1 or p > 1 or (how.zero == 3 and R > 1)
        self.serves = self.R > 0 and not (
            (resource.link_bandwidth is None and (sends or (exchange and R > 1)))
            or (exchange and resource.network_bandwidth is None)
        )
        self.link = resource.link_bandwidth or math.inf
        self.overhead = resource.unit_overhead
        if exchange and self.serves:
            ring = (R - 1) / R * w.gradient_bytes / (t * p) / self.link
            self.overhead += (1 if how.zero == 3 else 2) * ring + 2 * w.gradient_bytes / resource.network_bandwidth

    def memory(self, batch):
        """On each accelerator."""
        w, R = self.w, self.R
        kept = w.memory_fixed - w.weight_bytes - w.gradient_bytes - w.optimizer_bytes
        kept += w.weight_bytes / (R if self.zero >= 3 else 1)
        kept += w.gradient_bytes / (R if self.zero >= 2 else 1)
        kept += w.optimizer_bytes / (R if self.zero >= 1 else 1)
        return (kept + w.memory_per_sample * batch / R) / (self.t * self.p)

    def seconds(self, batch):
        """Parts of a launch pass p stages, each with its share of every layer."""
        r, w, g = self.r, self.w, self.r.accelerator_count
        part = batch / self.R / self.m
        stage = sum(
            max(
                layer.flops * part / (self.t * r.peak_flops / g),
                (layer.bytes_fixed + layer.bytes_per_sample * part) / (self.t * r.memory_bandwidth / g),
            )
            for layer in w.layers
        ) / self.p
        sent = batch / self.R * (2 * (self.t - 1) / self.t * w.tensor_bytes / self.p)
        sent += batch / self.R * w.pipeline_bytes * (self.p > 1)
        if self.zero == 3:
            sent += 2 * (self.R - 1) / self.R * w.weight_bytes / (self.t * self.p)
        return max((self.m + self.p - 1) * stage, sent / self.link)

    def largest(self, samples, period):
        fitting = [
            b
            for b in range(self.step, int(samples) + 1, self.step)
            if self.memory(b) <= self.r.memory / self.r.accelerator_count * FITS
            and self.overhead < period
            and self.overhead + self.seconds(b) <= period * FITS
        ] if self.serves else []
        return max(fitting, default=0)

    def capacity(self, samples, period):
        """By the shortest time of each total, up to enough for all."""
        limit = self.largest(samples, period)
        least = {0: 0.0}
        for total in range(self.step, int(samples) + self.step, self.step):
            times = [least[total - b] + self.seconds(b) for b in range(self.step, min(limit, total) + 1, self.step)]
            if not times or self.overhead + min(times) > period * FITS:
                break
            least[total] = min(times)
        return max(least)


def nondominated(values):
    kept = []
    for cost, peak in sorted(values):
        if not kept or peak < kept[-1][1] * (1 - 1e-12):
            while kept and cost <= kept[-1][0] * (1 + 1e-12):
                kept.pop()
            kept.append((cost, peak))
    return kept


def solved(problem):
    try:
        front = mopt.solve_epsilon_front(problem)
    except mopt.InfeasibleError:
        return []
    return [(cost, 3e10 * problem.samples / utilization) for cost, utilization in front.values]


def choices(problem):
    units = [Unit(problem, r) for r in problem.resources]
    rates = np.array([[r.price_per_hour / 3600, r.peak_flops] for r in problem.resources])
    for counts in itertools.product(*(range(r.max_units + 1) for r in problem.resources)):
        yield units, np.array(counts), np.array(counts) @ rates


@checked(120)
@given(problems("reserved"))
def test_reserved_fronts_of_shared_models_equal_enumeration(problem):
    done = [Unit(problem, r).capacity(problem.samples, 1.0) for r in problem.resources]
    values = [tuple(worth) for _, counts, worth in choices(problem) if counts @ done >= problem.samples]
    found, expected = solved(problem), nondominated(values)
    assert len(found) == len(expected)
    if expected:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@checked(60)
@given(problems("elapsed"))
def test_elapsed_fronts_of_shared_models_equal_enumeration(problem):
    """One launch a unit; by S a unit does the samples whose launch takes S less its overhead."""
    limits = [Unit(problem, r).largest(problem.samples, 1.0) for r in problem.resources]

    def done(unit, limit, span):
        low, high = 0.0, float(limit)
        if unit.overhead + unit.seconds(high) <= span:
            return high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if unit.overhead + unit.seconds(middle) <= span else (low, middle)
        return low

    values = []
    for units, counts, worth in choices(problem):
        used = [k for k, n in enumerate(counts) if n]
        if not used or any(limits[k] == 0 for k in used):
            continue
        if sum(counts[k] * limits[k] for k in used) < problem.samples:
            continue
        low, high = max(units[k].overhead + units[k].seconds(0.0) for k in used), 1.0
        for _ in range(60):
            middle = (low + high) / 2
            enough = sum(counts[k] * done(units[k], limits[k], middle) for k in used) >= problem.samples
            low, high = (low, middle) if enough else (middle, high)
        values.append(tuple(worth * high))
    found, expected = solved(problem), nondominated(values)
    assert bool(found) == bool(expected)
    for one, other in ((found, expected), (expected, found)):
        assert all(any(p[0] <= q[0] * (1 + 1e-7) and p[1] <= q[1] * (1 + 1e-7) for p in one) for q in other)
