"""Networks by arithmetic on their published hyper-parameters: the workloads that the shipped measurements go with.

`derive_measurements.py` writes them; the workloads of models/ are traced instead, and compared with these.

Conventions
-----------
FLOPs      2 per multiply-add of convolutions, matrix products and attention; other operations count bytes only, since
           they don't run on the matrix units whose peak the roofline takes. Backward is twice forward (gradients of
           the input and of the weights). The first layer, fed with data, has no gradient of its input: 1x. What a
           fused attention computes a second time in backward is not counted (the convention of MFU).
Attention  fused, as in FlashAttention (Dao et al. 2022): scores never reach memory; a causal mask halves the work,
           S(S+1)/2 pairs of tokens instead of S*S.
Bytes      each kernel reads each input and writes each output once; caches keep nothing between kernels. Weights and
           activations in 2 bytes. Backward of a product reads the output's gradient and the weights and writes the
           input's gradient, then reads the input and the output's gradient and writes the weights' gradient.
           Fused: batch norm with ReLU and the shortcut's addition (its statistics need a pass of their own, forward
           and backward); in inference batch norm, ReLU and addition are part of the convolution (folded weights).
           Fused in transformers: dropout, residual addition and norm; bias into the product; nothing else.
Training   mixed precision (Micikevicius et al., ICLR 2018): weights, activations and gradients in 2 bytes; master
           weights and optimizer state in 4; softmax of the loss in 4. The optimizer is a layer of its own, at the
           end: momentum SGD for ResNet, AdamW for transformers. No recomputation of activations.
Footprint  training: 12 (SGD) or 16 bytes (AdamW; Rajbhandari et al., ZeRO, 2020) a parameter; per sample what backward
           needs of the activations, plus the gradients of one operation, the largest. Inference: 2 bytes a parameter;
           per sample the activations of one operation, the largest. Not counted: the framework's own memory
           (context, convolution workspace, fragmentation).
"""

from __future__ import annotations

from dataclasses import dataclass

from mopt.workload import Layer, Workload

DATE = "2026-12-02"
HALF, FULL = 2, 4
# Per parameter. State in memory: weight and gradient in 2 bytes; master weight and each moment in 4.
# Traffic of a step: reads gradient, master weight, moments; writes master weight, moments and the 2-byte weight.
STATE = {"sgd": 2 * HALF + 2 * FULL, "adamw": 2 * HALF + 3 * FULL}
STEP = {"sgd": 2 * HALF + 2 * 2 * FULL, "adamw": 2 * HALF + 2 * 3 * FULL}


@dataclass(frozen=True)
class Operation:
    """One kernel or a fused few. Pairs are (forward, backward)."""

    name: str
    parameters: int = 0
    macs: tuple[int, int] = (0, 0)  # multiply-adds per sample
    fixed: tuple[int, int] = (0, 0)  # bytes per launch
    moved: tuple[int, int] = (0, 0)  # bytes per sample
    saved: int = 0  # bytes per sample kept for backward that no other operation has kept already
    live: int = 0  # bytes per sample in use while it runs; its gradients take as many


def product(
    name: str,
    weights: int,
    macs: int,
    x: int,
    y: int,
    *,
    bias: int = 0,
    residual: int = 0,
    held: int = 0,
    first: bool = False,
    joins: bool = False,
    saves: bool = True,
    tied: bool = False,
) -> Operation:
    """A convolution or matrix product of x to y elements per sample.

    residual: elements added to the output in the same kernel. held: elements kept meanwhile for others.
    joins: the input's gradient is added to another one, which is read. tied: the weights belong to another operation.
    """
    own = weights + bias
    input_gradient = 0 if first else y + x + (x if joins else 0)
    return Operation(
        name,
        parameters=bias if tied else own,
        macs=(macs, macs if first else 2 * macs),
        fixed=(HALF * own, HALF * own + (0 if first else HALF * weights)),
        moved=(HALF * (x + residual + y), HALF * (input_gradient + x + y)),
        saved=HALF * x if saves else 0,
        live=HALF * (x + residual + y + held),
    )


