"""PyTorch modules small enough to count by hand, and torch's own memory tracker. Needs the extra `torch`."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.flop_counter import FlopCounterMode

import mopt.trace
from mopt import InputError
from mopt.trace.pytorch import trace
from mopt.trace.shape_cache import ShapeCache


def forward(module, inputs, **settings):
    return trace(module, inputs, mode="infer", precision="fp32", **settings)


def training(module, inputs, **settings):
    return trace(module, inputs, mode="train", precision="fp32", **settings)


def of(made, operator):
    """FLOPs, fixed bytes and bytes per sample of the operators of a name, summed."""
    picked = [k for k, name in enumerate(made.operator) if name == operator]
    assert picked, f"{operator} not in {made.operator}"
    return tuple(float(cost[picked].sum()) for cost in (made.flops, made.bytes_fixed, made.bytes_per_sample))


def test_linear_layer_by_hand():
    made = forward(nn.Linear(10, 20), torch.empty(4, 10))
    assert of(made, "addmm") == (2 * 10 * 20, 4 * (200 + 20), 4 * (10 + 20))
    assert made.memory[0].fixed == 4 * 220
    assert made.memory[0].per_sample == 4 * 30


def test_linear_training_by_hand():
    """The input needs no gradient: one product backward, of the weight's."""
    made = training(nn.Linear(10, 20), torch.empty(4, 10), optimizer="sgd")
    assert made.flops.sum() == 2 * 2 * 10 * 20
    assert made.update.state == 4 * 220
    assert made.update.bytes_moved == 220 * (4 + 8 + 8)
    assert made.update.gradients == 4 * 220


@pytest.mark.parametrize(
    ("precision", "optimizer", "moved", "state"),
    [
        ("fp32", "adamw", 4 + 12 + 12, 8),
        ("fp32", "sgd", 4 + 8 + 8, 4),
        ("bf16", "adamw", 2 + 12 + 12 + 2, 12),
        ("fp16", "sgd", 2 + 8 + 8 + 2, 8),
        ("fp64", "adamw", 8 + 24 + 24, 16),
        ("bf16", None, 0, 0),
    ],
)
def test_optimizer_traffic_and_state_per_parameter(precision, optimizer, moved, state):
    module = nn.Linear(10, 20)
    made = trace(module, torch.empty(4, 10), mode="train", precision=precision, optimizer=optimizer)
    assert (made.update.bytes_moved, made.update.state) == (220 * moved, 220 * state)


def test_weights_and_states_are_told_apart():
    """What ZeRO shares: buffers are no part of it."""
    made = mopt.trace.torch(
        nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20)),
        torch.empty(4, 10),
        mode="train",
        precision="bf16",
        optimizer="adamw",
    )
    assert (made.weight_bytes, made.gradient_bytes, made.optimizer_bytes) == (2 * 260, 2 * 260, 12 * 260)
    assert made.tensor_bytes is None


def test_frozen_parameters_have_no_gradient_and_no_state():
    module = nn.Sequential(nn.Linear(10, 20), nn.Linear(20, 3))
    module[0].requires_grad_(False)
    made = training(module, torch.empty(4, 10), optimizer="adamw")
    assert made.update.gradients == 4 * 63
    assert made.update.state == 8 * 63


@pytest.mark.parametrize("groups", [1, 2, 32])
def test_convolution_backward_costs_two_forwards_whatever_the_groups(groups):
    """The registry's own formula multiplies the weight gradient's share by the groups."""
    module = nn.Sequential(nn.Conv2d(32, 32, 1), nn.Conv2d(32, 64, 3, padding=1, groups=groups, bias=False))
    example = torch.empty(4, 32, 8, 8)
    once, step = forward(module, example), training(module, example)
    conv = [k for k, name in enumerate(once.operator) if once.layer[k] == "1"]
    expected = 2 * 8 * 8 * 64 * 32 * 9 // groups
    assert once.flops[conv].sum() == expected
    assert sum(step.flops[k] for k, layer in enumerate(step.layer) if layer == "1") == 3 * expected


