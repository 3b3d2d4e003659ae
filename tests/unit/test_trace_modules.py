"""More PyTorch modules counted by hand: what real networks are full of. Needs the extra `torch`."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mopt import InputError
from mopt.trace.pytorch import trace


class Function(nn.Module):
    """A function of (modules by name, inputs)."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        self.part = nn.ModuleDict(modules)

    def forward(self, *args, **kwargs):
        return self.function(self.part, *args, **kwargs)


def infer(module, inputs, **settings):
    return trace(module, inputs, precision="fp32", **settings)


def train(module, inputs, **settings):
    return trace(module, inputs, mode="train", precision="fp32", **settings)


def totals(made):
    """FLOPs a sample, bytes a launch, bytes a sample."""
    return tuple(float(cost.sum()) for cost in (made.flops, made.bytes_fixed, made.bytes_per_sample))


def integers(*shape):
    return lambda batch: torch.zeros(batch, *shape, dtype=torch.long)


def fault(call):
    with pytest.raises(InputError) as caught:
        call()
    return caught.value.faults[0]


def test_buffers_count_like_parameters_but_without_gradient():
    class Buffers(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(12))
            self.register_buffer("positions", torch.arange(12))
            self.scale = nn.Parameter(torch.ones(12))

        def forward(self, x):
            return (x + self.table) * self.scale

    once, step = (call(Buffers(), torch.empty(4, 12)) for call in (infer, train))
    assert totals(once) == (0, 2 * 48, 4 * 48)
    assert once.memory[0].fixed == 48 + 8 * 12 + 48
    assert step.update.gradients == 48


def test_a_layer_called_twice_runs_twice_and_is_kept_once():
    layer = nn.Linear(6, 6)
    made = infer(nn.Sequential(layer, nn.ReLU(), layer), torch.empty(4, 6))
    assert totals(made) == (2 * 72, 2 * 4 * 42, 4 * (12 + 12 + 12))
    assert made.memory[0].fixed == 4 * 42


@pytest.mark.parametrize(
    ("function", "moved"),
    [
        (lambda _, x: x.clone().mul_(2).add_(x), 48 * (2 + 2 + 3)),
        (lambda _, x: x.clone().masked_fill_(torch.zeros(12, dtype=torch.bool), 1.0), 48 * 4),
        (lambda _, x: torch.zeros_like(x), 48),
        (lambda _, x: F.relu(x.clone(), inplace=True), 48 * 4),
        (lambda _, x: torch.cat([x, x], 1), 48 * 3),
        (lambda _, x: F.pad(x, (0, 2)), 48 + 56),
        (lambda _, x: x.view(-1, 3, 4).transpose(1, 2).contiguous(), 48 * 2),
    ],
    ids=["chain", "masked", "zeros", "relu", "cat", "pad", "transposed"],
)
def test_bytes_of_copies_and_in_place_operators(function, moved):
    """The mask of 12 bytes is made and read once a launch."""
    assert infer(Function(function), torch.empty(4, 12)).bytes_per_sample.sum() == moved


@pytest.mark.parametrize(
    "dropout",
    [
        lambda part, x: F.dropout(part.l(x), 0.5, True),
        lambda part, x: part.l(F.alpha_dropout(x, 0.5, True)),
        lambda part, x: part.d(part.l(x)),
        lambda part, x: torch.dropout(part.l(x), 0.5, train=True),
    ],
)
def test_dropout_of_any_spelling_is_off(dropout):
    module = Function(dropout, l=nn.Linear(6, 6), d=nn.Dropout(0.3, inplace=True))
    plain = Function(lambda part, x: part.l(x), l=nn.Linear(6, 6))
    assert totals(train(module, torch.empty(4, 6))) == totals(train(plain, torch.empty(4, 6)))


def test_numbers_from_constants_are_known():
    module = Function(lambda part, x: part.l(x) * torch.tensor(2.0).item(), l=nn.Linear(6, 6))
    assert infer(module, torch.empty(4, 6)).flops.sum() == 72


def test_nested_arguments_and_results():
    module = Function(lambda part, d: {"loss": part.l(d["a"][0]).mean(), "rest": d["b"]}, l=nn.Linear(6, 6))
    example = ({"a": [torch.empty(4, 6)], "b": torch.empty(4, 6)},)
    for inputs in (example, lambda batch: ({"a": [torch.empty(batch, 6)], "b": torch.empty(batch, 6)},)):
        assert train(module, inputs).flops.sum() == 2 * 72


