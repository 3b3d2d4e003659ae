"""Traced networks against published figures, and the ways of tracing against each other.

Needs the extras `torch` and `hf` (and `onnx` with onnxscript for the exported graph).
"""

import dataclasses
import functools
import inspect

import networks
import pytest
import torch
import transformers
from regenerate_models import CONFIGS, PUBLISHED, click_batch, image_batch, latent_batch, make, zoo

import mopt.trace
from mopt.trace import hf, pytorch
from mopt.trace.decoder import decoder
from mopt.workload_files import list_workloads, load_workload

transformers.logging.set_verbosity_error()

# Multiply-adds of a forward pass in 1e9, tolerance, and where it is published.
IMAGES = {
    "resnet18": (1.82, 0.005, "torchvision's model page, 1.81 to 1.82"),
    "resnet50": (4.09, 0.002, "torchvision's model page; He et al. 2016 give 3.8 for the variant of 2015"),
    "resnet152": (11.51, 0.002, "torchvision's model page"),
    "mobilenet-v2": (0.300, 0.01, "Sandler et al. 2018, table 4"),
    "efficientnet-b0": (0.39, 0.02, "Tan and Le 2019, table 2"),
    "convnext-t": (4.5, 0.02, "Liu et al. 2022, table 1"),
    "vit-b16": (17.56, 0.005, "torchvision's model page"),
    "vit-l16": (61.55, 0.005, "torchvision's model page"),
}
# Parameters, as the models' publishers count them.
PARAMETERS = {
    "resnet18": (11_689_512, "torchvision"),
    "resnet50": (25_557_032, "torchvision"),
    "resnet152": (60_192_808, "torchvision"),
    "mobilenet-v2": (3_504_872, "torchvision"),
    "efficientnet-b0": (5_288_548, "torchvision"),
    "convnext-t": (28_589_128, "torchvision"),
    "vit-b16": (86_567_656, "torchvision"),
    "vit-l16": (304_326_632, "torchvision"),
    "gpt2": (124_439_808, "OpenAI's checkpoint"),
    "gpt2-xl": (1_557_611_200, "OpenAI's checkpoint"),
    "llama3-8b": (8_030_261_248, "Meta's checkpoint"),
    "llama3-70b": (70_553_706_496, "Meta's checkpoint"),
    "mixtral-8x7b": (46_702_792_704, "Mistral's checkpoint"),
    "qwen2.5-7b": (7_615_616_512, "Qwen's checkpoint"),
    "t5-base": (222_903_552, "Google's checkpoint"),
    "whisper-small": (241_734_912, "OpenAI's checkpoint"),
}
DECODERS = [name for name in CONFIGS if CONFIGS[name]["model_type"] in ("gpt2", "llama", "mixtral", "qwen2")]


@functools.cache
def resnet50_training():
    return mopt.trace.huggingface(CONFIGS["resnet50"], mode="train", precision="fp32", optimizer="sgd")


def forward(name, **settings):
    return mopt.trace.huggingface(CONFIGS[name], mode="infer", precision="fp16", **settings)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    published, _ = PARAMETERS[name]
    assert count(hf.build(CONFIGS[name])) == published
    if name in DECODERS:
        assert decoder(CONFIGS[name]).parameters == published


@pytest.mark.parametrize("name", IMAGES)
def test_image_networks(name):
    gmacs, tolerance, _ = IMAGES[name]
    assert forward(name).flops_per_sample / 2e9 == pytest.approx(gmacs, rel=tolerance)


def test_mobilenet_v3():
    """219 million multiply-adds and 5.4 million parameters: Howard et al. 2019, table 3."""
    with torch.device("meta"):
        module = networks.MobileNetV3Large()
    made = mopt.trace.torch(module, image_batch, precision="fp16")
    assert count(module) == 5_483_032
    assert made.flops_per_sample / 2e6 == pytest.approx(219, rel=0.02)


