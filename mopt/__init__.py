"""Exact Pareto fronts of cost against hardware utilization for renting deep-learning hardware."""

import lazy_loader

__version__ = "0.1.0"

# Names are listed in __init__.pyi and imported when first used: `import mopt` then needn't wait for Pyomo and SciPy.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
