"""What tracing costs in CPU seconds and memory, each network in a process of its own. Extras: `torch`, `hf`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

KNOWN = Path(__file__).resolve().parents[1] / "known"
CHILD = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[2])
import torch, transformers
from regenerate_models import CONFIGS
import mopt.trace
from mopt.trace import hf
start = time.process_time()
made = mopt.trace.huggingface(CONFIGS[sys.argv[1]], mode="train", precision="bf16", optimizer="adamw", tokens=4096)
seconds = time.process_time() - start
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


@pytest.mark.parametrize(
    ("name", "seconds", "memory"), [("resnet50", 5, 2e9), ("llama3-8b", 20, 2e9), ("llama3-70b", 60, 2e9)]
)
def test_tracing_a_training_step(name, seconds, memory):
    done = subprocess.run([sys.executable, "-c", CHILD, name, str(KNOWN)], capture_output=True, text=True, check=True)
    took, peak = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {took:.1f} s, {peak / 1e9:.2f} GB")
    assert took <= seconds
    assert peak <= memory