def test_stable_diffusion_unet():
    """860 million parameters (model card), 339e9 multiply-adds without attention's own (Kim et al., BK-SDM, 2023)."""
    with torch.device("meta"):
        module = networks.StableDiffusionUNet()
    assert count(module) == 859_520_964
    made = pytorch.trace(module, latent_batch, precision="fp16")
    attention = sum(flops for flops, name in zip(made.flops, made.operator, strict=True) if "attention" in name)
    assert (made.flops.sum() - attention) / 2e9 == pytest.approx(339, rel=0.005)


def test_dlrm():
    """24 billion parameters (MLPerf training); products by hand: two perceptrons and all pairs of 27 vectors."""
    with torch.device("meta"):
        module = networks.DLRM()
    assert count(module) == pytest.approx(24e9, rel=0.01)
    made = mopt.trace.torch(module, click_batch, precision="fp16")
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    top = 479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    assert made.flops_per_sample == 2 * (bottom + top + 27 * 27 * 128)
    assert made.bytes_fixed < 0.001 * made.memory_fixed  # of the tables, rows are touched only


@pytest.mark.parametrize(
    ("name", "gflops", "head"),
    [("bert-base", 22.5, 768), ("bert-large", 79.0, 1024)],
    ids=["MobileBERT (Sun et al. 2020)", "ELECTRA (Clark et al. 2020)"],
)
def test_bert_on_128_tokens(name, gflops, head):
    """Published without the head that predicts masked words."""
    made = forward(name, tokens=128)
    without_head = made.flops_per_sample - 2 * 128 * head * (head + 30522)
    assert without_head / 1e9 == pytest.approx(gflops, rel=0.01)


@pytest.mark.parametrize(("name", "tokens"), [("gpt2", 1024), ("llama3-8b", 2048), ("qwen2.5-7b", 512)])
def test_two_flops_a_parameter_and_token_plus_attention(name, tokens):
    """Kaplan et al. 2020, table 1: 2N a token, N without embeddings; here the head is counted, for one token."""
    sizes = decoder(CONFIGS[name])
    weights = sizes.layers * (sizes.attention_weights + sizes.mlp_weights)
    pairs = tokens * (tokens + 1) / 2
    attention = 4 * sizes.layers * sizes.heads * sizes.head_dim * pairs
    expected = 2 * weights * tokens + attention + 2 * sizes.hidden * sizes.vocab
    made = mopt.trace.huggingface(CONFIGS[name], mode="prefill", tokens=tokens)
    assert made.flops_per_sample == pytest.approx(expected, rel=1e-12)


def test_cache_of_llama3_8b():
    """128 KiB a token at 16 bits: 32 layers, 8 heads of 128, keys and values."""
    assert decoder(CONFIGS["llama3-8b"]).kv_cache_bytes(1, "bf16") == 128 * 1024


@pytest.mark.parametrize(("name", "tokens"), [("gpt2", 1024), ("gpt2", 128), ("llama3-8b", 2048)])
def test_formula_and_trace_agree_on_prefill(name, tokens):
    settings = {"mode": "prefill", "tokens": tokens, "precision": "bf16"}
    formula = mopt.trace.huggingface(CONFIGS[name], method="formula", **settings)
    traced = mopt.trace.huggingface(CONFIGS[name], method="torch", fused=True, **settings)
    assert formula.flops_per_sample == pytest.approx(traced.flops_per_sample, rel=1e-3)
    assert formula.bytes_fixed == pytest.approx(traced.bytes_fixed, rel=0.005)
    assert formula.bytes_per_sample == pytest.approx(traced.bytes_per_sample, rel=0.005)
    assert formula.footprint(1) == pytest.approx(traced.footprint(1), rel=0.025)
    for field in ("weight_bytes", "tensor_bytes", "pipeline_bytes"):
        assert getattr(formula, field) == getattr(traced, field)


