"""Exact Pareto fronts of cost against hardware utilization for renting deep-learning hardware."""

from mopt.catalog import Catalog, load_catalog
from mopt.epsilon import solve_epsilon_front
from mopt.errors import Fault, InfeasibleError, InputError, MoptError, SolverError
from mopt.formulation import build_model
from mopt.front import Certificate, ParetoFront
from mopt.front_io import load_front
from mopt.point import Plan, Point, Proof, Segment
from mopt.problem import Demand, Problem, Quota
from mopt.ratio import Ratio
from mopt.resource import Resource
from mopt.roofline import PiecewiseLinear, launch_time
from mopt.scenarios import Solved, solve_fronts
from mopt.service import BatchLimit, batch_limit
from mopt.workload import Layer, MemoryPiece, Workload
from mopt.workload_files import list_workloads, load_workload, save_workload

__version__ = "0.1.0"

__all__ = [
    "BatchLimit",
    "Catalog",
    "Certificate",
    "Demand",
    "Fault",
    "InfeasibleError",
    "InputError",
    "Layer",
    "MemoryPiece",
    "MoptError",
    "ParetoFront",
    "PiecewiseLinear",
    "Plan",
    "Point",
    "Problem",
    "Proof",
    "Quota",
    "Ratio",
    "Resource",
    "Segment",
    "Solved",
    "SolverError",
    "Workload",
    "batch_limit",
    "build_model",
    "launch_time",
    "list_workloads",
    "load_catalog",
    "load_front",
    "load_workload",
    "save_workload",
    "solve_epsilon_front",
    "solve_fronts",
]