def test_transposed_convolution():
    module = nn.ConvTranspose2d(8, 16, 3, stride=2, groups=2, bias=False)
    made = forward(module, torch.empty(4, 8, 5, 5))
    assert made.flops.sum() == 2 * 25 * 8 * 8 * 9
    assert training(module, torch.empty(4, 8, 5, 5)).flops.sum() == 2 * made.flops.sum()


class Attention(nn.Module):
    def __init__(self, kv_heads=4, causal=False, dropout=0.0):
        super().__init__()
        self.kv_heads, self.causal, self.dropout = kv_heads, causal, dropout
        self.project = nn.Linear(32, 32 + 2 * 8 * kv_heads, bias=False)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.project(x).split([32, 8 * self.kv_heads, 8 * self.kv_heads], dim=-1)
        q, k, v = (part.reshape(batch, tokens, -1, 8).transpose(1, 2) for part in (q, k, v))
        return nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout, is_causal=self.causal, enable_gqa=True
        )


@pytest.mark.parametrize("settings", [{}, {"kv_heads": 1}, {"causal": True}, {"dropout": 0.1}])
def test_attention_on_the_cpu_is_counted_and_fused(settings):
    """FlopCounterMode counts 0 here. Backward recomputes the scores: five products to the forward's two."""
    module, example = Attention(**settings), torch.empty(2, 6, 32)
    with FlopCounterMode(display=False) as counter:
        module(example)
    projection = 2 * 2 * 6 * 32 * (32 + 16 * module.kv_heads)
    assert counter.get_total_flops() in (projection, projection + 2 * 4 * 6 * 6 * 32)  # 0 for attention, or once mended
    scores = 4 * (21 if module.causal else 36) * 32
    once = forward(module, example)
    assert of(once, "_scaled_dot_product_flash_attention_for_cpu")[0] == scores
    step = training(module, example)
    assert of(step, "_scaled_dot_product_flash_attention_for_cpu_backward")[0] == 2.5 * scores


def test_grouped_queries_are_read_once():
    few = of(forward(Attention(kv_heads=1), torch.empty(2, 6, 32)), "_scaled_dot_product_flash_attention_for_cpu")
    many = of(forward(Attention(kv_heads=4), torch.empty(2, 6, 32)), "_scaled_dot_product_flash_attention_for_cpu")
    assert many[2] - few[2] == 4 * 2 * 6 * 8 * 3


def test_grouped_products():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(4, 16, 24))

        def forward(self, x, ends):
            return torch._grouped_mm(x, self.weight, ends)

    made = trace(
        Experts(),
        lambda batch: (torch.empty(batch * 8, 16), torch.zeros(4, dtype=torch.int32)),
        mode="train",
        precision="bf16",
    )
    assert made.flops.sum() == 2 * 2 * 8 * 16 * 24


def test_recurrent_layers_are_counted():
    made = forward(nn.LSTM(16, 32, batch_first=True), torch.empty(4, 7, 16))
    assert made.flops.sum() == 7 * 2 * 4 * 32 * (16 + 32)


def test_encoder_layers_take_no_hidden_path():
    """In evaluation torch would run one operator without a formula."""
    module = nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, batch_first=True)
    made = forward(module, torch.empty(4, 7, 32))
    assert made.flops.sum() == 7 * 2 * (4 * 32 * 32 + 2 * 32 * 64) + 4 * 7 * 7 * 32


