"""Hugging Face configurations of all sorts, small. Needs the extra `hf`."""

import pytest
import transformers

import mopt.trace
from mopt import InputError
from mopt.trace import hf

transformers.logging.set_verbosity_error()

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}
TEXT = {"model_type": "bert", **SIZES}
TINY = {
    "swin": {"architectures": ["SwinForImageClassification"], "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]},
    "segformer": {"architectures": ["SegformerForSemanticSegmentation"]},
    "falcon": {"architectures": ["FalconForCausalLM"], "alibi": False, **SIZES},
    "gpt_oss": {
        "architectures": ["GptOssForCausalLM"], "head_dim": 8, "num_key_value_heads": 2, "num_local_experts": 4, **SIZES
    },
    "distilbert": {"architectures": ["DistilBertForSequenceClassification"], "n_layers": 1},
    "bart": {"architectures": ["BartForConditionalGeneration"], "encoder_layers": 1, "decoder_layers": 1},
    "regnet": {"architectures": ["RegNetForImageClassification"], "depths": [1, 1, 1, 1]},
}  # fmt: skip


def traced(config, **settings):
    return mopt.trace.huggingface(config, **({"method": "torch", "precision": "bf16", "tokens": 16} | settings))


def fault(call):
    with pytest.raises(InputError) as caught:
        call()
    return caught.value.faults[0]


@pytest.mark.parametrize("kind", TINY)
def test_training_takes_nearly_three_forward_passes(kind):
    """Whatever the inputs, labels and attention of an architecture."""
    config = {"model_type": kind, **TINY[kind]}
    once, step = traced(config), traced(config, mode="train", optimizer="adamw")
    assert once.flops_per_sample > 0
    assert 2.5 < step.flops_per_sample / once.flops_per_sample < 3.2
    assert step.mode == "training"
    assert step.optimizer_bytes == 6 * step.gradient_bytes


@pytest.mark.parametrize(
    ("head", "parameters"),
    [("BertModel", 0), ("BertForMaskedLM", 32 * 32 + 32 * 100), ("BertForSequenceClassification", 0)],
)
def test_the_architecture_decides_what_runs(head, parameters):
    bare = traced(TEXT | {"architectures": ["BertModel"]})
    made = traced(TEXT | {"architectures": [head]})
    assert made.flops_per_sample - bare.flops_per_sample == pytest.approx(2 * 16 * parameters, abs=2 * 32 * 32)


def test_sizes_left_out_are_those_of_transformers():
    made = traced({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 1})
    config = transformers.Qwen2Config()
    assert made.tensor_bytes == 2 * 16 * config.hidden_size * 2
    assert made.pipeline_bytes == 16 * config.hidden_size * 2


def test_what_is_not_a_decoder_says_nothing_of_its_parts():
    made = traced(TEXT)
    assert (made.tensor_bytes, made.pipeline_bytes) == (None, None)


@pytest.mark.parametrize(("kind", "architecture"), [("clip", "CLIPModel"), ("wav2vec2", "Wav2Vec2ForCTC")])
def test_inputs_that_cannot_be_guessed_are_asked_for(kind, architecture):
    first = fault(lambda: traced({"model_type": kind, "architectures": [architecture]}))
    assert (first.record, first.field) == (architecture, "inputs")
    assert "must be given as a callable" in first.allowed


def test_inputs_may_be_given():
    torch = pytest.importorskip("torch")
    config = TEXT | {"architectures": ["BertModel"]}
    given = traced(config, inputs=lambda batch: {"input_ids": torch.zeros(batch, 16, dtype=torch.long)})
    assert given.flops_per_sample == traced(config).flops_per_sample


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "no-such"}, "model_type"),
        ({}, "model_type"),
        (TEXT | {"architectures": ["NoSuchModel"]}, "architectures"),
        (TEXT | {"hidden_size": "wide"}, "values"),
    ],
)
def test_configurations_that_transformers_refuses(config, field):
    assert fault(lambda: traced(config)).field == field


def test_built_on_no_memory():
    assert {parameter.device.type for parameter in hf.build(TEXT).parameters()} == {"meta"}
