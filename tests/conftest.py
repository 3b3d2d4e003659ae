"""Files of tests that import an extra are left out where it isn't installed; the end of the report names them."""

from importlib.util import find_spec

NEEDED = {
    "known/test_trace_published.py": ("torch", "transformers"),
    "unit/test_trace_hf.py": ("torch", "transformers"),
    "unit/test_trace_modules.py": ("torch",),
    "unit/test_trace_onnx.py": ("onnx",),
    "unit/test_trace_torch.py": ("torch",),
}
MISSING = {
    file: missing
    for file, modules in NEEDED.items()
    if (missing := [module for module in modules if find_spec(module) is None])
}
collect_ignore = list(MISSING)


def pytest_terminal_summary(terminalreporter):
    for file, missing in MISSING.items():
        terminalreporter.write_line(f"left out: tests/{file}, without {', '.join(missing)}")
