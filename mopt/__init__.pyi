from . import trace as trace
from .accuracy import accuracy_table as accuracy_table, choice_table as choice_table
from .calibrating import calibrate as calibrate
from .calibration import Calibration as Calibration
from .calibration_files import load_calibration as load_calibration, save_calibration as save_calibration
from .catalog import Catalog as Catalog, load_catalog as load_catalog
from .epsilon import solve_epsilon_front as solve_epsilon_front
from .errors import (
    Fault as Fault,
    InfeasibleError as InfeasibleError,
    InputError as InputError,
    MoptError as MoptError,
    SolverError as SolverError,
)
from .formulation import build_model as build_model
from .front import Certificate as Certificate, ParetoFront as ParetoFront
from .front_io import load_front as load_front
from .launch_table import LaunchTable as LaunchTable
from .measure import measure_resource as measure_resource, measure_workload as measure_workload
from .measurements import Measurement as Measurement
from .melange import load_melange as load_melange
from .operating_points import OperatingPoint as OperatingPoint
from .parallelism import Parallelism as Parallelism
from .plot import compare as compare
from .plot_roofline import plot_launch_time as plot_launch_time, plot_roofline as plot_roofline
from .point import Plan as Plan, Point as Point, Proof as Proof, Segment as Segment
from .problem import Demand as Demand, Problem as Problem, Quota as Quota
from .problem_files import load_problem as load_problem, save_problem as save_problem
from .ratio import Ratio as Ratio
from .resource import Resource as Resource
from .robust import RobustFront as RobustFront, robust_front as robust_front
from .roofline import PiecewiseLinear as PiecewiseLinear, launch_time as launch_time
from .scenarios import Solved as Solved, solve_fronts as solve_fronts
from .service import BatchLimit as BatchLimit, batch_limit as batch_limit
from .workload import Layer as Layer, MemoryPiece as MemoryPiece, Workload as Workload
from .workload_files import (
    list_workloads as list_workloads,
    load_workload as load_workload,
    save_workload as save_workload,
)

__version__: str
