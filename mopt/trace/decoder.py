"""Decoder language models by formula: what prefill and decode cost, from a config.json and nothing else.

Counts follow the published definitions of the architectures: GPT-2 (Radford et al. 2019), Llama (Touvron et al. 2023,
with the grouped-query attention of Ainslie et al. 2023), Mixtral's mixture of experts (Jiang et al. 2024).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from mopt.errors import MISSING, Fault, InputError
from mopt.operating_points import OperatingPoint
from mopt.record import record
from mopt.trace.attention import causal_pairs
from mopt.workload import Layer, Workload

Phase = Literal["prefill", "decode"]
Experts = Literal["expected", "upper", "lower"]
Config = Mapping[str, Any] | str | PathLike[str] | Any
Count = Annotated[int, Field(ge=1)]

BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
_GATED = ("llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe")
SUPPORTED = ("gpt2", *_GATED)
_SATURATED = 1 - 1e-9  # share of the experts that is as good as all of them
# Batches of a mixture's operating points: steps of a half and a third.
LAUNCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@record
class Decoder:
    """Sizes of a decoder language model; `experts` 0 means dense, `window` 0 means attention to all tokens before."""

    name: str
    hidden: Count
    layers: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    intermediate: Count
    vocab: Count
    gated: bool = True
    tied: bool = False
    learned_positions: Annotated[int, Field(ge=0)] = 0
    biases: Annotated[int, Field(ge=0)] = 0
    norm_weights: Count = 1
    experts: Annotated[int, Field(ge=0)] = 0
    experts_per_token: Annotated[int, Field(ge=0)] = 0
    window: Annotated[int, Field(ge=0)] = 0

    @property
    def attention_weights(self) -> int:
        """Entries of the four projections of one layer."""
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    @property
    def mlp_weights(self) -> int:
        """Entries of one MLP, or of one expert."""
        return (3 if self.gated else 2) * self.hidden * self.intermediate

    @property
    def parameters(self) -> int:
        """Number of parameters; `biases` and `norm_weights` are those of one layer."""
        mlp = self.mlp_weights * max(1, self.experts) + self.hidden * self.experts
        layer = self.attention_weights + mlp + self.biases + self.norm_weights
        final_norm = self.hidden if self.gated else 2 * self.hidden
        tables = self.hidden * (self.vocab * (1 if self.tied else 2) + self.learned_positions)
        return self.layers * layer + final_norm + tables

    def kv_cache_bytes(self, tokens: int, precision: str) -> int:
        """Bytes of keys and values that one sample of `tokens` keeps."""
        kept = min(tokens, self.window) if self.window else tokens
        return 2 * self.layers * self.kv_heads * self.head_dim * kept * BYTES[precision]

    def experts_read(self, tokens: int) -> float:
        """Distinct experts that `tokens` tokens activate in one layer, expected under uniform independent routing:
        E·(1 − (1 − k/E)^t) for t tokens, k of E experts each; 1 of a dense model."""
        return self.experts * (1 - (1 - self.experts_per_token / self.experts) ** tokens) if self.experts else 1.0


def read_config(config: Config) -> tuple[dict[str, Any], str]:
    """A configuration as a dict, and its file: from a config.json, its folder, a dict, or a transformers object.

    Raises
    ------
    InputError
        If there is no such file, or it isn't a JSON object.
    """
    if isinstance(config, Mapping):
        return dict(config), ""
    if hasattr(config, "to_dict"):
        return dict(config.to_dict()), ""
    path = Path(config)
    path = path / "config.json" if path.is_dir() else path
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError([Fault(str(path), "", "file", str(path), f"can't be read: {error.strerror}")]) from None
    except ValueError as error:
        raise InputError([Fault(str(path), "", "file", str(path), f"is not JSON: {error}")]) from None
    if not isinstance(data, dict):
        raise InputError([Fault(str(path), "", "file", type(data).__name__, "must be a JSON object")])
    return data, str(path)


def decoder(config: Config) -> Decoder:
    """The sizes that a Hugging Face configuration gives.

    Raises
    ------
    InputError
        If the model type isn't one of `SUPPORTED`, or sizes are missing or wrong; all faults at once.
    """
    data, file = read_config(config)
    kind = data.get("model_type", MISSING)
    if kind not in SUPPORTED:
        raise InputError([Fault(file, "config", "model_type", kind, f"must be one of {', '.join(SUPPORTED)}")])
    faults: list[Fault] = []

    def size(key: str, default: Any = None) -> int:
        value = data.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            read = data.get(key, MISSING)
            faults.append(Fault(file, f"config of {kind}", key, read, "must be a whole number of at least 1"))
            return 1
        return value

    made = _gpt2(size) if kind == "gpt2" else _gated(str(kind), data, size, faults, file)
    if not faults:
        hidden, heads, kv_heads = made["hidden"], made["heads"], made["kv_heads"]
        if heads % kv_heads:
            text = f"must divide the {heads} heads"
            faults.append(Fault(file, f"config of {kind}", "num_key_value_heads", kv_heads, text))
        if hidden % heads and data.get("head_dim") is None:
            faults.append(
                Fault(file, f"config of {kind}", "hidden size", hidden, f"must be a multiple of {heads} heads")
            )
    if faults:
        raise InputError(faults)
    name = str(data.get("_name_or_path") or kind).rstrip("/").rpartition("/")[2]
    return Decoder(name=name, **made)


def _gpt2(size: Any) -> dict[str, Any]:
    hidden, heads = size("n_embd"), size("n_head")
    inner = size("n_inner", 4 * hidden)
    return {
        "hidden": hidden,
        "layers": size("n_layer"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": max(1, hidden // heads),
        "intermediate": inner,
        "vocab": size("vocab_size"),
        "gated": False,
        "tied": True,
        "learned_positions": size("n_positions"),
        "biases": 5 * hidden + inner,
        "norm_weights": 4 * hidden,
    }


def _gated(kind: str, data: Mapping[str, Any], size: Any, faults: list[Fault], file: str) -> dict[str, Any]:
    hidden, heads = size("hidden_size"), size("num_attention_heads")
    kv_heads = size("num_key_value_heads", heads if kind == "llama" else None)
    head_dim = size("head_dim", 128 if kind.startswith("qwen3") else max(1, hidden // heads))
    inner = size("moe_intermediate_size" if kind == "qwen3_moe" else "intermediate_size")
    projected = (heads + 2 * kv_heads) * head_dim
    biases = 0
    if kind == "qwen2":
        biases = projected
    elif data.get("attention_bias"):
        biases = projected + hidden
    if kind == "llama" and data.get("mlp_bias"):
        biases += 2 * inner + hidden
    experts = next((key for key in ("num_local_experts", "num_experts") if key in data), "num_local_experts")
    mixture = kind in ("mixtral", "qwen3_moe")
    if data.get("mlp_only_layers") or data.get("decoder_sparse_step", 1) != 1:
        text = "must be left out: layers of one kind only"
        faults.append(Fault(file, f"config of {kind}", "mlp_only_layers, decoder_sparse_step", "given", text))
    windowed = kind in ("mistral", "mixtral") or data.get("use_sliding_window")
    return {
        "hidden": hidden,
        "layers": size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate": inner,
        "vocab": size("vocab_size"),
        "tied": bool(data.get("tie_word_embeddings", False)),
        "biases": biases,
        "norm_weights": 2 * hidden + (2 * head_dim if kind.startswith("qwen3") else 0),
        "experts": size(experts) if mixture else 0,
        "experts_per_token": size("num_experts_per_tok") if mixture else 0,
        "window": size("sliding_window") if windowed and data.get("sliding_window") else 0,
    }


def decoder_layers(
    model: Decoder, phase: Phase, tokens: int, precision: str, kv_precision: str, read: float
) -> tuple[Layer, ...]:
    """The launch as layers, each summed over the model's layers, with `read` experts read of each; see `workload`.

    Operators are those of the reference implementations, with elementwise ones, norms included, fused into single
    passes: each matrix product reads its operands and writes its result, attention never writes its scores.
    """
    weight, kv = BYTES[precision], BYTES[kv_precision]
    act = max(2, weight)  # 8 bits are for weights and products; what is passed on has 16
    new = tokens if phase == "prefill" else 1
    keys = min(tokens, model.window) if model.window else tokens
    pairs = causal_pairs(new, keys) if phase == "prefill" else keys
    d, n = model.hidden, model.layers
    q, k, i = model.heads * model.head_dim, model.kv_heads * model.head_dim, model.intermediate
    position_rows = new * d * (weight + act) + new * d * act if model.learned_positions else 0
    position_add = 2 * new * d * act if model.learned_positions else 0
    rotated = 2 * q * act if model.gated else 0
    projections = (3 if model.gated else 1) * d + q + 2 * k
    biases = model.biases * weight
    up = 2 if model.gated else 1
    copies = max(1, model.experts_per_token)
    layers = [
        Layer("embedding", 0.0, position_rows, new * (8 + d * (weight + act)) + position_add),
        Layer("norms", 0.0, (n * model.norm_weights + d) * weight, ((2 * n - 1) * 4 + 5) * new * d * act),
        Layer(
            f"attention.projections x{n}",
            2 * n * new * d * (q + 2 * k),
            n * (d * (q + 2 * k) * weight + biases),
            n * new * projections * act,
        ),
        Layer(
            f"attention.cache x{n}",
            0.0,
            4 * n * new * model.head_dim * act if model.gated else 0,
            n * new * (rotated + 2 * k * (act + kv)),
        ),
        Layer(
            f"attention.scores x{n}",
            4 * n * pairs * q,
            0.0,
            n * (2 * k * max(new, keys) * kv + new * (2 * q * act + 4 * model.heads)),
        ),
        Layer(f"attention.output x{n}", 2 * n * new * q * d, n * q * d * weight, n * new * (q + d) * act),
        Layer(
            f"mlp x{n}",
            2 * n * new * copies * model.mlp_weights,
            n * read * model.mlp_weights * weight,
            n * new * copies * (up * (d + i) + up * i + i + i + d) * act,
        ),
        Layer("head", 2 * d * model.vocab, d * model.vocab * weight, (d + model.vocab) * act),
    ]
    if model.experts:
        routing = d * act + model.experts * act + (2 * copies + 1 + copies) * d * act
        router = Layer(f"router x{n}", 2 * n * new * d * model.experts, n * d * model.experts * weight, n * new * routing)
        layers.insert(-2, router)
    return tuple(layers)


def footprint(model: Decoder, phase: Phase, tokens: int, precision: str, kv_precision: str) -> tuple[float, float]:
    """(m0, m1) in B: weights; per sample the cache and the largest set of activations in use at once."""
    act = max(2, BYTES[precision])
    new = tokens if phase == "prefill" else 1
    copies = max(1, model.experts_per_token)
    mlp = (3 if model.gated else 2) * model.intermediate * copies + 2 * model.hidden
    attention = 2 * (model.heads + model.kv_heads) * model.head_dim + 2 * model.hidden
    per_sample = model.kv_cache_bytes(tokens, kv_precision) + new * max(mlp, attention) * act + model.vocab * act
    return float(model.parameters * BYTES[precision]), float(per_sample)


def workload(
    model: Decoder,
    phase: Phase,
    tokens: int,
    precision: str = "bf16",
    *,
    kv_precision: str | None = None,
    experts: Experts = "expected",
    launches: Iterable[int] = LAUNCHES,
    name: str | None = None,
    source: str = "",
    date: str = "",
) -> Workload:
    """Prefill of a prompt of `tokens`, or one decode step at a context of `tokens`.

    Affine in the batch, but for a mixture of experts, which reads more of them the larger the batch, a concave function:
    "expected" gives operating points at the batches `launches`, with `Decoder.experts_read`; "upper" charges every
    launch with all experts, "lower" with those of a batch of one. Where one sample reads them all there is no difference.

    Raises
    ------
    InputError
        If a setting is outside its range.
    """
    kv_precision, batches = _checked(model, phase, tokens, precision, kv_precision, experts, launches)
    what = f"prefill of {tokens} tokens" if phase == "prefill" else f"decode of 1 token at a context of {tokens}"
    notes = [
        f"{model.name}, {what}: {model.parameters:,} parameters, {precision}, cache {kv_precision}; logits of the last "
        f"token; the unmasked half of causal attention; elementwise operators fused."
    ]
    new, act = tokens if phase == "prefill" else 1, max(2, BYTES[precision])
    alone = model.experts_read(new)
    sizes = (model, phase, tokens, precision, kv_precision)
    by_points = experts == "expected" and model.experts > 0 and alone < model.experts * _SATURATED
    points: tuple[OperatingPoint, ...] = ()
    layers: tuple[Layer, ...] = ()
    if by_points:
        points = tuple(_point(decoder_layers(*sizes, model.experts_read(batch * new)), batch) for batch in batches)
    else:
        layers = decoder_layers(*sizes, alone if experts == "lower" else float(max(1, model.experts)))
    if model.experts:
        read = {"expected": "the experts that uniform routing is expected to need", "upper": "all experts"}
        notes.append(
            f"A token needs {model.experts_per_token} of {model.experts} experts in each layer; a launch reads "
            f"{read.get(experts, 'the experts of a batch of one')}."
        )
    fixed, per_sample = footprint(*sizes)
    return Workload(
        name=name or f"{model.name}-{phase}",
        precision=precision,
        layers=layers,
        points=points,
        memory_fixed=fixed,
        memory_per_sample=per_sample,
        sample=f"prompt of {tokens} tokens" if phase == "prefill" else f"token at context {tokens}",
        description=" ".join(notes),
        source=source,
        date=date,
        family="decoder",
        weight_bytes=fixed,
        tensor_bytes=2 * model.layers * new * model.hidden * act,
        pipeline_bytes=new * model.hidden * act,
    )


def _point(layers: Iterable[Layer], batch: int) -> OperatingPoint:
    """What a launch of `batch` samples costs, layer by layer; its memory is the workload's own."""
    return OperatingPoint(
        batch,
        flops=tuple(layer.flops * batch for layer in layers),
        bytes=tuple(layer.bytes_fixed + layer.bytes_per_sample * batch for layer in layers),
    )


