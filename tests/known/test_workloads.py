"""The shipped workloads against figures published elsewhere; sources stand by the figures. Needs no extra."""

import re
import tomllib
from pathlib import Path

import derive_workloads as derived
import pytest

import mopt
from mopt.workload_files import list_workloads, load_workload

MODELS = Path(__file__).resolve().parents[2] / "models"
NAMES = list_workloads()


def network(name):
    return name.rpartition("-")[0]


def flops(name, *endings):
    """FLOPs a sample of the layers whose path, without "x12", ends so."""
    layers = load_workload(name).layers
    return sum(layer.flops for layer in layers if re.sub(r" x\d+.*| \(\d+\)", "", layer.name).endswith(endings))


def test_at_least_twenty_networks():
    assert len({network(name) for name in NAMES}) >= 20
    assert {path.stem for path in MODELS.glob("*.toml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_files_load_with_their_provenance(name):
    workload = load_workload(name)
    assert workload.name == name
    assert workload.mode == ("training" if name.endswith("train") else "inference")
    sized, made = workload.source.split("; ")
    assert re.search(r"\b(19|20)\d\d\b", sized)
    assert re.search(r"mopt \d+\.\d+", made)
    assert "by formula" in made or re.search(r"torch \d+\.\d+", made)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", workload.date)
    assert workload.description
    data = tomllib.loads((MODELS / f"{name}.toml").read_text())
    assert data["precision"] in ("fp16", "bf16")
    assert (workload.gradient_bytes > 0) == (workload.mode == "training")


# Parameters: torchvision's model pages, or the checkpoints that the publishers released.
PARAMETERS = {
    "resnet18-infer": 11_689_512,
    "resnet50-infer": 25_557_032,
    "resnet152-infer": 60_192_808,
    "mobilenet-v2-infer": 3_504_872,
    "mobilenet-v3-infer": 5_483_032,
    "efficientnet-b0-infer": 5_288_548,
    "convnext-t-infer": 28_589_128,
    "vit-b16-infer": 86_567_656,
    "vit-l16-infer": 304_326_632,
    "bert-base-infer": 109_482_240,
    "bert-large-infer": 335_141_888,
    "gpt2-infer": 124_439_808,
    "gpt2-xl-infer": 1_557_611_200,
    "t5-base-infer": 222_903_552,
    "whisper-small-infer": 241_734_912,
    "sd-unet-infer": 859_520_964,
    "llama3-8b-decode": 8_030_261_248,
    "llama3-70b-decode": 70_553_706_496,
    "mixtral-8x7b-decode": 46_702_792_704,
    "qwen2.5-7b-decode": 7_615_616_512,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_weights_take_two_bytes_a_parameter(name):
    # Batch norms have statistics besides, 2 of 4 numbers a channel; transformers' models index buffers.
    share = load_workload(name).memory_fixed / (2 * PARAMETERS[name])
    assert 1 <= share < (1.02 if "net" in name else 1.001)


@pytest.mark.parametrize(
    ("name", "gmacs", "tolerance"),
    [
        ("resnet18-infer", 1.814, 2e-3),  # torchvision, ResNet18_Weights: _ops (multiply-adds, 1e9)
        ("resnet50-infer", 4.089, 2e-4),  # torchvision, ResNet50_Weights: _ops
        ("resnet152-infer", 11.514, 2e-3),  # torchvision, ResNet152_Weights: _ops
        ("mobilenet-v2-infer", 0.300, 1e-2),  # Sandler et al., CVPR 2018, table 4
        ("mobilenet-v3-infer", 0.219, 2e-2),  # Howard et al., ICCV 2019, table 3
        ("efficientnet-b0-infer", 0.39, 2e-2),  # Tan and Le, ICML 2019, table 2
        ("convnext-t-infer", 4.456, 1e-3),  # torchvision, ConvNeXt_Tiny_Weights: _ops; Liu et al. 2022: 4.5
        ("vit-b16-infer", 17.564, 1e-4),  # torchvision, ViT_B_16_Weights: _ops
        ("vit-l16-infer", 61.555, 1e-4),  # torchvision, ViT_L_16_Weights: _ops
    ],
)
def test_forward_flops_of_image_networks(name, gmacs, tolerance):
    assert load_workload(name).flops_per_sample == pytest.approx(2e9 * gmacs, rel=tolerance)


def test_forward_flops_of_stable_diffusion():
    # Kim et al., BK-SDM, ECCV 2024, table 1: 339 G multiply-adds of the U-Net, without the products within attention.
    attention = flops("sd-unet-infer", ".itself", ".text")
    assert load_workload("sd-unet-infer").flops_per_sample - attention == pytest.approx(2 * 339e9, rel=5e-3)


def test_forward_flops_of_dlrm():
    # By hand from MLPerf's sizes: two perceptrons and all pairs of 27 vectors of 128.
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    top = 479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    workload = load_workload("dlrm-infer")
    assert workload.flops_per_sample == 2 * (bottom + top + 27 * 27 * 128)
    assert workload.memory_fixed == pytest.approx(2 * 24e9, rel=1e-2)  # 24 billion parameters, MLPerf training
    assert workload.bytes_fixed < 1e-3 * workload.memory_fixed  # rows of the tables, not the tables


@pytest.mark.parametrize(("name", "layers", "h"), [("bert-base-infer", 12, 768), ("bert-large-infer", 24, 1024)])
def test_forward_flops_of_bert(name, layers, h):
    # Narayanan et al., SC 2021, appendix: a forward pass of l layers takes 24·B·s·l·h²·(1 + s/6h) FLOP without logits.
    s = 512
    encoder = 24 * s * layers * h**2 * (1 + s / (6 * h))
    assert load_workload(name).flops_per_sample == pytest.approx(encoder + 2 * h * h, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "tokens", "layers", "width", "weights"),
    [
        # Kaplan et al. 2020, eq. 2.2: 2N + 2·n_layer·n_ctx·d a token; N without embeddings, plus the head's weights.
        ("gpt2-infer", 1024, 12, 768, 85.0e6 + 50257 * 768),
        ("gpt2-xl-infer", 1024, 48, 1600, 1.475e9 + 50257 * 1600),
        ("llama3-8b-prefill", 2048, 32, 4096, 8.030e9 - 2 * 128256 * 4096),
        ("llama3-70b-prefill", 2048, 80, 8192, 70.554e9 - 2 * 128256 * 8192),
        ("qwen2.5-7b-prefill", 2048, 28, 3584, 7.616e9 - 2 * 152064 * 3584),
        ("mixtral-8x7b-prefill", 2048, 32, 4096, 12.88e9 - 2 * 32000 * 4096),  # Jiang et al. 2024: 12.9e9 active
    ],
)
def test_forward_flops_of_decoders(name, tokens, layers, width, weights):
    expected = tokens * (2 * weights + 2 * layers * tokens * width)
    assert load_workload(name).flops_per_sample == pytest.approx(expected, rel=2e-3)


def test_encoder_and_decoder_of_whisper_and_t5():
    # 2 FLOP a weight and token, decoders' weights of keys and values on the encoder's tokens; Radford et al. 2023 and
    # Raffel et al. 2020 for the sizes: 12 + 12 layers of 768, inner 3072.
    def projections(tokens, read, layers):
        encoder = layers * 12 * 768**2 * read
        decoder = layers * ((4 + 2 + 8) * 768**2 * tokens + 2 * 768**2 * read)
        attention = layers * 2 * 768 * (read * read + tokens * (tokens + 1) / 2 + tokens * read)
        return 2 * (encoder + decoder + attention)

    stem = 2 * (3000 * 80 * 768 * 3 + 1500 * 768 * 768 * 3)
    whisper = projections(448, 1500, 12) + stem + 2 * 448 * 768 * 51865
    assert load_workload("whisper-small-infer").flops_per_sample == pytest.approx(whisper, rel=2e-3)
    t5 = projections(512, 512, 12) + 2 * 512 * 768 * 32128
    assert load_workload("t5-base-infer").flops_per_sample == pytest.approx(t5, rel=2e-2)


@pytest.mark.parametrize(("name", "heads"), [("llama3-8b", 8), ("llama3-70b", 8), ("qwen2.5-7b", 4)])
def test_decoding_reads_all_weights_and_the_cache(name, heads):
    layers, width, vocabulary = {
        "llama3-8b": (32, 4096, 128256), "llama3-70b": (80, 8192, 128256), "qwen2.5-7b": (28, 3584, 152064)
    }[name]  # fmt: skip
    decode = load_workload(f"{name}-decode")
    cache = 2048 * layers * heads * 128 * 2 * 2  # tokens, layers, heads, their width, keys and values, bytes
    looked_up = vocabulary * width  # the input embedding: rows, not the table
    read = PARAMETERS[f"{name}-decode"] - looked_up
    assert decode.flops_per_sample == pytest.approx(2 * read + 4 * layers * 2048 * width, rel=1e-3)
    assert decode.bytes_fixed == pytest.approx(2 * read, rel=1e-3)
    assert cache < decode.bytes_per_sample < 1.15 * cache
    assert cache < decode.memory_per_sample < 1.02 * cache
    assert load_workload(f"{name}-prefill").memory_per_sample > cache


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet152", "mobilenet-v2", "mobilenet-v3"])
def test_training_is_three_forward_passes_but_for_the_first_layer(name):
    step, forward = load_workload(f"{name}-train"), load_workload(f"{name}-infer")
    missing = next(layer.flops for layer in forward.layers if layer.flops)
    assert step.flops_per_sample == pytest.approx(3 * forward.flops_per_sample - missing, rel=1e-12)


@pytest.mark.parametrize(
    ("train", "forward", "layers", "width", "other"),
    [
        ("gpt2-train", "gpt2-infer", 12, 768, 0),
        ("llama3-8b-train", "llama3-8b-prefill", 32, 4096, 2 * 2047 * 128256 * 4096),  # logits of all but one token
    ],
)
def test_training_computes_scores_of_attention_once_more(train, forward, layers, width, other):
    tokens = 1024 if "gpt2" in train else 2048
    scores = layers * 2 * width * tokens * (tokens + 1) / 2
    expected = 3 * (load_workload(forward).flops_per_sample + other) + scores
    assert load_workload(train).flops_per_sample == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("train")])
