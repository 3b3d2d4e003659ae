"""Workloads traced from networks: PyTorch modules, Hugging Face configurations, ONNX graphs.

Nothing is computed and no weights are needed: shapes alone are followed. Each source needs an extra of its own
(`pip install 'mopt[torch]'`, `mopt[hf]`, `mopt[onnx]`), decoder language models from a config.json need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from mopt.trace import extras
from mopt.trace.extras import MissingExtraError
from mopt.workload import Workload

__all__ = ["MissingExtraError", "torch"]


def torch(
    module: Any,
    inputs: Callable[[int], Any] | Any,
    *,
    mode: Literal["train", "infer"] = "infer",
    precision: str = "bf16",
    optimizer: Literal["adamw", "sgd"] | None = None,
    fused: bool = False,
    depth: int | None = None,
    name: str | None = None,
    sample: str = "sample",
    loss: Callable[[Any], Any] | None = None,
    batches: Sequence[int] = (2, 3, 5),
) -> Workload:
    """The workload of a PyTorch module (extra `torch`).

    The module runs on fake tensors: no memory, no weights, so build a large one under `torch.device("meta")`. Costs are
    fitted to two batches and checked at a third.

    Parameters
    ----------
    module : torch.nn.Module
        Left as it is. Its parameters and buffers count at `precision`; dropout is off.
    inputs : callable or example
        A callable batch -> arguments: a tensor, a tuple (args), a mapping (kwargs) or (args, kwargs); or an example of
        these whose tensors have the batch as their first dimension.
    mode : "train" or "infer"
        Forward, backward and optimizer step; or forward pass.
    precision : "bf16", "fp16", "fp32", "tf32" or "fp64"
        Of weights, activations and gradients. With 16 bits the optimizer keeps 32-bit master weights and states.
    optimizer : "adamw", "sgd" or None
        One pass over gradients and states, as torch's fused optimizers do it; "sgd" has momentum.
    fused : bool
        False: each operator reads its operands and writes its results (eager). True: chains of elementwise operators,
        and the reductions that end them, are one kernel each; what they pass on within never reaches memory.
    depth : int, optional
        Layers are module paths cut after so many names; 0 is one layer for all, None each module by itself. The
        workload's `description` says how much this lowers the roofline time. Equal layers are merged, which
        changes nothing.
    name, sample : str
        Of the workload, and what one sample is.
    loss : callable, optional
        Output -> scalar. By default the output's `loss`, a scalar output, or else the sum of the outputs.
    batches : three int
        At least 2 each.

    Returns
    -------
    Workload
        FLOPs are those of matrix products, convolutions and attention (2 a multiply-add; the masked half of causal
        attention counts). Bytes are a lower bound: no operand is read twice by one operator, no workspace.
        The footprint is the largest sum of live allocations, weights, gradients, optimizer states, saved
        activations and temporaries together: what an allocator adds comes on top.

    Raises
    ------
    InputError
        If an operator's cost is not affine in the batch, or depends on the values of tensors: names the operator.
    MissingExtraError
        If torch is not installed.

    Notes
    -----
    Shapes are followed by PyTorch's FakeTensorMode and FLOPs taken from its registry (`torch.utils.flop_counter`),
    which lacks CPU attention and grouped products and counts the weight gradient of a grouped convolution once per
    group; these are corrected.
    """
    extras.load("torch", "torch")
    from mopt.trace import pytorch

    return pytorch.workload(
        module,
        inputs,
        mode=mode,
        precision=precision,
        optimizer=optimizer,
        fused=fused,
        depth=depth,
        name=name,
        sample=sample,
        loss=loss,
        batches=batches,
    )