def test_embedding_rows_are_touched_only():
    made = forward(nn.Embedding(1000, 16), lambda batch: torch.zeros(batch, 5, dtype=torch.long))
    assert of(made, "embedding") == (0, 0, 5 * 8 + 2 * 5 * 16 * 4)
    bag = forward(nn.EmbeddingBag(1000, 16), lambda batch: torch.zeros(batch, 5, dtype=torch.long))
    assert bag.bytes_per_sample.sum() < 1000 * 16
    assert bag.bytes_per_sample.sum() >= 5 * 16 * 4


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "moved"),
    [
        (lambda x: x.reshape(-1, 6).t(), 0),
        (lambda x: x + 1, 48 + 48),
        (lambda x: x + x, 48 + 48),
        (lambda x: x.clone().add_(1), 4 * 48),
        (lambda x: x + x[:, :1].clone().expand(-1, 12), 4 + 4 + 48 + 4 + 48),
        (lambda x: torch.empty_like(x).copy_(x), 2 * 48),
        (lambda x: x[:, ::2] * 1, 24 + 24),
    ],
    ids=["views", "add", "twice", "in place", "stride 0", "copy", "slice"],
)
def test_bytes_by_hand(function, moved):
    made = forward(Function(function), torch.empty(4, 12))
    assert made.bytes_per_sample.sum() == moved


def test_partial_writes_move_their_part():
    def write(x):
        y = x.clone()
        y[:, :3] = 0
        return y

    assert forward(Function(write), torch.empty(4, 12)).bytes_per_sample.sum() == 96 + 12


def test_fused_chains_read_and_write_once():
    chain = Function(lambda x: torch.relu(x * 2 + 1).sigmoid())
    assert forward(chain, torch.empty(4, 12)).bytes_per_sample.sum() == 4 * 96
    assert forward(chain, torch.empty(4, 12), fused=True).bytes_per_sample.sum() == 96
    norm = Function(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
    assert forward(norm, torch.empty(4, 12), fused=True).bytes_per_sample.sum() == 96


def test_a_convolution_takes_what_follows_it():
    """Batch norm, activation and shortcut: operands in, result out, all charged to the convolution."""

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x)) + x)

    made = forward(Residual(), torch.empty(2, 8, 4, 4), fused=True)
    (layer,) = made.layers()
    assert layer.name == "conv"
    assert layer.bytes_per_sample == 4 * 128 * 2
    assert layer.bytes_fixed == 4 * (8 * 8 * 9 + 4 * 8)
    assert forward(Residual(), torch.empty(2, 8, 4, 4)).bytes_per_sample.sum() == 4 * 128 * (2 + 2 + 3 + 2)


def test_cross_entropy_reads_logits_and_writes_their_gradient():
    """16 bits in and out, 32 bits kept: of the log-probabilities the loss needs one each, its gradient only shapes."""
    module = nn.Linear(4, 1000, bias=False)

    def loss(out):
        return nn.functional.cross_entropy(out.float(), torch.zeros(out.shape[0], dtype=torch.long))

    made = trace(module, torch.empty(2, 4), mode="train", precision="fp16", loss=loss, fused=True)
    kept = sum(q for layer, q in zip(made.layer, made.bytes_per_sample, strict=True) if layer == "loss")
    assert kept == pytest.approx(1000 * (2 + 4 + 4 + 2), rel=0.01)


def test_fusion_saves_what_backward_needs():
    chain = nn.Sequential(nn.Linear(12, 12), nn.SiLU(), nn.Sigmoid(), nn.Linear(12, 12))
    eager, fused = (training(chain, torch.empty(4, 12), fused=fused) for fused in (False, True))
    saved = dict.fromkeys(eager.layer, 0.0)
    for layer, one, other in zip(eager.layer, eager.bytes_per_sample, fused.bytes_per_sample, strict=True):
        saved[layer] += (one - other) / 48
    # SiLU keeps its input and Sigmoid its result: between them one write and one read in forward, and the same in
    # backward; the sums that give the biases' gradients are fused with what makes the gradients. The loss reads its
    # input once each way, and writes its gradient.
    assert saved == {"0": 1, "1": 2, "2": 2, "3": 1, "loss": 6}


