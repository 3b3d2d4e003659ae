"""The shipped workloads against figures published elsewhere; sources stand by the figures."""

import derive_workloads as derived
import pytest

from mopt.workload_files import list_workloads, load_workload, save_workload

NAMES = [workload.name for workload in derived.derive()]


def test_shipped_files_are_the_derived_ones(tmp_path):
    for workload in derived.derive():
        save_workload(workload, tmp_path / f"{workload.name}.toml")
    shipped = {path.name: path.read_text() for path in derived.MODELS.glob("*.toml")}
    assert shipped == {path.name: path.read_text() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_shipped_files_load_with_their_provenance(name):
    workload = load_workload(name)
    assert name in list_workloads()
    assert workload.name == name
    assert workload.source
    assert workload.date == "2026-12-02"
    assert workload.mode == ("training" if name.endswith("train") else "inference")
    assert workload.precision == ("bf16" if name.startswith("llama") else "fp16")


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (derived.resnet50, 25_557_032),  # torchvision, ResNet50_Weights: num_params
        (derived.vit_b16, 86_567_656),  # torchvision, ViT_B_16_Weights: num_params
        (derived.gpt2, 124_439_808),  # Hugging Face transformers, GPT2LMHeadModel of "gpt2"
        (derived.bert_large, 336_226_108),  # checkpoint bert-large-uncased with both pre-training heads
        (derived.llama3_8b, 8_030_261_248),  # model card of Meta-Llama-3-8B: 8.03 B
    ],
)
def test_parameters(network, count):
    assert derived.parameters(network(training=True)) == count


@pytest.mark.parametrize(
    ("name", "parameters"), [("resnet50", 25.557e6), ("vit-b16", 86.57e6), ("gpt2", 124.4e6), ("bert-large", 335.1e6)]
)
def test_weights_and_training_state_follow_from_the_parameters(name, parameters):
    # Mixed precision with Adam: 16 B a parameter (Rajbhandari et al., ZeRO, SC 2020, section 3.1); momentum SGD has
    # one moment of 4 B less.
    infer, train = load_workload(f"{name}-infer"), load_workload(f"{name}-train")
    assert infer.memory_fixed == pytest.approx(2 * parameters, rel=2e-3)
    assert train.memory_fixed == pytest.approx((12 if name == "resnet50" else 16) * parameters, rel=4e-3)
    assert train.gradient_bytes == pytest.approx(2 * parameters, rel=4e-3)


@pytest.mark.parametrize(
    ("name", "gmacs"),
    [
        ("resnet50-infer", 4.089),  # torchvision, ResNet50_Weights: _ops (multiply-adds, 1e9)
        ("vit-b16-infer", 17.564),  # torchvision, ViT_B_16_Weights: _ops
    ],
)
def test_forward_flops_of_vision_models(name, gmacs):
    assert load_workload(name).flops_per_sample == pytest.approx(2e9 * gmacs, rel=1e-4)


def test_forward_flops_of_bert_large():
    # Narayanan et al., SC 2021, appendix: a forward pass of l layers takes 24·B·s·l·h²·(1 + s/6h) FLOP without logits.
    s, layer_count, h = 512, 24, 1024
    encoder = 24 * s * layer_count * h**2 * (1 + s / (6 * h))
    assert load_workload("bert-large-infer").flops_per_sample == pytest.approx(encoder, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "tokens", "layer_count", "width", "weights"),
    [
        # Kaplan et al. 2020, eq. 2.2: 2N + 2·n_layer·n_ctx·d a token; N without embeddings, plus the head's weights.
        ("gpt2-infer", 1024, 12, 768, 85.0e6 + 50257 * 768),
        ("llama3-8b-prefill", 2048, 32, 4096, 8.030e9 - 2 * 128256 * 4096),
    ],
)
def test_forward_flops_of_decoders(name, tokens, layer_count, width, weights):
    expected = tokens * (2 * weights + 2 * layer_count * tokens * width)
    assert load_workload(name).flops_per_sample == pytest.approx(expected, rel=2e-3)


def test_decoding_reads_all_weights_and_the_cache():
    decode = load_workload("llama3-8b-decode")
    cache = (
        2048 * 32 * 8 * 128 * 2 * 2
    )  # tokens, layers, heads of keys and values, head width, both, bytes: 128 KiB a token
    looked_up = 128256 * 4096  # the input embedding: rows, not the table
    assert decode.flops_per_sample == pytest.approx(2 * (8.030e9 - looked_up) + 4 * 32 * 2048 * 4096, rel=1e-3)
    assert decode.bytes_fixed == pytest.approx(2 * (8.030e9 - looked_up), rel=1e-3)
    assert cache < decode.bytes_per_sample < 1.05 * cache
    assert cache < decode.memory_per_sample < 1.01 * cache
    assert load_workload("llama3-8b-prefill").memory_per_sample > cache


@pytest.mark.parametrize(
    ("train", "infer", "first"),
    [("resnet50-train", "resnet50-infer", "conv1"), ("vit-b16-train", "vit-b16-infer", "patches")],
)
def test_training_is_three_forward_passes_but_for_the_first_layer(train, infer, first):
    step, forward = load_workload(train), load_workload(infer)
    missing = forward.layers[0].flops
    assert forward.layers[0].name == first
    assert step.flops_per_sample == 3 * forward.flops_per_sample - missing
    assert step.layers[0].flops == 2 * missing


def test_training_is_three_forward_passes_for_decoders():
    assert load_workload("gpt2-train").flops_per_sample == 3 * load_workload("gpt2-infer").flops_per_sample
    # Prefill has logits of the last token alone.
    other_logits = 2 * 2047 * 128256 * 4096
    prefill = load_workload("llama3-8b-prefill").flops_per_sample
    assert load_workload("llama3-8b-train").flops_per_sample == 3 * (prefill + other_logits)


def test_convolution_outputs_of_resnet50():
    # Radosavovic et al., CVPR 2020, and pycls's model zoo: 11.1 M activations, counted at the outputs of convolutions.
    norms = [o for o in derived.resnet50(training=True) if "bn" in o.name or o.name.endswith("downsample.1")]
    assert len(norms) == 53
    assert sum(o.saved for o in norms) / 2 == pytest.approx(11.1e6, rel=5e-3)


@pytest.mark.parametrize(("network", "tokens", "width"), [(derived.bert_large, 512, 1024), (derived.gpt2, 1024, 768)])
def test_saved_activations_of_a_block(network, tokens, width):
    # Korthikanti et al., MLSys 2023, eq. 6: 34·s·b·h bytes a layer where attention scores are not kept.
    saved = sum(o.saved for o in network(training=True) if o.name.startswith("blocks.5."))
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