@pytest.mark.parametrize(
    ("module", "shape", "out", "weights"),
    [
        (nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8, bias=False), (8, 6, 6), 8 * 36, 72),
        (nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=4, bias=False), (8, 6, 6), 12 * 9, 12 * 2 * 9),
        (nn.Conv1d(4, 8, 5, bias=False), (4, 20), 8 * 16, 160),
        (nn.Conv3d(2, 4, 3, bias=False), (2, 5, 5, 5), 4 * 27, 216),
    ],
    ids=["depthwise dilated", "grouped strided", "1d", "3d"],
)
def test_convolutions_by_hand(module, shape, out, weights):
    made, inputs = infer(module, torch.empty(4, *shape)), torch.Size(shape).numel()
    assert totals(made) == (2 * out * weights / module.out_channels, 4 * weights, 4 * (inputs + out))
    lifted = nn.Sequential(nn.Conv2d(8, 8, 1), module) if len(shape) == 3 else None
    if lifted is not None:
        step = train(lifted, torch.empty(4, *shape))
        assert sum(step.flops[k] for k, name in enumerate(step.layer) if name == "1") == 3 * made.flops.sum()


@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (2, 4)])
def test_transposed_convolutions_by_hand(stride, groups):
    module = nn.ConvTranspose2d(8, 12, 3, stride=stride, groups=groups, bias=False)
    weights, out = 8 * 12 // groups * 9, 12 * (4 * stride + 3) ** 2
    assert totals(infer(module, torch.empty(4, 8, 5, 5))) == (2 * 25 * weights, 4 * weights, 4 * (200 + out))


def test_multi_head_attention():
    """6 tokens, width 16, 4 heads: projections, scores, output; fused unless its weights are asked for."""
    module = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True)
    fused = Function(lambda part, x: part.m(x, x, x, need_weights=False)[0], m=module)
    spelt = Function(lambda part, x: part.m(x, x, x)[0], m=module)
    products = 2 * 6 * 16 * (48 + 16)
    for each, operator in ((fused, "_scaled_dot_product_flash_attention_for_cpu"), (spelt, "bmm")):
        made = infer(each, torch.empty(4, 6, 16))
        assert operator in made.operator
        assert made.flops.sum() == products + 4 * 36 * 16
    # The input has no gradient: its projection has one product backward; fused attention has five for its two.
    step = train(fused, torch.empty(4, 6, 16))
    assert step.flops.sum() == 2 * products + 2 * 6 * 16 * 16 + 3.5 * 4 * 36 * 16


def test_attention_reads_its_mask():
    def attend(part, q, mask=None):
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    without, shared = (
        infer(Function(attend), lambda batch, more=more: (torch.empty(batch, 2, 6, 8), *more))
        for more in ((), (torch.empty(6, 6),))
    )
    each = infer(Function(attend), lambda batch: (torch.empty(batch, 2, 6, 8), torch.empty(batch, 2, 6, 6)))
    assert totals(without) == (2 * 4 * 36 * 8, 0, 4 * (2 * 2 * 48 + 12))
    assert totals(shared) == (2 * 4 * 36 * 8, 4 * 36, 4 * (2 * 2 * 48 + 12))
    assert totals(each) == (2 * 4 * 36 * 8, 0, 4 * (2 * 2 * 48 + 12 + 72))


def test_recurrent_layers_in_both_directions_with_projections():
    made = infer(nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True, proj_size=4), torch.empty(4, 5, 8))
    assert made.flops.sum() == 5 * 2 * 2 * 2 * (64 * 8 + 64 * 4 + 16 * 4)
    assert infer(nn.GRU(8, 16), lambda batch: torch.empty(5, batch, 8)).flops.sum() == 5 * 2 * 48 * 24


def test_embedding_bags_touch_the_rows_they_are_asked_for():
    """Indices, their rows, the sum; offsets and other lists of integers come on top."""
    made = infer(
        nn.EmbeddingBag(1000, 8, mode="sum"),
        lambda batch: (torch.zeros(batch * 3, dtype=torch.long), torch.arange(batch) * 3),
    )
    flops, fixed, moved = totals(made)
    assert (flops, fixed) == (0, 0)
    assert 8 * 3 + 4 * 8 * (3 + 1) <= moved <= 8 * 3 + 4 * 8 * (3 + 1) + 8 * (1 + 1 + 3 + 1)
    step = train(nn.EmbeddingBag(1000, 8, mode="sum"), integers(3))
    assert totals(step)[1] == pytest.approx(4 * 8000, rel=0.001)  # the gradient is dense


def test_bounded_norms_of_embeddings_touch_rows_too():
    made = infer(nn.Embedding(1000, 8, max_norm=1.0), integers(3))
    assert totals(made) == (0, 0, 24 + 2 * 3 * 32 + 24 + 2 * 3 * 32)


def test_bilinear_layers_and_einsum():
    made = infer(nn.Bilinear(3, 4, 5), lambda batch: (torch.empty(batch, 3), torch.empty(batch, 4)))
    assert made.flops.sum() == 2 * 3 * 4 * 5
    form = Function(lambda part, x: torch.einsum("bi,ij,bj->b", x, part.l.weight, x), l=nn.Linear(6, 6))
    assert infer(form, torch.empty(4, 6)).flops.sum() == 2 * 36 + 2 * 6