def test_dropout_is_off():
    with_dropout = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    assert training(with_dropout, torch.empty(4, 8)).bytes_per_sample.sum() == pytest.approx(
        training(nn.Sequential(nn.Linear(8, 8)), torch.empty(4, 8)).bytes_per_sample.sum()
    )


def test_backward_is_charged_to_the_module_of_the_forward():
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    made = training(module, torch.empty(4, 8))
    flops = {layer.name: layer.flops for layer in made.layers()}
    assert flops["0"] == 2 * 2 * 8 * 16
    assert flops["2"] == 3 * 2 * 16 * 4
    assert flops["1"] == 0


def test_recomputed_activations_count_and_free_memory():
    class Blocks(nn.Module):
        def __init__(self, again):
            super().__init__()
            self.again = again
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6))

        def forward(self, x):
            for block in self.blocks:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.again else block(x)
            return x

    once, again = (training(Blocks(flag), torch.empty(4, 64)) for flag in (False, True))
    assert again.flops.sum() == once.flops.sum() + 6 * 2 * 64 * 64
    assert again.memory[-1].per_sample < once.memory[-1].per_sample
    in_blocks = [layer for layer in again.layers(2) if layer.name.startswith("blocks.")]
    assert sum(layer.flops for layer in in_blocks) == again.flops.sum()


def test_tied_weights_count_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 8)
            self.head = nn.Linear(8, 50, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            return self.head(self.table(x))

    made = training(Tied(), lambda batch: torch.zeros(batch, 3, dtype=torch.long), optimizer="adamw")
    assert made.update.gradients == 4 * 400
    assert made.update.state == 8 * 400


def test_the_module_is_left_as_it_was():
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    module[0].train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    training(module, torch.empty(4, 8), optimizer="adamw")
    assert [child.training for child in module.modules()] == [False, True, False]
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(value, module.state_dict()[name]) for name, value in before.items())


def test_meta_modules_need_no_memory():
    with torch.device("meta"):
        module = nn.Linear(1_000_000, 1_000_000, bias=False)
    made = mopt.trace.torch(module, lambda batch: torch.empty(batch, 1_000_000), precision="bf16")
    assert made.flops_per_sample == 2e12
    assert made.memory_fixed == 2e12


def test_inputs_of_every_form():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x, y=None):
            return self.a(x) if y is None else self.a(x) * y

    x, y = torch.empty(3, 4), torch.empty(3, 1)
    alone = forward(Two(), x).flops.tolist()
    for inputs in (x, (x,), {"x": x}, ((x,), {}), lambda b: torch.empty(b, 4), lambda b: {"x": torch.empty(b, 4)}):
        assert forward(Two(), inputs).flops.tolist() == alone
    together = [
        forward(Two(), inputs).bytes_per_sample.sum() for inputs in ((x, y), ((x,), {"y": y}), {"y": y, "x": x})
    ]
    assert together == [32 + 16 + 4 + 16] * 3


def test_the_loss_can_be_given():
    module, labels = nn.Linear(4, 10), lambda out: torch.zeros(out.shape[0], dtype=torch.long)
    made = training(module, torch.empty(3, 4), loss=lambda out: nn.functional.cross_entropy(out, labels(out)))
    assert "nll_loss_forward" in made.operator


def faults(call):
    with pytest.raises(InputError) as caught:
        call()
    return [(fault.record, fault.field) for fault in caught.value.faults]


