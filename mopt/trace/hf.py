"""Hugging Face configurations: the model that they describe, without weights and without network."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from mopt.errors import MISSING, Fault, InputError
from mopt.trace import pytorch
from mopt.trace.decoder import BYTES, SUPPORTED, Config, read_config
from mopt.trace.extras import version
from mopt.workload import Workload

_DEFAULT_TOKENS = 512
# The fused attention of torch under a name of its own, for which transformers makes no masks: on fake tensors it can't
# tell that a batch has neither padding nor several sequences in a row, and would spell out a mask that isn't needed.
_ATTENTION = "mopt_sdpa"
transformers.AttentionInterface.register(_ATTENTION, sdpa_attention_forward)


def build(config: Config) -> torch.nn.Module:
    """The model of a configuration on the meta device: the first of its `architectures`, else the bare model.

    Raises
    ------
    InputError
        If transformers doesn't know the model type or architecture, or refuses the configuration.
    """
    data, file = read_config(config)
    kind = data.get("model_type", MISSING)
    if kind not in transformers.CONFIG_MAPPING:
        raise InputError([Fault(file, "config", "model_type", kind, "must be one that transformers knows")])
    try:
        made = transformers.AutoConfig.for_model(**data)
    except (TypeError, ValueError, StrictDataclassError) as error:
        raise InputError([Fault(file, f"config of {kind}", "values", kind, f"transformers: {error}")]) from error
    names = data.get("architectures") or []
    model = getattr(transformers, names[0], None) if names else transformers.AutoModel
    if model is None:
        text = "must be a model class of transformers"
        raise InputError([Fault(file, f"config of {kind}", "architectures", names[0], text)])
    if hasattr(made, "num_local_experts") or hasattr(made, "num_experts"):
        made._experts_implementation = "grouped_mm"  # the only one whose shapes don't depend on the routing
    create = model.from_config if names == [] else model._from_config
    with torch.device("meta"):
        for attention in (_ATTENTION, "sdpa"):
            with contextlib.suppress(ValueError, KeyError):  # architectures without attention, or with one of their own
                return create(made, attn_implementation=attention)
        return create(made, attn_implementation="eager")


def inputs_of(model: Any, mode: str, tokens: int | None) -> Callable[[int], dict[str, Any]]:
    """Arguments for a batch, as the model's main input asks for: images, sound or tokens; labels for training."""
    config = model.config
    length = tokens or _DEFAULT_TOKENS
    takes = inspect.signature(model.forward).parameters
    main = model.main_input_name

    def text(batch: int, count: int) -> torch.Tensor:
        return torch.zeros((batch, count), dtype=torch.long)

    def make(batch: int) -> dict[str, Any]:
        if main == "pixel_values":
            size = getattr(config, "image_size", 224)
            height, width = size if isinstance(size, Sequence) else (size, size)
            given: dict[str, Any] = {main: torch.empty(batch, getattr(config, "num_channels", 3), height, width)}
        elif main == "input_features":
            given = {main: torch.empty(batch, config.num_mel_bins, 2 * config.max_source_positions)}
        elif main == "input_ids":
            given = {main: text(batch, length)}
        else:
            raise InputError([Fault("", type(model).__name__, "inputs", main, "must be given as a callable")])
        if getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = text(batch, length)
        if mode == "train" and "labels" in takes:
            architecture = type(model).__name__
            if architecture.endswith(("ForImageClassification", "ForSequenceClassification")):
                given["labels"] = torch.zeros(batch, dtype=torch.long)
            elif main != "pixel_values":
                given["labels"] = text(batch, length)
        if mode == "prefill" and "logits_to_keep" in takes:
            given["logits_to_keep"] = 1
        if "use_cache" in takes:
            given["use_cache"] = mode == "prefill"
        return given

    return make


def workload(
    config: Config,
    *,
    mode: str,
    tokens: int | None,
    precision: str,
    optimizer: str | None,
    fused: bool,
    depth: int | None,
    name: str | None,
    sample: str | None,
    inputs: Callable[[int], Any] | Mapping[str, Any] | None,
    batches: Sequence[int],
) -> Workload:
    """See `mopt.trace.huggingface`; `mode` is "infer", "train" or "prefill"."""
    model = build(config)
    try:
        made = pytorch.workload(
            model,
            inputs or inputs_of(model, mode, tokens),
            mode="train" if mode == "train" else "infer",
            precision=precision,
            optimizer=optimizer,
            fused=fused,
            depth=depth,
            name=name or f"{model.config.model_type}-{mode}",
            sample=sample or _sample(model, tokens),
            loss=None,
            batches=batches,
            source=f"traced with {version('mopt')}, {version('torch')}, {version('transformers')}",
        )
    except AttributeError as error:  # of an input that is None
        if inputs is not None:
            raise
        text = f"must be given as a callable: {model.main_input_name} alone is not enough ({error})"
        raise InputError([Fault("", type(model).__name__, "inputs", MISSING, text)]) from error
    summed, passed_on = _exchanged(model.config, mode, tokens or _DEFAULT_TOKENS, precision)
    return dataclasses.replace(made, tensor_bytes=summed, pipeline_bytes=passed_on)


def _exchanged(config: Any, mode: str, tokens: int, precision: str) -> tuple[float | None, float | None]:
    """Activations of a sample that the parts of a decoder exchange if it is split: two sums a layer, and one tensor a
    stage; as much again for their gradients. None for other architectures."""
    if config.model_type not in SUPPORTED:
        return None, None
    tensor = float((2 if mode == "train" else 1) * tokens * config.hidden_size * BYTES[precision])
    return 2 * config.num_hidden_layers * tensor, tensor


def _sample(model: Any, tokens: int | None) -> str:
    kinds = {"pixel_values": "image", "input_features": "sound"}
    return kinds.get(model.main_input_name) or f"sequence of {tokens or _DEFAULT_TOKENS} tokens"