def loss(classes: int, positions: int = 1) -> Operation:
    """Softmax and cross-entropy: logits in 2 bytes in, log-probabilities in 4 kept, gradient in 2."""
    logits = classes * positions
    return Operation(
        "loss",
        moved=((HALF + FULL) * logits, (FULL + HALF) * logits),
        saved=(HALF + FULL) * logits,
        live=HALF * logits,
    )


# --- Convolutional ----------------------------------------


def batch_norm(name: str, channels: int, n: int, residual: int = 0, held: int = 0) -> Operation:
    """Batch norm of n elements with ReLU, and the addition of a shortcut (residual = n).

    Forward: a pass for the statistics, a pass to normalise. Backward: a pass over input and gradient for the two sums,
    another for the result; the shortcut gets its gradient as a second output. ReLU's mask, a bit an element, is not
    counted.
    """
    parameters = 2 * channels
    return Operation(
        name,
        parameters,
        fixed=(HALF * parameters, 2 * HALF * parameters),
        moved=(HALF * (2 * n + residual + n), HALF * (2 * n + 2 * n + n + residual)),
        saved=HALF * n,
        live=HALF * (n + residual + n + held),
    )


def resnet50(training: bool) -> list[Operation]:
    """ResNet-50 (He et al., CVPR 2016) as in torchvision: v1.5, stride in the 3x3 convolution; 224x224 images."""
    operations: list[Operation] = []

    def convolve(
        conv: str,
        norm: str,
        shape: tuple[int, int, int],
        sizes: tuple[int, int],
        *,
        residual: int = 0,
        held: int = 0,
        first: bool = False,
        joins: bool = False,
        saves: bool = True,
    ) -> None:
        """Convolution (inputs, outputs, kernel) from one square size to another, and its norm."""
        inputs, outputs, kernel = shape
        weights, x, y = inputs * outputs * kernel**2, inputs * sizes[0] ** 2, outputs * sizes[1] ** 2
        macs = weights * sizes[1] ** 2
        if training:
            operations.append(product(conv, weights, macs, x, y, held=held, first=first, joins=joins, saves=saves))
            operations.append(batch_norm(norm, outputs, y, residual, held))
        else:
            operations.append(product(conv, weights, macs, x, y, bias=outputs, residual=residual, held=held))

    convolve("conv1", "bn1", (3, 64, 7), (224, 112), first=True)
    before, after = HALF * 64 * 112**2, HALF * 64 * 56**2
    # Backward of max pooling finds the maxima again: reads input, output and gradient.
    operations.append(
        Operation("maxpool", moved=(before + after, 2 * (before + after)), saved=before, live=before + after)
    )
    channels, size = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3), start=1):
        width, stride = 64 * 2 ** (stage - 1), 1 if stage == 1 else 2
        for block in range(blocks):
            name, wide = f"layer{stage}.{block}", 4 * width
            out = size // stride
            shortcut = wide * out**2
            projected = block == 0
            if projected:
                names = f"{name}.downsample.0", f"{name}.downsample.1"
                convolve(*names, (channels, wide, 1), (size, out), saves=False)
            # The block's input feeds both branches: its two gradients are added in the backward of conv1.
            held = shortcut if projected else 0
            convolve(f"{name}.conv1", f"{name}.bn1", (channels, width, 1), (size, size), held=held, joins=True)
            convolve(f"{name}.conv2", f"{name}.bn2", (width, width, 3), (size, out), held=shortcut)
            convolve(f"{name}.conv3", f"{name}.bn3", (width, wide, 1), (out, out), residual=shortcut)
            channels, size, stride = wide, out, 1
    before, after = HALF * channels * size**2, HALF * channels
    operations.append(Operation("avgpool", moved=(before + after, before + after), live=before + after))
    operations.append(product("fc", channels * 1000, channels * 1000, channels, 1000, bias=1000))
    return [*operations, loss(1000)] if training else operations


