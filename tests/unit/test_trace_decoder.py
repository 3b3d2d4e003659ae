"""Decoder language models by formula: sizes, phases, caches, mixtures of experts, faults. Needs no extra."""

import json

import numpy as np
import pytest

import mopt.trace
from mopt import InputError
from mopt.trace.decoder import decoder

TINY = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 20,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
}
MIXTURE = TINY | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def test_parameters_by_hand():
    attention = 8 * 8 + 2 * 8 * 4 + 8 * 8
    layer = attention + 3 * 8 * 20 + 2 * 8
    assert decoder(TINY).parameters == 3 * layer + 8 + 2 * 50 * 8
    assert decoder(TINY | {"tie_word_embeddings": True}).parameters == 3 * layer + 8 + 50 * 8
    assert decoder(MIXTURE).parameters == 3 * (layer + 7 * 3 * 8 * 20 + 8 * 8) + 8 + 2 * 50 * 8


def test_prefill_flops_are_two_a_weight_and_token_plus_attention():
    made = mopt.trace.huggingface(TINY, mode="prefill", tokens=16)
    weights = decoder(TINY).parameters - 2 * 50 * 8 - 7 * 8  # without tables and norms
    assert made.flops_per_sample == 2 * weights * 16 + 3 * 4 * (16 * 17 // 2) * 8 + 2 * 8 * 50


def test_decode_reads_weights_once_and_each_cache():
    made = mopt.trace.huggingface(TINY, mode="decode", tokens=100, precision="fp16")
    cache = 2 * 3 * 2 * 2 * 100 * 2
    layers = {layer.name: layer for layer in made.layers}
    assert layers["attention.scores x3"].bytes_per_sample == cache + 3 * (2 * 8 * 2 + 4 * 4)
    assert layers["attention.scores x3"].flops == 3 * 4 * 100 * 8
    assert layers["mlp x3"].bytes_fixed == 3 * 3 * 8 * 20 * 2
    assert made.memory_fixed == 2 * decoder(TINY).parameters
    longer = mopt.trace.huggingface(TINY, mode="decode", tokens=101, precision="fp16")
    assert longer.memory_per_sample - made.memory_per_sample == cache / 100


def test_grouped_queries_shrink_the_cache_not_the_scores():
    many = mopt.trace.huggingface(TINY | {"num_key_value_heads": 4}, mode="decode", tokens=100)
    few = mopt.trace.huggingface(TINY, mode="decode", tokens=100)
    scores = [next(layer for layer in w.layers if layer.name == "attention.scores x3") for w in (many, few)]
    assert scores[0].flops == scores[1].flops
    assert decoder(TINY | {"num_key_value_heads": 4}).kv_cache_bytes(9, "fp16") == 2 * decoder(TINY).kv_cache_bytes(
        9, "fp16"
    )


def test_eight_bits_halve_weights_and_leave_activations():
    half, byte = (mopt.trace.huggingface(TINY, mode="decode", tokens=10, precision=p) for p in ("bf16", "fp8"))
    assert byte.memory_fixed == half.memory_fixed / 2
    mlp = [next(layer for layer in w.layers if layer.name == "mlp x3") for w in (half, byte)]
    assert mlp[1].bytes_fixed == mlp[0].bytes_fixed / 2
    assert mlp[1].bytes_per_sample == mlp[0].bytes_per_sample
    quarter = mopt.trace.huggingface(TINY, mode="decode", tokens=10, precision="fp8", kv_precision="fp8")
    assert byte.memory_per_sample - quarter.memory_per_sample == decoder(TINY).kv_cache_bytes(10, "fp8")


def test_a_window_bounds_scores_and_cache():
    windowed = TINY | {"model_type": "mistral", "sliding_window": 32}
    at = {n: mopt.trace.huggingface(windowed, mode="decode", tokens=n) for n in (32, 1000)}
    assert at[1000].flops_per_sample == at[32].flops_per_sample
    assert at[1000].memory_per_sample == at[32].memory_per_sample
    short, long = (mopt.trace.huggingface(windowed, mode="prefill", tokens=n).layers[4].flops for n in (32, 40))
    assert (short, long) == (3 * 4 * 8 * 32 * 33 // 2, 3 * 4 * 8 * (32 * 33 // 2 + 8 * 32))


def test_experts_read_grow_concavely_between_the_bounds():
    batches = (1, 2, 3, 4, 8, 16, 64, 256)
    made, low, high = (
        mopt.trace.huggingface(MIXTURE, mode="decode", tokens=10, precision="fp16", experts=experts, launches=batches)
        for experts in ("expected", "lower", "upper")
    )
    assert [point.batch for point in made.costs] == list(batches)
    b, moved = np.array(batches, dtype=float), np.array([sum(point.bytes) for point in made.costs])
    assert moved[0] == pytest.approx(low.traffic(1.0))
    assert np.all(moved[1:] > low.traffic(b[1:]))
    assert np.all(moved <= high.traffic(b))
    assert moved[-1] == pytest.approx(high.traffic(256.0), rel=1e-9)
    assert np.all(np.diff(np.diff(moved) / np.diff(b)) < 0)
    assert [sum(point.flops) for point in made.costs] == pytest.approx((b * low.flops_per_sample).tolist())
    # two tokens, two of eight experts each: 8·(1 − (3/4)²) = 3.5 distinct ones
    assert moved[1] - low.traffic(2.0) == pytest.approx(3 * 1.5 * 3 * 8 * 20 * 2)
    assert (made.memory_fixed, made.memory_per_sample) == (low.memory_fixed, low.memory_per_sample)
    assert "A token needs 2 of 8 experts" in made.description


def test_layers_of_points_are_those_of_the_bounds():
    """One number a layer, whose roofline times add up."""
    made = mopt.trace.huggingface(MIXTURE, mode="decode", tokens=10, launches=(1, 10_000))
    low, high = (
        mopt.trace.huggingface(MIXTURE, mode="decode", tokens=10, experts=experts) for experts in ("lower", "upper")
    )
    for point, bound in zip(made.costs, (low, high), strict=True):
        assert point.flops == pytest.approx([layer.flops * point.batch for layer in bound.layers])
        assert point.bytes == pytest.approx(
            [layer.bytes_fixed + layer.bytes_per_sample * point.batch for layer in bound.layers]
        )


@pytest.mark.parametrize(("config", "mode"), [(TINY, "decode"), (TINY, "prefill"), (MIXTURE, "prefill")])
def test_what_is_affine_has_layers(config, mode):
    """A dense model, and a prompt that needs every expert by itself."""
    expected, upper = (
        mopt.trace.huggingface(config, mode=mode, tokens=100, experts=experts) for experts in ("expected", "upper")
    )
    assert not expected.points
    assert expected.layers == upper.layers


def test_bytes_of_parallel_parts():
    """Two sums of activations a layer, one tensor from stage to stage, weights to share."""
    made = mopt.trace.huggingface(TINY, mode="prefill", tokens=16, precision="fp8")
    assert made.tensor_bytes == 2 * 3 * 16 * 8 * 2
    assert made.pipeline_bytes == 16 * 8 * 2
    assert made.weight_bytes == made.memory_fixed == decoder(TINY).parameters


def test_config_from_folder_file_and_mapping(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    assert decoder(path) == decoder(tmp_path) == decoder(str(path)) == decoder(TINY)


@pytest.mark.parametrize("text", ["{", "[1]", None])
def test_a_config_that_cannot_be_read(tmp_path, text):
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        decoder(path)
    assert caught.value.faults[0].file == str(path)


def faults(call):
    with pytest.raises(InputError) as caught:
        call()
    return {(fault.record, fault.field): fault.allowed for fault in caught.value.faults}


@pytest.mark.parametrize("key", [key for key in TINY if key not in ("model_type", "num_key_value_heads")])
@pytest.mark.parametrize("value", [None, 0, -1, 1.5, "8", True])
def test_each_size_is_checked(key, value):
    found = faults(lambda: decoder(TINY | {key: value}))
    assert found == {("config of llama", key): "must be a whole number of at least 1"}


def test_heads_must_divide():
    found = faults(lambda: decoder(TINY | {"num_key_value_heads": 3, "hidden_size": 10}))
    assert set(found) == {("config of llama", "num_key_value_heads"), ("config of llama", "hidden size")}


def test_all_missing_sizes_at_once():
    missing = set(faults(lambda: decoder({"model_type": "gpt2"})))
    assert missing == {("config of gpt2", key) for key in ("n_embd", "n_head", "n_layer", "vocab_size", "n_positions")}


def test_other_architectures_are_refused_by_formula():
    found = faults(lambda: mopt.trace.huggingface({"model_type": "bert"}, mode="decode", tokens=1))
    assert list(found) == [("config", "model_type")]
    assert "gpt2" in found["config", "model_type"]
    mixed = TINY | {"model_type": "qwen3_moe", "moe_intermediate_size": 4, "num_experts": 4, "num_experts_per_tok": 2}
    assert decoder(mixed).experts == 4
    assert faults(lambda: decoder(mixed | {"decoder_sparse_step": 2}))


@pytest.mark.parametrize(
    ("setting", "fields"),
    [
        ({"tokens": None}, ["tokens"]),
        ({"tokens": 0}, ["tokens"]),
        ({"tokens": 2.5}, ["tokens"]),
        ({"precision": "fp12", "experts": "most", "kv_precision": "x"}, ["precision", "kv_precision", "experts"]),
        ({"mode": "think", "method": "guess"}, ["mode", "method"]),
        ({"mode": "train", "method": "formula"}, ["mode"]),
        ({"method": "torch"}, ["method"]),
        ({"launches": ()}, ["launches"]),
        ({"launches": (4, 4)}, ["launches"]),
        ({"launches": (0, 2.0)}, ["launches"]),
    ],
)
def test_settings_are_checked(setting, fields):
    found = faults(lambda: mopt.trace.huggingface(TINY, **({"mode": "decode", "tokens": 4} | setting)))
    assert [field for _, field in found] == fields


def test_positions_bound_the_context():
    gpt2 = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 9, "n_positions": 16}
    mopt.trace.huggingface(gpt2, mode="decode", tokens=16)
    found = faults(lambda: mopt.trace.huggingface(gpt2, mode="decode", tokens=17))
    assert found == {("workload of gpt2", "tokens"): "must be a whole number from 1 to 16"}