def test_operators_that_are_not_affine_are_named():
    class Gram(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift = nn.Linear(4, 4)

        def forward(self, x):
            y = self.lift(x)
            return y @ y.T

    found = faults(lambda: forward(Gram(), torch.empty(3, 4)))
    assert found == [("operator 1, mm in Gram", "flops"), ("operator 1, mm in Gram", "bytes")]


@pytest.mark.parametrize(
    ("function", "operator"),
    [(lambda x: x * x.max().item(), "_local_scalar_dense"), (lambda x: x[x.nonzero()[:, 0]], "nonzero")],
)
def test_operators_that_need_values_are_named(function, operator):
    ((record, field),) = faults(lambda: forward(Function(function), torch.empty(3, 4)))
    assert field == "trace"
    assert f"aten.{operator}.default in Function" in record


def test_wrong_arguments_are_the_callers():
    ((record, field),) = faults(lambda: forward(nn.Linear(4, 4), torch.empty(3, 5)))
    assert (record, field) == ("operator aten.addmm.default in Linear", "inputs")


def test_settings_are_checked_at_once():
    found = faults(
        lambda: mopt.trace.torch(len, None, mode="test", precision="fp8", optimizer="lion", batches=(1, 2, 3))
    )
    assert [field for _, field in found] == ["mode", "precision", "optimizer", "module", "batches"]
    assert faults(lambda: forward(nn.Linear(2, 2), torch.empty(3, 2), optimizer="sgd")) == [("trace", "optimizer")]
    assert faults(lambda: forward(nn.Linear(2, 2), "text")) == [("trace", "inputs")]
    assert faults(lambda: training(Function(lambda x: x), torch.empty(3, 2))) == [("trace", "loss")]


class Block(nn.Module):
    """Convolutions, norm, pooling and attention, tied to nothing but its shapes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.attention = Attention(causal=True)
        self.head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 100), nn.GELU(), nn.Linear(100, 10))

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.attention(x)).mean((1, 2))


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (Block, (3, 32, 32)),
        (lambda: nn.LSTM(16, 32, 2, batch_first=True), (7, 16)),
        (lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True), None),
        (lambda: nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.Hardswish(inplace=True)), (4, 20)),
        (lambda: Function(lambda x: (x + 1) * torch.arange(5)[2:4].repeat(2) + (x > 0).sum(1, keepdim=True)), (4,)),
    ],
    ids=["block", "recurrent", "transformer", "in place", "constants"],
)
def test_shapes_from_the_cache_are_those_of_the_operators(make, shape, monkeypatch):
    example = torch.empty(2, *shape) if shape else (torch.empty(2, 5, 32), torch.empty(2, 6, 32))
    modes = ("infer", "train") if list(make().parameters()) else ("infer",)

    def traces():
        return [trace(make(), example, mode=mode, precision="fp32") for mode in modes]

    cached = traces()
    monkeypatch.setattr(ShapeCache, "call", lambda self, func, args, kwargs: func(*args, **kwargs))
    for one, other in zip(cached, traces(), strict=True):
        assert (one.layer, one.operator, one.memory) == (other.layer, other.operator, other.memory)
        for field in ("flops", "bytes_fixed", "bytes_per_sample"):
            assert getattr(one, field).tolist() == getattr(other, field).tolist()


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("batch", [4, 64])
def test_footprint_agrees_with_torchs_memory_tracker(optimizer, batch):
    """To the byte; AdamW's step counters (4 bytes a tensor) are all that differs."""
    made = mopt.trace.torch(Block(), torch.empty(2, 3, 32, 32), mode="train", precision="fp32", optimizer=optimizer)
    with FakeTensorMode():
        module = Block().train()
        step = (
            torch.optim.AdamW(module.parameters(), foreach=False)
            if optimizer == "adamw"
            else torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, foreach=False)
        )
        inputs, tracker = torch.empty(batch, 3, 32, 32), MemTracker()
        tracker.track_external(module, step, inputs)
        with tracker:
            for _ in range(2):  # states exist from the second step on
                output = module(inputs)
                loss = output.square().sum()
                loss.backward()
                peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
                step.step()
                step.zero_grad()
                tracker.reset_mod_stats()
                del output, loss
    counters = 4 * len(list(module.parameters())) if optimizer == "adamw" else 0
    assert made.footprint(batch) == pytest.approx(peak - counters, rel=1e-12)
