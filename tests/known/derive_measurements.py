"""The measured times that mopt ships, from the published tables in data/measured, and the workloads they belong to.

`python tests/known/derive_measurements.py` writes mopt/data/measured anew; a test checks that the shipped files are
what this gives. A time is that of one launch on one accelerator.

What the tables leave open, and what was taken
----------------------------------------------
DeepLearningExamples  Rows of one GPU. `amp` is fp16. ResNet-50 training without a batch: 256 (fp16) or 128. Fine-tuning
                      of BERT: 384 tokens, one prediction a sequence. Left out: sparse training (ASP); rows without a
                      precision; BERT inference of TensorFlow on the A100 in `amp`, which repeats the TF32 table;
                      BERT training of PyTorch at 512 tokens, at 82 to 128 % of peak if sequences were full.
                      Attention writes its scores to memory, as it did in these frameworks then. Gradient
                      accumulation counts as one large batch.
MLPerf offline        NVIDIA's TensorRT, whole GPUs; the median of the submissions. Batch: 1024. bert-99 and resnet50
                      run in int8 (Hopper and Ada may use fp8, of the same peak), bert-99.9 in fp16 on Turing and
                      Ampere; later parts are left out, as their precision isn't given. Sequences aren't padded: of
                      SQuAD's 384 tokens 54 % are padding (openreview.net/forum?id=3nzKUh9a4M), so 177 on average.
Helix                 One GPU. Times are rounded to 0.1 ms and, in prefill, to 1 ms: those below 2 and 20 ms are left
                      out (2.5 % of rounding). Decode: at most 16 sequences, as the context isn't given (763 tokens
                      were taken) and weighs little there.
Vidur                 Sums of a layer's operators, without attention, which it times elsewhere; repeated rows averaged.
Megatron-LM           At most 8 GPUs a model, no pipeline; times from the FLOP/s and the published formula of the FLOPs
                      (Narayanan et al., SC 2021, eq. 3; the H100 runs without recomputation: 3/4 of it). Launches: all
                      samples of a model's GPUs in an iteration. Times include communication.
"""

from __future__ import annotations

import csv
import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from derive_workloads import (
    BERT_LARGE,
    HALF,
    Operation,
    Transformer,
    bert_large,
    infer,
    loss,
    product,
    resnet50,
    train,
)

from mopt.workload import Workload
from mopt.workload_files import save_workload

RAW = Path(__file__).parent / "data" / "measured"
SHIPPED = Path(__file__).resolve().parents[2] / "mopt" / "data" / "measured"
COLUMNS = ("resource", "workload", "precision", "framework", "batch", "seconds", "source")

BERT_BASE = Transformer(12, 768, 12, 12, 3072, causal=False, post_norm=True, dropout=True)
PUBLISHED_BERT = "Devlin et al., NAACL 2019"
CONTEXT = 763


@dataclasses.dataclass(frozen=True)
class Row:
    """One measured time; the fields are the columns."""

    resource: str
    workload: str
    precision: str
    framework: str
    batch: float
    seconds: float
    source: str