def test_products_over_the_batch_are_affine():
    module = Function(lambda part, x: x.T @ x + part.l.weight, l=nn.Linear(6, 6))
    assert totals(infer(module, torch.empty(4, 6))) == (72, 4 * 36 * 4, 24)


def test_layers_in_another_precision():
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(6, 6, bias=False)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.l(x)

    flops, fixed, moved = totals(infer(Cast(), torch.empty(4, 6)))
    assert (flops, fixed, moved) == (72, 36 * (4 + 2 + 2), 6 * (4 + 2 + 2 + 2))


def test_custom_backwards_are_followed():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    made = train(Function(lambda part, x: Square.apply(part.l(x)), l=nn.Linear(6, 6)), torch.empty(4, 6))
    assert made.flops.sum() == 2 * 72
    plain = train(Function(lambda part, x: part.l(x).square(), l=nn.Linear(6, 6)), torch.empty(4, 6))
    assert made.memory[-1].per_sample <= plain.memory[-1].per_sample


class Lazy(nn.Module):
    """Makes a table at the first call and keeps it, as rotary embeddings do."""

    def __init__(self):
        super().__init__()
        self.l, self.table = nn.Linear(6, 6), None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(6.0)
        return self.l(x) * self.table


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(6, 6)

    def forward(self, x):
        self.register_buffer("mask", torch.ones(x.shape[0], 6), persistent=False)
        return self.l(x) * self.mask


class State(nn.Module):
    """What the last call left would have the shape of another batch."""

    def __init__(self):
        super().__init__()
        self.l, self.last, self.log = nn.Linear(6, 6), None, []

    def forward(self, x):
        self.last = self.l(x if self.last is None else x + self.last)
        self.log.append(self.last)
        return self.last + self.log[0].sum()


@pytest.mark.parametrize("kind", [Lazy, Buffered, State])
def test_what_a_module_keeps_for_its_next_call_is_put_back(kind):
    module = kind()
    before = {name: value for name, value in vars(module).items() if name not in ("_parameters", "_modules")}
    tables = dict(module.named_buffers())
    for call, passes in ((infer, 1), (train, 2)):
        assert call(module, torch.empty(4, 6)).flops.sum() == passes * 72
    assert {name: vars(module).get(name) for name in before} == before
    assert set(vars(module)) >= set(before)
    assert dict(module.named_buffers()) == tables
    assert getattr(module, "log", []) == []
    assert module(torch.empty(2, 6)).shape == (2, 6)


def test_views_in_place_are_free():
    assert totals(infer(Function(lambda _, x: x[:, None].squeeze_(1).t_()), torch.empty(4, 6))) == (0, 0, 0)


def test_contrastive_losses_are_not_affine():
    def loss(part, x):
        z = part.l(x)
        return F.cross_entropy(z @ z.T, torch.arange(x.shape[0]))

    first = fault(lambda: infer(Function(loss, l=nn.Linear(6, 6)), torch.empty(4, 6)))
    assert (first.record, first.field) == ("operator 1, mm in Function", "flops")
    assert first.value == [48, 108, 300]


@pytest.mark.parametrize(
    ("function", "record", "field"),
    [
        (lambda p, x: p.l(x) if x.shape[0] < 4 else p.l(p.l(x)), "operator 1, addmm in part.l", "count"),
        (lambda p, x: torch.stack([p.l(row) for row in x]), "operator 2", "name"),
        (lambda p, x: p.l(x) if x.sum() > 0 else x, "operator aten._local_scalar_dense.default in Function", "trace"),
        (lambda p, x: p.l(x)[x > 0], "operator aten.index.Tensor in Function", "trace"),
        (lambda p, x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), "operator aten.gt.Scalar in Function", "trace"),
    ],
    ids=["branch on the batch", "loop over the batch", "branch on values", "mask", "cond"],
)
def test_what_depends_on_batch_or_values_is_named(function, record, field):
    first = fault(lambda: infer(Function(function, l=nn.Linear(6, 6)), torch.empty(4, 6)))
    assert (first.record, first.field) == (record, field)


def test_sparse_gradients_are_refused():
    first = fault(lambda: train(nn.Embedding(100, 8, sparse=True), integers(3)))
    assert first.field == "trace"
    assert "can't be traced" in first.allowed


def test_lazy_modules_are_refused():
    assert fault(lambda: infer(nn.Sequential(nn.LazyLinear(4)), torch.empty(4, 6))).field == "module"


def test_a_modules_own_faults_are_its_own():
    """An exception that has nothing to do with shapes is the module's, not the caller's."""
    with pytest.raises(KeyError):
        infer(Function(lambda part, x: {}[1]), torch.empty(4, 6))