def test_formula_and_trace_agree_on_decode():
    """The cache as transformers keeps it is copied at every step, so only FLOPs can be compared."""
    config = CONFIGS["llama3-8b"] | {"num_hidden_layers": 2}
    model, context = hf.build(config), 500
    named = inspect.signature(model.forward).parameters
    keyword = "cache" if "cache" in named else "past_key_values"

    def inputs(batch):
        cache = transformers.DynamicCache()
        for layer in range(2):
            past = torch.empty(batch, 8, context - 1, 128, dtype=torch.bfloat16)
            cache.update(past, torch.empty_like(past), layer)
        return {"input_ids": torch.zeros(batch, 1, dtype=torch.long), keyword: cache}

    traced = mopt.trace.torch(model, inputs, precision="bf16")
    formula = mopt.trace.huggingface(config, mode="decode", tokens=context)
    assert formula.flops_per_sample == pytest.approx(traced.flops_per_sample, rel=1e-3)


def test_mixture_of_experts_traced_reads_all_experts():
    config = CONFIGS["mixtral-8x7b"] | {"num_hidden_layers": 2}
    settings = {"mode": "prefill", "tokens": 512, "precision": "bf16"}
    traced = mopt.trace.huggingface(config, method="torch", fused=True, **settings)
    upper = mopt.trace.huggingface(config, method="formula", experts="upper", **settings)
    assert traced.flops_per_sample == pytest.approx(upper.flops_per_sample, rel=1e-3)
    assert traced.bytes_fixed == pytest.approx(upper.bytes_fixed, rel=0.005)


def test_training_costs_three_forwards():
    """All but the first convolution have two gradients; attention's backward recomputes its scores."""
    once = forward("resnet50")
    first = 2 * 112 * 112 * 64 * 3 * 49
    assert resnet50_training().flops_per_sample == 3 * once.flops_per_sample - first
    gpt = {"tokens": 256, "precision": "fp16"}
    once, step = (mopt.trace.huggingface(CONFIGS["gpt2"], mode=mode, **gpt) for mode in ("infer", "train"))
    scores = 12 * 4 * 768 * 256 * 257 / 2
    assert step.flops_per_sample == pytest.approx(3 * once.flops_per_sample + 0.5 * scores, rel=1e-9)


def test_gradients_of_resnet50():
    assert resnet50_training().gradient_bytes == 4 * 25_557_032


def test_exported_resnet50_agrees(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            made = transformers.AutoConfig.for_model(**CONFIGS["resnet50"])
            self.model = transformers.ResNetForImageClassification(made)

        def forward(self, x):
            return self.model(x).logits

    module, path = Logits().eval(), tmp_path / "resnet50.onnx"
    shapes = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(module, (image_batch(2),), str(path), dynamic_shapes=shapes, dynamo=True, verbose=False)
    graph = mopt.trace.onnx(path, precision="fp16")
    traced = mopt.trace.torch(module, image_batch, precision="fp16")
    assert graph.flops_per_sample == pytest.approx(traced.flops_per_sample, rel=1e-6)
    assert graph.memory_fixed == pytest.approx(traced.memory_fixed, rel=0.01)
    # exporters fold batch norm into the convolutions: weights the same, fewer activations moved
    assert graph.bytes_fixed == pytest.approx(traced.bytes_fixed, rel=0.01)
    assert graph.bytes_per_sample < traced.bytes_per_sample


def test_the_zoo_is_what_is_shipped():
    assert sorted(zoo()) == list_workloads()
    assert {name.rpartition("-")[0] for name in zoo()} == set(PUBLISHED)


@pytest.mark.parametrize(
    "name", ["resnet18-train", "vit-b16-infer", "gpt2-train", "dlrm-infer", "llama3-70b-prefill", "mixtral-8x7b-decode"]
)
def test_shipped_files_are_what_the_script_gives(name):
    made, shipped = make(name), load_workload(name)
    unversioned = dict.fromkeys(("source", "date"), "")
    assert dataclasses.replace(made, **unversioned) == dataclasses.replace(shipped, **unversioned)
