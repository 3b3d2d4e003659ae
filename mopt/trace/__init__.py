"""Workloads traced from networks: PyTorch modules, Hugging Face configurations, ONNX graphs.

Nothing is computed and no weights are needed: shapes alone are followed. Each source needs an extra of its own
(`pip install 'mopt[torch]'`, `mopt[hf]`, `mopt[onnx]`), decoder language models from a config.json need none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from os import PathLike
from typing import Any, Literal

from mopt.errors import MISSING, Fault, InputError
from mopt.trace import decoder, extras
from mopt.trace.extras import MissingExtraError
from mopt.workload import Workload

__all__ = ["MissingExtraError", "huggingface", "onnx", "torch"]


def torch(
    module: Any,
    inputs: Callable[[int], Any] | Any,
    *,
    mode: Literal["train", "infer"] = "infer",
    precision: str,
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
        norms and softmax along rows included, are one kernel each, or part of the convolution before them (batch
        norm, activation, shortcut); what they pass on within never reaches memory.
    depth : int, optional
        Layers are module paths cut after so many names; 0 is one layer for all, None each module by itself. The
        workload's `description` says how much this lowers the roofline time. Equal layers are merged, which
        changes nothing.
    name, sample : str
        Of the workload, and what one sample is.
    loss : callable, optional
        Output -> scalar. By default the output's `loss`, a scalar output, or else the sum of squares.
    batches : three int
        At least 2 each.

    Returns
    -------
    Workload
        FLOPs are those of matrix products, convolutions and attention, 2 a multiply-add; of causal attention the
        unmasked half. What runs twice counts twice: scores in attention's backward, checkpointed activations.
        Bytes are a lower bound: no operand is read twice by one operator, no workspace.
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


def huggingface(
    config: decoder.Config,
    *,
    mode: Literal["infer", "train", "prefill", "decode"] = "infer",
    tokens: int | None = None,
    precision: str = "bf16",
    kv_precision: str | None = None,
    experts: decoder.Experts = "expected",
    launches: Sequence[int] = decoder.LAUNCHES,
    method: Literal["auto", "formula", "torch"] = "auto",
    optimizer: Literal["adamw", "sgd"] | None = None,
    fused: bool = False,
    depth: int | None = None,
    name: str | None = None,
    sample: str | None = None,
    inputs: Callable[[int], Any] | Any = None,
    batches: Sequence[int] = (2, 3, 5),
) -> Workload:
    """The workload of a model that a Hugging Face configuration describes: no weights, no network.

    Parameters
    ----------
    config : path, mapping or transformers configuration
        A config.json, its folder, or what stands in it.
    mode : "infer", "train", "prefill" or "decode"
        A forward pass, a training step, the prefill of a prompt (logits of its last token; keys and values are kept),
        or one token for each sample in the batch with its keys and values read from the cache.
    tokens : int
        Length of the prompt (prefill), of the context (decode), or of the sequence (512 if left out).
    precision : str
        By formula also "fp8" and "int8": weights of one byte, activations of two.
    kv_precision : str, optional
        Of the cache, by formula; that of the activations if left out.
    experts : "expected", "upper" or "lower"
        A mixture of experts reads more of them the larger the batch, a concave function. By formula: those that uniform
        routing is expected to need, as operating points, unless one sample needs all; or all of them, or those of a
        batch of one, in every launch.
    launches : sequence of int
        Batches of the operating points: only these are launched.
    method : "auto", "formula" or "torch"
        "formula" needs no extra and covers prefill and decode of GPT-2, Llama, Mistral, Mixtral, Qwen2, Qwen3 and
        Qwen3-MoE; "torch" (extra `hf`) traces the model of the transformers library, in all modes but decode. "auto"
        is the formula where there is one.
    optimizer, fused, depth, name, sample, batches
        As in `mopt.trace.torch`; the formula always fuses elementwise operators, and has one layer for each kind.
    inputs : callable, optional
        Batch -> arguments, for models whose main input isn't token ids, images or sound.

    Raises
    ------
    InputError
        If the configuration can't be read or lacks sizes, or a setting is outside its range.
    MissingExtraError
        If the extra `hf` is needed and not installed.
    """
    phases = ("prefill", "decode")
    faults = [
        Fault("", "trace", field, value, f"must be one of {', '.join(allowed)}")
        for field, value, allowed in (
            ("mode", mode, ("infer", "train", *phases)),
            ("method", method, ("auto", "formula", "torch")),
        )
        if value not in allowed
    ]
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1):
        faults.append(Fault("", "trace", "tokens", tokens, "must be a whole number of at least 1"))
    if method == "formula" and mode not in phases:
        faults.append(Fault("", "trace", "mode", mode, "must be prefill or decode by formula"))
    if method == "torch" and mode == "decode":
        faults.append(Fault("", "trace", "method", method, "must be formula (or auto) for decode"))
    if faults:
        raise InputError(faults)
    known = decoder.read_config(config)[0].get("model_type") in decoder.SUPPORTED
    if mode == "decode" or (mode == "prefill" and method != "torch" and (known or method == "formula")):
        model = decoder.decoder(config)
        return decoder.workload(
            model,
            "decode" if mode == "decode" else "prefill",
            MISSING if tokens is None else tokens,
            precision,
            kv_precision=kv_precision,
            experts=experts,
            launches=launches,
            name=name,
            source=f"configuration of {model.name}, by formula, {extras.version('mopt')}",
            date=date.today().isoformat(),
        )
    extras.load("torch", "hf")
    extras.load("transformers", "hf")
    from mopt.trace import hf

    return hf.workload(
        config,
        mode=mode,
        tokens=tokens,
        precision=precision,
        optimizer=optimizer,
        fused=fused,
        depth=depth,
        name=name,
        sample=sample,
        inputs=inputs,
        batches=batches,
    )


def onnx(
    path: str | PathLike[str] | Any,
    *,
    precision: str,
    fused: bool = False,
    depth: int | None = None,
    name: str | None = None,
    sample: str = "sample",
    dims: Mapping[str, int] | None = None,
    batches: Sequence[int] = (2, 3, 5),
) -> Workload:
    """The inference workload of an ONNX graph (extra `onnx`).

    Shapes are inferred at three batches; weights are not read, so external data may be missing.
    Operators count as the graph has them: attention that an exporter spelt out writes its scores.

    Parameters
    ----------
    path : path or onnx.ModelProto
        The batch is the first dimension of the first input, and every dimension of the same name.
    precision : str
        Floating-point tensors count at its width; with "fp8" and "int8" each tensor at that of its own type, for
        quantized graphs.
    fused, depth, name, sample, batches
        As in `torch`. Layers are the modules that the exporter wrote down, else the nodes.
    dims : mapping, optional
        Values of the inputs' other named dimensions: {"sequence": 128}.

    Raises
    ------
    InputError
        If the file can't be read, a dimension has no value, or a node's shapes can't be inferred or are not affine in
        the batch: names the node.
    MissingExtraError
        If onnx is not installed.
    """
    extras.load("onnx", "onnx")
    from mopt.trace import onnx_graph

    return onnx_graph.workload(
        path, precision=precision, fused=fused, depth=depth, name=name, sample=sample, dims=dims, batches=batches
    )