def _checked(
    model: Decoder,
    phase: str,
    tokens: Any,
    precision: str,
    kv_precision: str | None,
    experts: str,
    launches: Iterable[Any],
) -> tuple[str, tuple[int, ...]]:
    default = precision if BYTES.get(precision, 1) >= 2 else "bf16"
    kv_precision, batches = kv_precision or default, tuple(launches)
    faults = [
        Fault("", f"workload of {model.name}", field, value, f"must be one of {', '.join(allowed)}")
        for field, value, allowed in (
            ("mode", phase, ("prefill", "decode")),
            ("precision", precision, tuple(BYTES)),
            ("kv_precision", kv_precision, tuple(BYTES)),
            ("experts", experts, ("expected", "upper", "lower")),
        )
        if value not in allowed
    ]
    most = model.learned_positions
    if not _whole(tokens) or (most and tokens > most):
        text = f"must be a whole number from 1 to {most}" if most else "must be a whole number of at least 1"
        faults.append(Fault("", f"workload of {model.name}", "tokens", tokens, text))
    if not batches or not all(map(_whole, batches)) or len(set(batches)) < len(batches):
        text = "must be different whole numbers of at least 1"
        faults.append(Fault("", f"workload of {model.name}", "launches", batches, text))
    if faults:
        raise InputError(faults)
    return kv_precision, batches


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