# --- Transformers ----------------------------------------


@dataclass(frozen=True)
class Transformer:
    """Hyper-parameters of a transformer."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int  # inner width of the MLP
    causal: bool
    gated: bool = False  # SwiGLU instead of GELU; no biases, RMSNorm, rotary positions
    post_norm: bool = False  # norm after each residual addition instead of before each branch
    dropout: bool = False

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_width

    def norm(self, name: str, tokens: int, training: bool, *, adds: bool = True, last: bool = False) -> Operation:
        """Residual addition, with dropout of the branch, and norm. last: no residual stream goes on after it."""
        n = tokens * self.width
        parameters = self.width if self.gated else 2 * self.width
        mask = n if adds and self.dropout and training else 0  # a byte an element
        keeps_sum = adds and (training or not (self.post_norm or last))
        return Operation(
            name,
            parameters,
            fixed=(HALF * parameters, 2 * HALF * parameters),
            moved=(HALF * n * (2 + adds + keeps_sum) + mask, HALF * n * (3 if last else 4) + mask),
            saved=HALF * n + mask,
            live=HALF * n * (2 + adds + keeps_sum),
        )

    def linear(self, name: str, tokens: int, inputs: int, outputs: int, *, saves: bool = True) -> Operation:
        bias = 0 if self.gated else outputs
        macs = tokens * inputs * outputs
        x, y = tokens * inputs, tokens * outputs
        return product(name, inputs * outputs, macs, x, y, bias=bias, held=tokens * self.width, saves=saves)

    def activation(self, name: str, tokens: int, inputs: int, outputs: int) -> Operation:
        x, y = HALF * tokens * inputs, HALF * tokens * outputs
        held = HALF * tokens * self.width
        return Operation(name, moved=(x + y, x + y + x), saved=x, live=x + y + held)

    def attention(self, name: str, tokens: int, context: int) -> Operation:
        """Fused attention; tokens = context: a whole sequence, else one token that sees `context` of them."""
        pairs = tokens * context if not self.causal or tokens == 1 else tokens * (tokens + 1) // 2
        macs = 2 * self.width * pairs
        q, kv = HALF * tokens * self.width, 2 * HALF * context * self.kv_width
        sums = FULL * tokens * self.heads  # log-sum-exp of each row, which backward needs
        forward = q + kv + q + sums
        return Operation(
            name,
            macs=(macs, 2 * macs),
            moved=(forward, forward + q + q + kv),  # reads those four and the gradient; writes three gradients
            saved=forward,
            live=3 * q + 2 * HALF * tokens * self.kv_width,  # older keys and values are the cache's
        )

    def body(self, tokens: int, training: bool, context: int | None = None) -> list[Operation]:
        """All blocks with their norms, the one before the first or after the last included."""
        first, *norms = (
            ["embedding.norm", *(f"blocks.{i}.norm_{k}" for i in range(self.layers) for k in (1, 2))]
            if self.post_norm
            else [*(f"blocks.{i}.norm_{k}" for i in range(self.layers) for k in (1, 2)), "norm"]
        )
        operations = [self.norm(first, tokens, training, adds=False)]
        for i in range(self.layers):
            block, inner = f"blocks.{i}", self.hidden * (2 if self.gated else 1)
            operations.append(self.linear(f"{block}.qkv", tokens, self.width, self.width + 2 * self.kv_width))
            if self.gated:  # rotation of queries and keys in place
                rotated = 2 * HALF * tokens * (self.width + self.kv_width)
                live = rotated // 2 + HALF * tokens * (self.kv_width + self.width)
                operations.append(Operation(f"{block}.rotary", moved=(rotated, rotated), live=live))
            operations.append(self.attention(f"{block}.attention", tokens, context or tokens))
            operations.append(self.linear(f"{block}.output", tokens, self.width, self.width, saves=False))
            operations.append(self.norm(norms[2 * i], tokens, training))
            operations.append(self.linear(f"{block}.mlp_up", tokens, self.width, inner))
            operations.append(self.activation(f"{block}.mlp_activation", tokens, inner, self.hidden))
            operations.append(self.linear(f"{block}.mlp_down", tokens, self.hidden, self.width))
            operations.append(self.norm(norms[2 * i + 1], tokens, training, last=i == self.layers - 1))
        return operations

    def embedding(self, tokens: int, vocabulary: int, *, others: int = 0, positions: int = 0) -> Operation:
        """Rows looked up per sample; `positions` rows of the `others` read once per launch.

        Backward adds each token's gradient to its row; the gradient of `others` is filled with zeros first.
        """
        rows = HALF * tokens * self.width
        return Operation(
            "embedding",
            parameters=(vocabulary + others) * self.width,
            fixed=(HALF * positions * self.width, HALF * others * self.width),
            moved=(2 * rows, 3 * rows),
            live=2 * rows,
        )

    def head(self, name: str, tokens: int, classes: int, *, bias: bool, tied: bool) -> Operation:
        weights, outputs = self.width * classes, tokens * classes
        bias_size = classes if bias else 0
        return product(name, weights, tokens * weights, tokens * self.width, outputs, bias=bias_size, tied=tied)


BERT_LARGE = Transformer(24, 1024, 16, 16, 4096, causal=False, post_norm=True, dropout=True)


def bert_large(
    training: bool, tokens: int = 512, predictions: int = 80, bert: Transformer = BERT_LARGE
) -> list[Operation]:
    """BERT-large (Devlin et al., NAACL 2019). Inference: encoder and pooler. Training: both pre-training losses."""
    width, words = bert.width, 30522
    embedding = bert.embedding(tokens, words, others=512 + 2, positions=tokens + 2)
    pooler = bert.linear("pooler", 1, width, width)
    operations = [embedding, *bert.body(tokens, training), pooler]
    if training:
        operations += [
            bert.linear("masked.transform", predictions, width, width),
            bert.activation("masked.activation", predictions, width, width),
            bert.norm("masked.norm", predictions, training, adds=False, last=True),
            bert.head("masked.decoder", predictions, words, bias=True, tied=True),
            bert.head("next_sentence", 1, 2, bias=True, tied=False),
            loss(words, predictions),
        ]
    return operations


# --- Workloads ----------------------------------------


def parameters(operations: list[Operation]) -> int:
    return sum(operation.parameters for operation in operations)


def train(name: str, operations: list[Operation], optimizer: str, **texts: str) -> Workload:
    count = parameters(operations)
    return Workload(
        name,
        layers=(
            *(Layer(o.name, 2 * sum(o.macs), sum(o.fixed), sum(o.moved)) for o in operations),
            Layer("optimizer", 0, STEP[optimizer] * count),
        ),
        memory_fixed=STATE[optimizer] * count,
        memory_per_sample=sum(o.saved for o in operations) + max(o.live for o in operations),
        mode="training",
        gradient_bytes=HALF * count,
        **shared(**texts),
    )


def infer(name: str, operations: list[Operation], **texts: str) -> Workload:
    return Workload(
        name,
        layers=tuple(Layer(o.name, 2 * o.macs[0], o.fixed[0], o.moved[0]) for o in operations),
        memory_fixed=HALF * parameters(operations),
        memory_per_sample=max(o.live for o in operations),
        mode="inference",
        **shared(**texts),
    )


def shared(architecture: str, precision: str = "fp16", **texts: str) -> dict[str, str]:
    source = f"computed by tests/known/derive_workloads.py, which states the conventions, from {architecture}"
    return {"precision": precision, "source": source, "date": DATE, **texts}