# --- Workloads ----------------------------------------


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder split over `shards` accelerators, layer by layer (Shoeybi et al. 2019)."""

    width: int
    heads: int
    kv_heads: int
    hidden: int
    gated: bool = True
    shards: int = 1

    def layer(self, name: str, tokens: int, context: int, *, attention: bool = True) -> list[Operation]:
        """Operations of one layer on one accelerator, per sample of `tokens` tokens."""
        part = Transformer(
            1, self.width // self.shards, self.heads // self.shards, self.kv_heads // self.shards,
            self.hidden // self.shards, causal=True, gated=self.gated,
        )  # fmt: skip
        whole = dataclasses.replace(part, width=self.width)
        inner = part.hidden * (2 if self.gated else 1)
        inputs = [
            whole.norm(f"{name}norm_1", tokens, training=True),
            whole.linear(f"{name}qkv", tokens, self.width, part.width + 2 * part.kv_width),
        ]
        return [
            *inputs,
            *([part.attention(f"{name}attention", tokens, context)] if attention else []),
            whole.linear(f"{name}output", tokens, part.width, self.width),
            whole.norm(f"{name}norm_2", tokens, training=True),
            whole.linear(f"{name}mlp_up", tokens, self.width, inner),
            whole.activation(f"{name}mlp_activation", tokens, inner, part.hidden),
            whole.linear(f"{name}mlp_down", tokens, part.hidden, self.width),
        ]


LLAMA = {
    "llama1-30b": (Decoder(6656, 52, 52, 17920), "Touvron et al. 2023 (arXiv 2302.13971)"),
    "llama2-7b": (Decoder(4096, 32, 32, 11008), "Touvron et al. 2023 (arXiv 2307.09288)"),
    "llama2-70b": (Decoder(8192, 64, 8, 28672), "Touvron et al. 2023 (arXiv 2307.09288)"),
}
# Name, layers, width, heads, GPUs of a model; GPUs, batch and FLOP/s are in the tables.
GPT_A100 = {"1.7B": (24, 2304, 24), "3.6B": (30, 3072, 32), "7.5B": (36, 4096, 32), "18B": (40, 6144, 48)}


def spelt_out(operations: list[Operation], network: Transformer, tokens: int, *, training: bool) -> list[Operation]:
    """The operations with attention in kernels of their own, whose scores go through memory."""
    width, scores = HALF * network.width * tokens, HALF * network.heads * tokens**2
    macs, mask = network.width * tokens**2, network.heads * tokens**2  # a mask has a byte an element
    product = {"macs": (macs, 2 * macs), "moved": (2 * width + scores, 4 * width + 2 * scores)}
    made = []
    for operation in operations:
        if not operation.name.endswith(".attention"):
            made.append(operation)
            continue
        name = operation.name
        made.append(Operation(f"{name}.scores", **product))
        made.append(Operation(f"{name}.softmax", moved=(2 * scores, 3 * scores)))
        if training:
            made.append(Operation(f"{name}.dropout", moved=(2 * scores + mask, 2 * scores + mask)))
        made.append(Operation(f"{name}.values", **product))
    return made


def encoders() -> Iterator[Workload]:
    for size, network in (("base", BERT_BASE), ("large", BERT_LARGE)):
        for tokens in (128, 177, 384) if size == "large" else (128, 384):
            operations = bert_large(False, tokens, bert=network)
            yield infer(
                f"bert-{size}-infer-{tokens}",
                operations if tokens == 177 else spelt_out(operations, network, tokens, training=False),
                family="encoder",
                sample=f"sequence of {tokens} tokens",
                architecture=PUBLISHED_BERT,
            )
    for tokens, predictions in ((128, 20), (384, 1), (512, 80)):
        yield train(
            f"bert-large-train-{tokens}",
            spelt_out(bert_large(True, tokens, predictions), BERT_LARGE, tokens, training=True),
            "adamw",
            family="encoder",
            sample=f"sequence of {tokens} tokens",
            architecture=PUBLISHED_BERT,
            description=f"pre-training step, {predictions} masked tokens a sequence",
        )


def convolutional() -> Iterator[Workload]:
    texts = {"family": "cnn", "sample": "image of 224x224", "architecture": "He et al., CVPR 2016 (v1.5)"}
    yield infer("resnet50-infer", resnet50(False), **texts)
    yield train("resnet50-train", resnet50(True), "sgd", **texts)


def decoder_layers() -> Iterator[Workload]:
    for name, (network, architecture) in LLAMA.items():
        texts = {"family": "decoder", "architecture": architecture}
        if name != "llama2-7b":
            for phase, context in (("prefill", 1), ("decode", CONTEXT)):
                about = f"one layer; attention to {context} tokens"
                operations = network.layer("", 1, context)
                yield infer(f"{name}-layer-{phase}", operations, sample="token", description=about, **texts)
        if name != "llama1-30b":
            for shards in (1, 2, 4, 8):
                operations = dataclasses.replace(network, shards=shards).layer("", 1, 1, attention=False)
                about = f"one layer without attention, split over {shards} accelerators"
                yield infer(f"{name}-layer-tp{shards}", operations, sample="token", description=about, **texts)


def gpt_name(part: str, size: str) -> str:
    return f"gpt-{size.lower()}-train-{part}"


def gpt(
    name: str, layers: int, width: int, heads: int, *, shards: int, tokens: int, words: int, again: bool
) -> Workload:
    """A GPT's step on one of its accelerators; again: activations are computed a second time in backward."""
    network = Decoder(width, heads, heads, 4 * width, gated=False, shards=shards)
    layer = [operation for i in range(layers) for operation in network.layer(f"blocks.{i}.", tokens, tokens)]
    if again:
        layer = [
            dataclasses.replace(
                o,
                macs=(o.macs[0], o.macs[1] + o.macs[0]),
                fixed=(o.fixed[0], o.fixed[1] + o.fixed[0]),
                moved=(o.moved[0], o.moved[1] + o.moved[0]),
            )
            for o in layer
        ]
    weights = width * words // shards
    head = product("head", weights, tokens * weights, tokens * width, tokens * words // shards)
    return train(
        name,
        [*layer, head, loss(words // shards, tokens)],
        "adamw",
        family="decoder",
        sample=f"sequence of {tokens} tokens",
        architecture="Narayanan et al., SC 2021" if again else "the performance table of Megatron-LM",
        precision="fp16" if again else "bf16",
        description=f"on one of {shards} accelerators" + (", activations recomputed" if again else ""),
    )


def megatron(part: str) -> Iterator[tuple[Workload, Row]]:
    again = part == "a100"
    tokens, words = (2048, 51200) if again else (4096, 131072)
    file = "megatron_a100_2021" if again else "megatron_h100_2024"
    for row in read(file):
        layers, width = int(row["layers"]), int(row["hidden"])
        shards = int(row["model_parallel"] if again else row["tp"])
        if shards > 8 or (not again and row["pp"] != "1") or (again and row["model"] not in GPT_A100):
            continue
        heads = GPT_A100[row["model"]][2] if again else int(row["heads"])
        name = gpt_name(part, row["model"])
        made = gpt(name, layers, width, heads, shards=shards, tokens=tokens, words=words, again=again)
        batch, gpus = int(row["batch"]), int(row["gpus"])
        flops = 96 * batch * tokens * layers * width**2 * (1 + tokens / (6 * width) + words / (16 * layers * width))
        seconds = flops * (1 if again else 0.75) / (gpus * float(row["tflops_per_gpu"]) * 1e12)
        source = "Narayanan et al., SC 2021, table 1" if again else "NVIDIA/Megatron-LM, README of 2024"
        accelerator = "A100-80GB" if again else "H100"
        yield made, Row(accelerator, name, made.precision, "Megatron-LM", batch * shards / gpus, seconds, source)


def workloads() -> list[Workload]:
    """The workloads of the measured times, in their own precision."""
    gpts = [made for part in ("a100", "h100") for made, _ in megatron(part)]
    return [*convolutional(), *encoders(), *decoder_layers(), *gpts]


# --- Times ----------------------------------------


def read(name: str) -> list[dict[str, str]]:
    with (RAW / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def deep_learning_examples() -> Iterator[Row]:
    for row in read("nvidia_deeplearningexamples"):
        variant, precision = row["variant"].strip(), row["precision"].replace("amp", "fp16")
        if row["n_gpus"] != "1" or not precision or "Automatic SParsity" in row["context"]:
            continue
        model, task, tokens = row["model"], row["task"], row["seq"]
        if model != "ResNet50v1.5":
            repeated = row["framework"] == "TensorFlow" and row["gpu"] == "A100" and precision == "fp16"
            unpadded = row["framework"] == "PyTorch" and tokens == "512"
            if repeated if task == "infer" else unpadded:
                continue
        if model == "ResNet50v1.5":
            workload = f"resnet50-{task}"
            batch = float(row["batch_per_gpu"].split(" ")[0] or (256 if precision == "fp16" else 128))
        else:
            workload = f"{model.lower()}-{task}-{float(tokens or 384):.0f}"
            batch = float(row["batch_per_gpu"])
        framework = "TensorRT" if variant == "TRT" else f"{row['framework']} {variant}".strip()
        seconds = batch / float(row["throughput"])
        yield Row(row["gpu"], workload, precision, framework, batch, seconds, row["source"])


MLPERF_PARTS = {
    "A100-PCIE-80GB": "A100-80GB-PCIe",
    "A100-PCIe-80GB": "A100-80GB-PCIe",
    "A100-SXM-80GB": "A100-80GB",
    "A100-SXM-80GB CTS": "A100-80GB",
    "A100-SXM4-80GB CTS": "A100-80GB",
    "HGX A100 SXM": "A100-80GB",
    "A100-SXM-40GB": "A100",
    "A100-SXM4-40GB": "A100",
    "A10": "A10",
    "A30": "A30",
    "A40": "A40",
    "GeForce RTX 4090": "RTX4090",
    "GeForce RTX 4090 (Ada Lovelace)": "RTX4090",
    "GH200 Grace Hopper Superchip 96GB": "GH200-96GB",
    "GH200-GraceHopper-Superchip": "GH200-96GB",
    "H100-NVL-94GB": "H100-NVL",
    "H100-PCIe-80GB": "H100-PCIe",
    "H100-SXM-80GB": "H100",
    "H200-SXM-141GB": "H200",
    "L4": "L4",
    "L4-PCIe-24GB": "L4",
    "L40": "L40",
    "L40-PCIE-48GB": "L40",
    "L40S": "L40S",
    "T4": "T4",
    "Tesla T4": "T4",
}
MLPERF_WORKLOADS = {
    "resnet50": ("resnet50-infer", "int8"),
    "bert-99": ("bert-large-infer-177", "int8"),
    "bert-99.9": ("bert-large-infer-177", "fp16"),
}
WITH_FP8 = ("H100", "H200", "GH200", "L4", "L40", "RTX4090")


def mlperf() -> Iterator[Row]:
    rates = defaultdict(list)
    for row in read("mlperf_inference_offline_closed"):
        part = MLPERF_PARTS.get(row["accelerator"].removeprefix("NVIDIA ").removeprefix("Tesla ").strip())
        engine = row["framework"]
        if row["model"] not in MLPERF_WORKLOADS or part is None or not engine.startswith(("TensorRT", "CUDA")):
            continue
        if row["model"] == "bert-99.9" and part.startswith(WITH_FP8):
            continue
        count = int(row["accel_per_node"]) * int(row["nodes"])
        rates[(row["model"], part)].append(float(row["result"]) / count)
    for (model, part), values in sorted(rates.items()):
        workload, precision = MLPERF_WORKLOADS[model]
        source = f"MLPerf Inference v2.0-v4.1 offline closed, {model}, median of {len(values)} (mlcommons)"
        yield Row(part, workload, precision, "TensorRT", 1024, 1024 / statistics.median(values), source)


def helix() -> Iterator[Row]:
    for row in read("helix_layer_times"):
        tokens, milliseconds, phase = int(row["batch_tokens"]), float(row["layer_time_ms"]), row["phase"]
        rounded = milliseconds < (20 if phase == "prefill" else 2)
        if rounded or "x" in row["machine"] or (phase == "decode" and tokens > 16):
            continue
        workload = f"{row['model'].replace('_', '-')}-layer-{phase}"
        part = row["machine"].upper()
        yield Row(part, workload, "fp16", "vLLM", tokens, milliseconds / 1e3, "Thesys-lab/Helix-ASPLOS25@148b733")


def vidur() -> Iterator[Row]:
    times = defaultdict(list)
    parts = {"a40": "A40", "a100": "A100-80GB", "h100": "H100"}
    for row in read("vidur_layer_times"):
        model = row["model"].removesuffix("-hf").lower().replace("llama-2", "llama2")
        workload = f"{model}-layer-tp{row['num_tensor_parallel_workers']}"
        operators = [float(value) for key, value in row.items() if key.endswith("_ms") and key != "emb_ms"]
        times[(parts[row["device"]], workload, int(row["num_tokens"]))].append(sum(operators))
    for (part, workload, tokens), values in times.items():
        yield Row(part, workload, "fp16", "vLLM", tokens, statistics.mean(values) / 1e3, "microsoft/vidur@7d47513")


def measurements() -> list[Row]:
    """All rows, sorted by what they measure."""
    gpts = [row for part in ("a100", "h100") for _, row in megatron(part)]
    rows = [*deep_learning_examples(), *mlperf(), *helix(), *vidur(), *gpts]
    return sorted(rows, key=dataclasses.astuple)


def write(folder: Path) -> None:
    """Write measurements.csv and workloads/*.toml."""
    (folder / "workloads").mkdir(parents=True, exist_ok=True)
    for workload in workloads():
        save_workload(workload, folder / "workloads" / f"{workload.name}.toml")
    with (folder / "measurements.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in measurements():
            figures = (f"{row.batch:.6g}", f"{row.seconds:.6g}")
            writer.writerow((row.resource, row.workload, row.precision, row.framework, *figures, row.source))


if __name__ == "__main__":
    write(SHIPPED)