def test_weights_and_training_state_follow_from_the_parameters(name):
    # Mixed precision with Adam: 16 B a parameter with its gradient (Rajbhandari et al., ZeRO, SC 2020, section 3.1);
    # momentum SGD has one moment of 4 B less. Where activations weigh most, gradients are not all there yet; a tied
    # table has two parts of its gradient at one time.
    workload = load_workload(name)
    parameters = workload.gradient_bytes / 2
    state = 12 if workload.family == "cnn" and "convnext" not in name else 16
    assert state - 2 <= workload.memory_fixed / parameters <= state + 1
    moved = next(layer.bytes_fixed for layer in workload.layers if layer.name == "optimizer")
    assert moved == (state + 8 if state == 12 else state + 12) * parameters


@pytest.mark.parametrize(
    ("name", "by_hand", "tolerance"),
    [
        ("resnet50-train", derived.resnet50(training=True), 0.01),
        ("resnet50-infer", derived.resnet50(training=False), 0.03),
        ("bert-large-infer", derived.bert_large(training=False), 0.07),  # queries, keys and values read their input each
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_traces_agree_with_arithmetic_by_hand(name, by_hand, tolerance):
    """Torch's operators, and the sums that the shipped measurements go with."""
    traced, passes = load_workload(name), 2 if name.endswith("train") else 1
    flops, fixed, moved = (
        sum(sum(getattr(o, field)[:passes]) for o in by_hand) for field in ("macs", "fixed", "moved")
    )
    assert traced.flops_per_sample == pytest.approx(2 * flops, rel=1e-4)
    optimizer = sum(layer.bytes_fixed for layer in traced.layers if layer.name == "optimizer")
    assert traced.bytes_fixed - optimizer == pytest.approx(fixed, rel=0.01)
    assert traced.bytes_per_sample == pytest.approx(moved, rel=tolerance)


def test_convolution_outputs_of_resnet50():
    # Radosavovic et al., CVPR 2020, and pycls's model zoo: 11.1 M activations, counted at the outputs of convolutions.
    norms = [o for o in derived.resnet50(training=True) if "bn" in o.name or o.name.endswith("downsample.1")]
    assert len(norms) == 53
    assert sum(o.saved for o in norms) / 2 == pytest.approx(11.1e6, rel=5e-3)


def test_saved_activations_of_a_block():
    # Korthikanti et al., MLSys 2023, eq. 6: 34·s·b·h bytes a layer where attention scores are not kept.
    tokens, width = 512, 1024
    saved = sum(o.saved for o in derived.bert_large(training=True) if o.name.startswith("blocks.5."))
    log_sums = 4 * tokens * width // 64  # heads are 64 wide
    assert saved == 34 * tokens * width + log_sums


def test_batch_of_resnet50_training_that_fits_16_gb():
    # NVIDIA DeepLearningExamples, ConvNets/configs.yml: batch 256 in mixed precision on T4 and on V100 16 GB, half of
    # it in fp32 on T4, which takes twice the memory an image.
    workload = load_workload("resnet50-train")
    assert workload.footprint(256) < 16e9
    assert 2 * workload.footprint(128) < 16e9
    assert workload.footprint(512) > 16e9


@pytest.mark.parametrize(
    ("name", "batch", "peak", "bandwidth", "measured"),
    [
        # NVIDIA DeepLearningExamples@729963d, one GPU, mixed precision; peaks are the data sheets' (dense).
        ("resnet50-train", 256, 312e12, 2039e9, 3410.52),  # MXNet, A100 80 GB
        ("resnet50-train", 256, 125e12, 900e9, 1492.0),  # MXNet, V100 32 GB
        ("resnet50-infer", 256, 312e12, 2039e9, 17363.79),  # Paddle-TRT, A100 80 GB
        ("resnet50-infer", 128, 65e12, 320e9, 1555.0),  # MXNet, T4
        ("bert-large-train", 32, 312e12, 2039e9, 210.0),  # PyTorch, pre-training at 512 tokens, A100 80 GB
        ("bert-large-train", 10, 125e12, 900e9, 40.95),  # TensorFlow 2, the same on V100 32 GB
    ],
)
def test_no_published_throughput_beats_the_roofline(name, batch, peak, bandwidth, measured):
    workload = load_workload(name)
    seconds = sum(
        max(layer.flops * batch / peak, (layer.bytes_fixed + layer.bytes_per_sample * batch) / bandwidth)
        for layer in workload.layers
    )
    assert 0.25 < measured / (batch / seconds) < 1


def test_workloads_are_public():
    assert mopt.load_workload("resnet50-train") == load_workload("resnet50-train")
