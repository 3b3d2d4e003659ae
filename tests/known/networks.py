"""Networks that transformers doesn't have, as PyTorch modules, from their papers. Weights are never needed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn


class SqueezeExcite(nn.Module):
    """Channel gates of MobileNetV3: pool, reduce by four (to a multiple of 8), expand, gate."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(8, (channels // 4 + 4) // 8 * 8)
        inner += 8 if inner < 0.9 * channels / 4 else 0
        self.reduce, self.expand = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.expand(torch.relu(self.reduce(x.mean((2, 3), keepdim=True))))
        return x * nn.functional.hardsigmoid(gate)


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: str = "") -> nn.Module:
    """Convolution, batch norm, activation ("RE", "HS" or none)."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    if act:
        layers.append(nn.ReLU(inplace=True) if act == "RE" else nn.Hardswish(inplace=True))
    return nn.Sequential(*layers)


class Bottleneck(nn.Module):
    """Inverted residual of MobileNetV3."""

    def __init__(
        self, inputs: int, kernel: int, expanded: int, outputs: int, gated: bool, act: str, stride: int
    ) -> None:
        super().__init__()
        self.adds = stride == 1 and inputs == outputs
        self.expand = convolution(inputs, expanded, 1, act=act) if expanded != inputs else nn.Identity()
        self.depthwise = convolution(expanded, expanded, kernel, stride, groups=expanded, act=act)
        self.gate = SqueezeExcite(expanded) if gated else nn.Identity()
        self.project = convolution(expanded, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.gate(self.depthwise(self.expand(x))))
        return x + y if self.adds else y


class MobileNetV3Large(nn.Module):
    """Howard et al., Searching for MobileNetV3, ICCV 2019, table 1."""

    BLOCKS = (
        (3, 16, 16, False, "RE", 1),
        (3, 64, 24, False, "RE", 2),
        (3, 72, 24, False, "RE", 1),
        (5, 72, 40, True, "RE", 2),
        (5, 120, 40, True, "RE", 1),
        (5, 120, 40, True, "RE", 1),
        (3, 240, 80, False, "HS", 2),
        (3, 200, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 480, 112, True, "HS", 1),
        (3, 672, 112, True, "HS", 1),
        (5, 672, 160, True, "HS", 2),
        (5, 960, 160, True, "HS", 1),
        (5, 960, 160, True, "HS", 1),
    )

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        widths = [16, *(block[2] for block in self.BLOCKS)]
        self.stem = convolution(3, 16, 3, 2, act="HS")
        self.blocks = nn.Sequential(
            *(Bottleneck(width, *block) for width, block in zip(widths, self.BLOCKS, strict=False))
        )
        self.last = convolution(160, 960, 1, act="HS")
        self.head = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.last(self.blocks(self.stem(x))).mean((2, 3)))


class ResidualBlock(nn.Module):
    """Residual block of a diffusion U-Net, shifted by the embedded time step."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, outputs))
        self.second = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class Attention(nn.Module):
    """Attention of `width` to `context` (itself: the same width)."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(n, width, bias=False) for n in (width, context, context))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q(x), self.k(context), self.v(context))
        )
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class GatedFeedForward(nn.Module):
    """GEGLU of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * nn.functional.gelu(gate))


class SpatialTransformer(nn.Module):
    """One transformer block over all positions of an image: attention to itself and to the text."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself, self.text = Attention(width, width, heads), Attention(width, context, heads)
        self.feed_forward = GatedFeedForward(width)

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.itself(z, z)
        y = y + self.text(self.norms[1](y), context)
        y = y + self.feed_forward(self.norms[2](y))
        return x + self.leave(y.transpose(1, 2).reshape(x.shape))


class Up(nn.Module):
    """Twice the size, by nearest neighbours and a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.convolution(nn.functional.interpolate(x, scale_factor=2.0))


class Down(nn.Module):
    """Half the size, by a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, 2, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.convolution(x)


class Stage(nn.Module):
    """Blocks one after the other, each given the time step and the text."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, time, context)
        return x


class StableDiffusionUNet(nn.Module):
    """The noise predictor of Stable Diffusion 1 (Rombach et al., CVPR 2022; configuration v1-inference.yaml)."""

    def __init__(
        self, width: int = 320, multiples: Sequence[int] = (1, 2, 4, 4), context: int = 768, heads: int = 8
    ) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        last = len(multiples) - 1
        now, kept = width, [width]
        down, up = [], []

        def level(inputs: int, outputs: int, attends: bool) -> list[nn.Module]:
            block: list[nn.Module] = [ResidualBlock(inputs, outputs, time)]
            return [*block, SpatialTransformer(outputs, context, heads)] if attends else block

        for depth, multiple in enumerate(multiples):
            for _ in range(2):
                down.append(Stage(*level(now, width * multiple, depth < last)))
                now = width * multiple
                kept.append(now)
            if depth < last:
                down.append(Stage(Down(now)))
                kept.append(now)
        self.down = nn.ModuleList(down)
        self.middle = Stage(
            ResidualBlock(now, now, time), SpatialTransformer(now, context, heads), ResidualBlock(now, now, time)
        )
        for depth, multiple in reversed(tuple(enumerate(multiples))):
            for step in range(3):
                blocks = level(now + kept.pop(), width * multiple, depth < last)
                now = width * multiple
                up.append(Stage(*blocks, Up(now)) if depth and step == 2 else Stage(*blocks))
        self.up = nn.ModuleList(up)
        self.leave = nn.Sequential(nn.GroupNorm(32, now), nn.SiLU(), nn.Conv2d(now, 4, 3, padding=1))

    def forward(self, x: torch.Tensor, steps: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Latents (b, 4, 64, 64), sines and cosines of the time steps (b, width), text (b, 77, context)."""
        time = self.time(steps)
        x = self.enter(x)
        kept = [x]
        for stage in self.down:
            x = stage(x, time, context)
            kept.append(x)
        x = self.middle(x, time, context)
        for stage in self.up:
            x = stage(torch.cat((x, kept.pop()), dim=1), time, context)
        return self.leave(x)


class DLRM(nn.Module):
    """Deep learning recommendation model (Naumov et al. 2019) in the sizes of MLPerf's benchmark on Criteo Terabyte."""

    ROWS = (
        *(39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10),
        *(2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36),
    )

    def __init__(self, width: int = 128, rows: Sequence[int] = ROWS) -> None:
        super().__init__()

        def mlp(*widths: int) -> list[nn.Module]:
            return [layer for pair in itertools.pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]

        features = len(rows) + 1
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in rows)
        self.bottom = nn.Sequential(*mlp(13, 512, 256, width))
        self.top = nn.Sequential(*mlp(width + features * (features - 1) // 2, 1024, 1024, 512, 256), nn.Linear(256, 1))
        below = torch.tensor([(i, j) for i in range(features) for j in range(i)]).T
        self.register_buffer("below", below, persistent=False)

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """13 numbers and one index into each table, a row of each per sample."""
        bottom = self.bottom(dense)
        rows = [table(indices[:, k]) for k, table in enumerate(self.tables)]
        features = torch.stack([bottom, *rows], dim=1)
        products = features @ features.transpose(1, 2)
        return self.top(torch.cat([bottom, products[:, self.below[0], self.below[1]]], dim=1))
