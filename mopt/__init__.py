"""Exact Pareto fronts of cost against hardware utilization for renting deep-learning hardware."""

from mopt.errors import Fault, InfeasibleError, InputError, MoptError, SolverError
from mopt.resource import Resource
from mopt.workload import Layer, MemoryPiece, Workload

__version__ = "0.1.0"

__all__ = [
    "Fault",
    "InfeasibleError",
    "InputError",
    "Layer",
    "MemoryPiece",
    "MoptError",
    "Resource",
    "SolverError",
    "Workload",
]
