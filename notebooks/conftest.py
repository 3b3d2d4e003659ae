"""Which notebooks need an extra: they are skipped where it isn't installed."""

from importlib.util import find_spec

import pytest

NEEDS = {"04_your_own_model.ipynb": "torch"}


def pytest_collection_modifyitems(items):
    for item in items:
        module = NEEDS.get(item.path.name)
        if module is not None and find_spec(module) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {module}: pip install 'mopt[{module}]'"))
