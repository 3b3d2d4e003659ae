"""Without an extra, the error says which one to install."""

import sys

import pytest

import mopt.trace
from mopt import InputError

CALLS = {
    "torch": ("torch", lambda: mopt.trace.torch(None, None, precision="fp32")),
    "hf": ("transformers", lambda: mopt.trace.huggingface({"model_type": "bert"})),
    "onnx": ("onnx", lambda: mopt.trace.onnx("model.onnx", precision="fp32")),
}


@pytest.mark.parametrize("extra", CALLS)
def test_the_error_names_the_extra(extra, monkeypatch):
    module, call = CALLS[extra]
    if extra == "hf":
        monkeypatch.setitem(sys.modules, "torch", sys)  # whether torch is there or not
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"{module} is not installed: pip install 'mopt\[{extra}\]'") as caught:
        call()
    assert isinstance(caught.value, ImportError)
