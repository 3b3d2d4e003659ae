"""The zoo, traced: `python tests/known/regenerate_models.py --out DIR [NAME ...]` writes one TOML a workload.

Needs the extras `torch` and `hf`. Sizes are the published ones; nothing is downloaded. Elementwise operators are fused,
as compilers do; `mopt.trace.torch` has the other conventions. Prefill and decode of language models are by formula.
Without --out the figures are printed only.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networks
import torch
import transformers

import mopt.trace
from mopt.workload import Workload
from mopt.workload_files import save_workload

LLAMA3 = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "resnet18": {
        "model_type": "resnet",
        "architectures": ["ResNetForImageClassification"],
        "layer_type": "basic",
        "hidden_sizes": [64, 128, 256, 512],
        "depths": [2, 2, 2, 2],
        "num_labels": 1000,
    },
    "resnet50": {"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "num_labels": 1000},
    "resnet152": {
        "model_type": "resnet",
        "architectures": ["ResNetForImageClassification"],
        "depths": [3, 8, 36, 3],
        "num_labels": 1000,
    },
    "mobilenet-v2": {
        "model_type": "mobilenet_v2",
        "architectures": ["MobileNetV2ForImageClassification"],
        "num_labels": 1000,
    },
    "efficientnet-b0": {
        "model_type": "efficientnet",
        "architectures": ["EfficientNetForImageClassification"],
        "image_size": 224,
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
        "hidden_dim": 1280,
        "num_labels": 1000,
    },
    "convnext-t": {"model_type": "convnext", "architectures": ["ConvNextForImageClassification"], "num_labels": 1000},
    "vit-b16": {"model_type": "vit", "architectures": ["ViTForImageClassification"], "num_labels": 1000},
    "vit-l16": {
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "num_labels": 1000,
    },
    "bert-base": {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
    "bert-large": {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "vocab_size": 50257,
        "n_positions": 1024,
    },
    "gpt2-xl": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 1600,
        "n_layer": 48,
        "n_head": 25,
        "vocab_size": 50257,
        "n_positions": 1024,
    },
    "llama3-8b": LLAMA3
    | {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
    "llama3-70b": LLAMA3
    | {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64},
    "mixtral-8x7b": {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32000,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    "qwen2.5-7b": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
    },
    "t5-base": {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 768,
        "d_ff": 3072,
        "d_kv": 64,
        "num_layers": 12,
        "num_heads": 12,
        "vocab_size": 32128,
    },
    "whisper-small": {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "d_model": 768,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_attention_heads": 12,
        "decoder_attention_heads": 12,
        "encoder_ffn_dim": 3072,
        "decoder_ffn_dim": 3072,
        "vocab_size": 51865,
    },
}

PUBLISHED = {
    "resnet18": "He et al., CVPR 2016",
    "resnet50": "He et al., CVPR 2016",
    "resnet152": "He et al., CVPR 2016",
    "mobilenet-v2": "Sandler et al., CVPR 2018",
    "mobilenet-v3": "Howard et al., ICCV 2019",
    "efficientnet-b0": "Tan and Le, ICML 2019",
    "convnext-t": "Liu et al., CVPR 2022",
    "vit-b16": "Dosovitskiy et al., ICLR 2021",
    "vit-l16": "Dosovitskiy et al., ICLR 2021",
    "bert-base": "Devlin et al., NAACL 2019",
    "bert-large": "Devlin et al., NAACL 2019",
    "gpt2": "Radford et al. 2019",
    "gpt2-xl": "Radford et al. 2019",
    "llama3-8b": "Grattafiori et al., The Llama 3 herd of models, 2024",
    "llama3-70b": "Grattafiori et al., The Llama 3 herd of models, 2024",
    "mixtral-8x7b": "Jiang et al., Mixtral of experts, 2024",
    "qwen2.5-7b": "Qwen2.5 technical report, 2024",
    "t5-base": "Raffel et al., JMLR 2020",
    "whisper-small": "Radford et al., ICML 2023",
    "sd-unet": "Rombach et al., CVPR 2022",
    "dlrm": "Naumov et al. 2019, sizes of MLPerf training",
}
IMAGES = ("resnet18", "resnet50", "resnet152", "mobilenet-v2", "efficientnet-b0", "convnext-t", "vit-b16", "vit-l16")
WITH_SGD = ("resnet18", "resnet50", "resnet152", "mobilenet-v2", "efficientnet-b0")
TEXTS = {"bert-base": 512, "bert-large": 512, "gpt2": 1024, "gpt2-xl": 1024, "t5-base": 512}
DECODERS = {"llama3-8b": 2048, "llama3-70b": 2048, "mixtral-8x7b": 2048, "qwen2.5-7b": 2048}
TRAINED_DECODERS = ("llama3-8b", "llama3-70b")


def image_batch(batch: int) -> torch.Tensor:
    return torch.empty(batch, 3, 224, 224)


def latent_batch(batch: int) -> tuple[torch.Tensor, ...]:
    return torch.empty(batch, 4, 64, 64), torch.empty(batch, 320), torch.empty(batch, 77, 768)


def click_batch(batch: int) -> tuple[torch.Tensor, ...]:
    return torch.empty(batch, 13), torch.zeros(batch, 26, dtype=torch.long)


def from_config(name: str, mode: str, precision: str, optimizer: str | None = None, **settings: Any) -> Workload:
    return mopt.trace.huggingface(
        CONFIGS[name],
        name=f"{name}-{mode}",
        mode=mode,
        precision=precision,
        optimizer=optimizer if mode == "train" else None,
        fused=True,
        **settings,
    )


def from_module(
    name: str, mode: str, make: Callable[[], torch.nn.Module], inputs: Any, sample: str, optimizer: str | None
) -> Workload:
    with torch.device("meta"):
        module = make()
    return mopt.trace.torch(
        module,
        inputs,
        name=f"{name}-{mode}",
        mode=mode,
        precision="fp16",
        optimizer=optimizer if mode == "train" else None,
        fused=True,
        sample=sample,
    )


def zoo() -> Iterator[tuple[str, Callable[[], Workload]]]:
    """Name of each workload and what makes it."""
    for mode in ("infer", "train"):
        for name in IMAGES:
            optimizer = "sgd" if name in WITH_SGD else "adamw"
            yield (
                f"{name}-{mode}",
                lambda name=name, mode=mode, optimizer=optimizer: from_config(
                    name, mode, "fp16", optimizer, sample="image of 224x224"
                ),
            )
        for name, tokens in TEXTS.items():
            precision = "bf16" if name == "t5-base" else "fp16"
            yield (
                f"{name}-{mode}",
                lambda name=name, mode=mode, precision=precision, tokens=tokens: from_config(
                    name, mode, precision, "adamw", tokens=tokens
                ),
            )
        yield (
            f"whisper-small-{mode}",
            lambda mode=mode: from_config(
                "whisper-small", mode, "fp16", "adamw", tokens=448, sample="30 s of sound and 448 tokens"
            ),
        )
        yield (
            f"mobilenet-v3-{mode}",
            lambda mode=mode: from_module(
                "mobilenet-v3", mode, networks.MobileNetV3Large, image_batch, "image of 224x224", "sgd"
            ),
        )
        yield (
            f"sd-unet-{mode}",
            lambda mode=mode: from_module(
                "sd-unet", mode, networks.StableDiffusionUNet, latent_batch, "step on a latent of 64x64", "adamw"
            ),
        )
    yield "dlrm-infer", lambda: from_module("dlrm", "infer", networks.DLRM, click_batch, "impression", None)
    for name, tokens in DECODERS.items():
        for mode in ("prefill", "decode"):
            yield (
                f"{name}-{mode}",
                lambda name=name, mode=mode, tokens=tokens: from_config(name, mode, "bf16", tokens=tokens),
            )
    for name in TRAINED_DECODERS:
        yield f"{name}-train", lambda name=name: from_config(name, "train", "bf16", "adamw", tokens=DECODERS[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads; all if none are given")
    parser.add_argument("--out", type=Path, help="folder to write to")
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    for name, make in zoo():
        if given.names and name not in given.names:
            continue
        start = time.perf_counter()
        made = make()
        made = dataclasses.replace(made, source=f"{PUBLISHED[name.rpartition('-')[0]]}; {made.source}")
        seconds = time.perf_counter() - start
        intensity = made.flops_per_sample / made.bytes_per_sample
        print(
            f"{name:24} {made.flops_per_sample / 1e9:12.4g} GFLOP {made.bytes_per_sample / 1e6:11.5g} MB a sample "
            f"{made.bytes_fixed / 1e6:11.5g} MB a launch {intensity:8.3g} FLOP/B {made.footprint(1) / 1e9:8.4g} GB "
            f"{len(made.layers):4d} layers {seconds:5.1f} s",
            flush=True,
        )
        if given.out:
            save_workload(made, given.out / f"{name}.toml")


if __name__ == "__main__":
    main()
