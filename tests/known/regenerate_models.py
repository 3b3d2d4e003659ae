"""The workloads of models/, traced: `python tests/known/regenerate_models.py [NAME ...]` writes one TOML each.

Needs the extra `trace`; models/README.md states the conventions. Sizes are the published ones; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networks
import torch
import transformers

import mopt.trace
from mopt.workload import Workload
from mopt.workload_files import save_workload

MODELS = Path(__file__).resolve().parents[2] / "models"

LLAMA3 = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}

BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
# GELU's tanh form in one operator; transformers spells "gelu_new", the same function, out in eight.
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257,
    "n_positions": 1024,
    "activation_function": "gelu_pytorch_tanh",
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
    "bert-base": BERT,
    "bert-large": BERT
    | {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "gpt2": GPT2 | {"n_embd": 768, "n_layer": 12, "n_head": 12},
    "gpt2-xl": GPT2 | {"n_embd": 1600, "n_layer": 48, "n_head": 25},
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
CNNS = ("resnet18", "resnet50", "resnet152", "mobilenet-v2", "mobilenet-v3", "efficientnet-b0", "convnext-t")
FAMILIES = {
    **dict.fromkeys(CNNS, "cnn"),
    **dict.fromkeys(("vit-b16", "vit-l16", "bert-base", "bert-large"), "encoder"),
    **dict.fromkeys(("gpt2", "gpt2-xl", "llama3-8b", "llama3-70b", "mixtral-8x7b", "qwen2.5-7b"), "decoder"),
}
IMAGES = ("resnet18", "resnet50", "resnet152", "mobilenet-v2", "efficientnet-b0", "convnext-t", "vit-b16", "vit-l16")
WITH_SGD = ("resnet18", "resnet50", "resnet152", "mobilenet-v2", "efficientnet-b0")
TEXTS = {"bert-base": 512, "bert-large": 512, "gpt2": 1024, "gpt2-xl": 1024}
DECODERS = ("llama3-8b", "llama3-70b", "mixtral-8x7b", "qwen2.5-7b")
CONTEXT = 2048


def image_batch(batch: int) -> torch.Tensor:
    return torch.empty(batch, 3, 224, 224)


def latent_batch(batch: int) -> tuple[torch.Tensor, ...]:
    return torch.empty(batch, 4, 64, 64), torch.empty(batch, 320), torch.empty(batch, 77, 768)


def click_batch(batch: int) -> tuple[torch.Tensor, ...]:
    return torch.empty(batch, 13), torch.zeros(batch, 26, dtype=torch.long)


def from_config(name: str, mode: str, precision: str, optimizer: str = "adamw", **settings: Any) -> Workload:
    config = CONFIGS[name]
    if config["model_type"] == "bert" and mode == "infer":
        config = config | {"architectures": ["BertModel"]}  # encoder and pooler
    return mopt.trace.huggingface(
        config,
        name=f"{name}-{mode}",
        mode=mode,
        precision=precision,
        optimizer=optimizer if mode == "train" else None,
        fused=True,
        **settings,
    )


def from_module(
    name: str, mode: str, make: Callable[[], torch.nn.Module], inputs: Any, sample: str, optimizer: str
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


def zoo() -> dict[str, Callable[[], Workload]]:
    """What makes each workload, by name."""
    image, latent = "image of 224x224", "step on a latent of 64x64"
    made: dict[str, Callable[[], Workload]] = {}
    for mode in ("infer", "train"):
        for name in IMAGES:
            optimizer = "sgd" if name in WITH_SGD else "adamw"
            made[f"{name}-{mode}"] = partial(from_config, name, mode, "fp16", optimizer, sample=image)
        for name, tokens in TEXTS.items():
            made[f"{name}-{mode}"] = partial(from_config, name, mode, "fp16", tokens=tokens)
        speech = {"tokens": 448, "sample": "30 s of sound and 448 tokens"}
        made[f"whisper-small-{mode}"] = partial(from_config, "whisper-small", mode, "fp16", **speech)
        v3, unet = networks.MobileNetV3Large, networks.StableDiffusionUNet
        made[f"mobilenet-v3-{mode}"] = partial(from_module, "mobilenet-v3", mode, v3, image_batch, image, "sgd")
        made[f"sd-unet-{mode}"] = partial(from_module, "sd-unet", mode, unet, latent_batch, latent, "adamw")
    # T5's attention has a trained bias; torch on the CPU has no fused operator with the bias's gradient.
    texts = {"tokens": 512, "sample": "512 tokens read, 512 written"}
    made["t5-base-infer"] = partial(from_config, "t5-base", "infer", "bf16", **texts)
    made["dlrm-infer"] = partial(from_module, "dlrm", "infer", networks.DLRM, click_batch, "impression", "")
    for name in DECODERS:
        for mode in ("prefill", "decode"):
            made[f"{name}-{mode}"] = partial(from_config, name, mode, "bf16", tokens=CONTEXT)
    for name in ("llama3-8b", "llama3-70b"):
        made[f"{name}-train"] = partial(from_config, name, "train", "bf16", tokens=CONTEXT)
    return made


def make(name: str) -> Workload:
    """One workload with its provenance."""
    made, network = zoo()[name](), name.rpartition("-")[0]
    return dataclasses.replace(made, source=f"{PUBLISHED[network]}; {made.source}", family=FAMILIES.get(network, ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="workloads; all if none are given")
    parser.add_argument("--out", type=Path, default=MODELS, help="folder to write to")
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    known = zoo()
    if unknown := set(given.names).difference(known):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    for name in given.names or known:
        start = time.perf_counter()
        made = make(name)
        save_workload(made, given.out / f"{name}.toml")
        print(f"{name:24} {len(made.layers):4d} layers {time.perf_counter() - start:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
