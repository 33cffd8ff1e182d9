# SPDX-License-Identifier: Apache-2.0
"""Networks as memory graphs, for the planner's benchmark: shapes only, one byte an element.

Kernel order as in `include/minun/`: convolution gathers a window, then writes all outputs of a group;
pooling works channel by channel. With `strided`, kernels can read and write a tensor that is interleaved
with others (one pixel after the other), so that concats of channels cost nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from minun_pio.planner.memory_graph import GraphStep, MemoryGraph, Overlap, TensorBuffer, View
from minun_pio.planner.raster import (
    Window,
    concat_first_distance,
    dense_distances,
    elementwise_distances,
    resize_distances,
    window_distances,
)

Pad = str | int  # "same", "valid", "ceil" (valid, last window cut) or symmetric


@dataclass(frozen=True)
class NetStep(GraphStep):
    """`kernel_scratch`: bytes that the int8 kernel of include/minun/conv_fast.h takes."""

    kernel_scratch: int = 0


class Net:
    """A network under construction. Tensors are names; `shape[name]` is (height, width, channels)."""

    def __init__(self, name: str, unfused: bool = False, strided: bool = True) -> None:
        self.name, self.unfused, self.strided = name + ("_unfused" if unfused else ""), unfused, strided
        self.shape: dict[str, tuple[int, int, int]] = {}
        self.steps: list[GraphStep] = []
        self.first = ""

    def input(self, h: int, w: int, c: int) -> str:
        self.first = "input"
        self.shape["input"] = (h, w, c)
        return "input"

    def size(self, name: str) -> int:
        return prod(self.shape[name])

    def step(
        self,
        kind: str,
        inputs: list[str],
        shape: tuple[int, int, int],
        scratch: int = 0,
        in_place: tuple[tuple[int, int], ...] = (),
        overlaps: tuple[Overlap, ...] = (),
        views: tuple[View, ...] = (),
        kernel_scratch: int = 0,
    ) -> str:
        out = f"{kind}{len(self.steps)}"
        self.shape[out] = shape
        pixelwise = self.strided and kind in ("conv", "dw", "pool", "add", "relu", "concat", "up", "mul")
        self.steps.append(
            NetStep(
                name=f"step {out}",
                inputs=tuple(inputs),
                outputs=(out,),
                scratch=scratch,
                in_place=in_place,
                overlaps=overlaps,
                views=views,
                writes_strided=pixelwise,
                reads_strided=pixelwise,
                kernel_scratch=kernel_scratch,
            )
        )
        return out

    def _window(
        self, x: str, out_c: int, k: int | tuple[int, int], stride: int, pad: Pad, groups: int
    ) -> Window:
        h, w, c = self.shape[x]
        kh, kw = (k, k) if isinstance(k, int) else k
        if pad == "same":
            oh, ow = -(-h // stride), -(-w // stride)
            top, left = max((oh - 1) * stride + kh - h, 0) // 2, max((ow - 1) * stride + kw - w, 0) // 2
        elif pad == "ceil":
            oh, ow, top, left = -(-(h - kh) // stride) + 1, -(-(w - kw) // stride) + 1, 0, 0
        else:
            top = left = pad if isinstance(pad, int) else 0
            oh, ow = (h + 2 * top - kh) // stride + 1, (w + 2 * left - kw) // stride + 1
        return Window(h, w, c, oh, ow, out_c, (kh, kw), (stride, stride), (top, left), groups=groups)

    def _windowed(self, kind: str, x: str, window: Window) -> str:
        d = window_distances(window)
        patch = window.kernel[0] * window.kernel[1] * window.channels // window.groups
        at_once = 4 if window.groups == 1 else 8
        return self.step(
            kind,
            [x],
            (window.out_height, window.out_width, window.out_channels),
            overlaps=(Overlap(0, 0, d.forward, d.reverse),),
            kernel_scratch=0 if kind == "pool" else at_once * patch,
        )

    def conv(
        self,
        x: str,
        out_c: int,
        k: int | tuple[int, int],
        stride: int = 1,
        pad: Pad = "same",
        relu: bool = True,
    ) -> str:
        out = self._windowed("conv", x, self._window(x, out_c, k, stride, pad, 1))
        return self.each("relu", out) if relu and self.unfused else out

    def dw(self, x: str, k: int, stride: int = 1, pad: Pad = "same", relu: bool = True) -> str:
        c = self.shape[x][2]
        out = self._windowed("dw", x, self._window(x, c, k, stride, pad, c))
        return self.each("relu", out) if relu and self.unfused else out

    def pool(self, x: str, k: int, stride: int, pad: Pad = "valid") -> str:
        c = self.shape[x][2]
        return self._windowed("pool", x, self._window(x, c, k, stride, pad, c))

    def each(self, kind: str, *xs: str) -> str:
        """Element by element, all inputs of one shape."""
        d = elementwise_distances(self.size(xs[0]))
        return self.step(
            kind,
            list(xs),
            self.shape[xs[0]],
            in_place=tuple((i, 0) for i in range(len(xs))),
            overlaps=tuple(Overlap(i, 0, d.forward, d.reverse) for i in range(len(xs))),
        )

    def add(self, a: str, b: str, relu: bool = False) -> str:
        out = self.each("add", a, b)
        return self.each("relu", out) if relu and self.unfused else out

    def concat(self, xs: list[str], flat: bool = False) -> str:
        h, w, _ = self.shape[xs[0]]
        channels = sum(self.shape[x][2] for x in xs)
        shape = (1, 1, sum(self.size(x) for x in xs)) if flat else (h, w, channels)
        apart = not flat and h * w > 1
        views, at = [], 0
        for i, x in enumerate(xs):
            if not apart or self.strided:
                views.append(View(i, 0, at, interleaved=apart))
            at += self.shape[x][2] if apart else self.size(x)
        rows, run, stride = (h * w, self.shape[xs[0]][2], channels) if apart else (1, self.size(xs[0]), 0)
        over = Overlap(0, 0, concat_first_distance(rows, run, stride))
        return self.step("concat", xs, shape, overlaps=(over,), views=tuple(views))

    def gap(self, x: str) -> str:
        return self.step("gap", [x], (1, 1, self.shape[x][2]), overlaps=(Overlap(0, 0, 0, None),))

    def dense(self, x: str, n: int) -> str:
        d = dense_distances(1, self.size(x), n)
        return self.step("dense", [x], (1, 1, n), overlaps=(Overlap(0, 0, d.forward, d.reverse),))

    def softmax(self, x: str) -> str:
        return self.step("softmax", [x], self.shape[x], in_place=((0, 0),))

    def up(self, x: str) -> str:
        h, w, c = self.shape[x]
        d = resize_distances(
            h, w, c, [(y // 2, y // 2) for y in range(2 * h)], [(k // 2, k // 2) for k in range(2 * w)]
        )
        return self.step("up", [x], (2 * h, 2 * w, c), overlaps=(Overlap(0, 0, d.forward, d.reverse),))

    def done(self, *outputs: str) -> MemoryGraph:
        tensors = []
        for name in self.shape:
            kind = "input" if name == self.first else "output" if name in outputs else "local"
            tensors.append(TensorBuffer(name, self.size(name), kind=kind))  # type: ignore[arg-type]
        return MemoryGraph(tuple(tensors), tuple(self.steps))


Maker = Callable[[bool], tuple[str, MemoryGraph]]


def squeezenet(version: str, res: int, unfused: bool, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net(f"squeezenet{version}_{res}", unfused, strided)
    x = g.input(res, res, 3)

    def fire(x: str, squeeze: int, expand: int) -> str:
        q = g.conv(x, squeeze, 1)
        return g.concat([g.conv(q, expand, 1), g.conv(q, expand, 3, 1, 1)])

    if version == "1.0":
        x = g.pool(g.conv(x, 96, 7, 2, "valid"), 3, 2, "ceil")
        plan = [
            (16, 64),
            (16, 64),
            (32, 128),
            "pool",
            (32, 128),
            (48, 192),
            (48, 192),
            (64, 256),
            "pool",
            (64, 256),
        ]
    else:
        x = g.pool(g.conv(x, 64, 3, 2, "valid"), 3, 2, "ceil")
        plan = [
            (16, 64),
            (16, 64),
            "pool",
            (32, 128),
            (32, 128),
            "pool",
            (48, 192),
            (48, 192),
            (64, 256),
            (64, 256),
        ]
    for item in plan:
        x = g.pool(x, 3, 2, "ceil") if isinstance(item, str) else fire(x, *item)
    return g.name, g.done(g.softmax(g.gap(g.conv(x, 1000, 1))))


def mobilenet_v1(
    res: int, alpha: float, classes: int, unfused: bool, strided: bool
) -> tuple[str, MemoryGraph]:
    g = Net(f"mobilenetv1_{alpha}_{res}", unfused, strided)

    def c(n: int) -> int:
        return max(8, int(n * alpha))

    x = g.conv(g.input(res, res, 3), c(32), 3, 2)
    layers = (
        [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    )
    for n, stride in layers:
        x = g.conv(g.dw(x, 3, stride), c(n), 1)
    return g.name, g.done(g.softmax(g.dense(g.gap(x), classes)))


def _divisible(v: float) -> int:
    n = max(8, int(v + 4) // 8 * 8)
    return n + 8 if n < 0.9 * v else n


def mobilenet_v2(
    res: int, alpha: float, classes: int, unfused: bool, strided: bool
) -> tuple[str, MemoryGraph]:
    g = Net(f"mobilenetv2_{alpha}_{res}", unfused, strided)
    x = g.conv(g.input(res, res, 3), _divisible(32 * alpha), 3, 2)
    blocks = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for t, c, n, s in blocks:
        for i in range(n):
            y = g.conv(x, g.shape[x][2] * t, 1) if t != 1 else x
            y = g.conv(g.dw(y, 3, s if i == 0 else 1), _divisible(c * alpha), 1, relu=False)
            x = g.add(x, y) if i > 0 else y
    x = g.conv(x, max(1280, _divisible(1280 * alpha)), 1)
    return g.name, g.done(g.softmax(g.dense(g.gap(x), classes)))


def resnet8(unfused: bool, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net("resnet8", unfused, strided)
    x = g.conv(g.input(32, 32, 3), 16, 3)
    for c, s in [(16, 1), (32, 2), (64, 2)]:
        y = g.conv(g.conv(x, c, 3, s), c, 3, relu=False)
        if s != 1:
            x = g.conv(x, c, 1, s, relu=False)
        x = g.add(x, y, relu=True)
    return g.name, g.done(g.softmax(g.dense(g.gap(x), 10)))


def resnet18(res: int, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net(f"resnet18_{res}", strided=strided)
    x = g.pool(g.conv(g.input(res, res, 3), 64, 7, 2, 3), 3, 2, 1)
    for c, s in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        y = g.conv(g.conv(x, c, 3, s, 1), c, 3, 1, 1)
        if s != 1:
            x = g.conv(x, c, 1, s, 0)
        x = g.add(x, y)
    return g.name, g.done(g.dense(g.gap(x), 1000))


def ds_cnn(unfused: bool, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net("ds_cnn", unfused, strided)
    x = g.conv(g.input(49, 10, 1), 64, (10, 4), 2)
    for _ in range(4):
        x = g.conv(g.dw(x, 3), 64, 1)
    return g.name, g.done(g.softmax(g.dense(g.gap(x), 12)))


def autoencoder(strided: bool) -> tuple[str, MemoryGraph]:
    g = Net("ad_autoencoder", strided=strided)
    x = g.input(1, 1, 640)
    for n in [128] * 4 + [8] + [128] * 4 + [640]:
        x = g.dense(x, n)
    return g.name, g.done(x)


def fastgrnn(steps: int, inputs: int, hidden: int, rank: int, strided: bool) -> tuple[str, MemoryGraph]:
    """Unrolled over time."""
    g = Net(f"fastgrnn_T{steps}_{inputs}_{hidden}" + (f"_rank{rank}" if rank else ""), strided=strided)
    x = g.input(1, steps, inputs)
    h = g.step("zero", [], (1, 1, hidden))
    for t in range(steps):
        xt = g.step("slice", [x], (1, 1, inputs), views=(View(0, 0, t * inputs, output_inside=True),))
        a = g.dense(g.dense(xt, rank), hidden) if rank else g.dense(xt, hidden)
        b = g.dense(g.dense(h, rank), hidden) if rank else g.dense(h, hidden)
        c = g.add(a, b)
        z, candidate = g.each("sigmoid", g.each("bias", c)), g.each("tanh", g.each("bias", c))
        h = g.add(g.each("mul", h, z), g.each("mul", g.each("one_minus", z), candidate))
    return g.name, g.done(g.step("argmax", [g.dense(h, 10)], (1, 1, 1)))


def rnnpool_face(h: int, w: int, c: int, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net(f"rnnpool_face_{h}x{w}", strided=strided)
    x = g.conv(g.input(h, w, c), 4, 3, 2, 1)
    height, width, _ = g.shape[x]
    x = g.step(
        "rnnpool", [x], ((height - 8) // 4 + 1, (width - 8) // 4 + 1, 64), scratch=8 * 8 * 16 + 8 * 4 * 8
    )
    taps = []
    for out, stride, n in [(32, 1, 4), (64, 2, 4), (96, 2, 3), (128, 1, 3)]:
        for i in range(n):
            s = stride if i == 0 else 1
            channels = g.shape[x][2]
            y = g.conv(g.dw(g.conv(x, channels * 2, 1), 3, s), out, 1, relu=False)
            x = g.add(x, y) if s == 1 and channels == out else y
        taps.append(x)
    places, scores = [], []
    for i, tap in enumerate(taps):
        y = g.each("l2norm", tap) if i < 2 else tap
        places.append(g.conv(y, 4, 3, relu=False))
        score = g.conv(y, 4 if i == 0 else 2, 3, relu=False)
        if i == 0:
            sh, sw, _ = g.shape[score]
            most = g.step("max_channel", [g.step("slice", [score], (sh, sw, 3))], (sh, sw, 1))
            score = g.concat([most, g.step("slice", [score], (sh, sw, 1))])
        scores.append(score)
    return g.name, g.done(g.concat(places, flat=True), g.softmax(g.concat(scores, flat=True)))


def googlenet(res: int, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net(f"googlenet_{res}", strided=strided)
    x = g.pool(g.conv(g.input(res, res, 3), 64, 7, 2), 3, 2, "same")
    x = g.pool(g.conv(g.conv(x, 64, 1), 192, 3), 3, 2, "same")

    def inception(x: str, a: int, b: int, b2: int, c: int, c2: int, d: int) -> str:
        return g.concat(
            [
                g.conv(x, a, 1),
                g.conv(g.conv(x, b, 1), b2, 3),
                g.conv(g.conv(x, c, 1), c2, 5),
                g.conv(g.pool(x, 3, 1, "same"), d, 1),
            ]
        )

    x = inception(inception(x, 64, 96, 128, 16, 32, 32), 128, 128, 192, 32, 96, 64)
    x = g.pool(x, 3, 2, "same")
    for row in [
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ]:
        x = inception(x, *row)
    x = inception(g.pool(x, 3, 2, "same"), 256, 160, 320, 32, 128, 128)
    x = inception(x, 384, 192, 384, 48, 128, 128)
    return g.name, g.done(g.dense(g.gap(x), 1000))


def densenet(res: int, layers: int, growth: int, blocks: int, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net(f"densenet_{res}_{layers}x{blocks}", strided=strided)
    x = g.conv(g.input(res, res, 3), 2 * growth, 3)
    for b in range(blocks):
        for _ in range(layers):
            x = g.concat([x, g.conv(g.conv(x, 4 * growth, 1), growth, 3)])
        if b < blocks - 1:
            x = g.pool(g.conv(x, g.shape[x][2] // 2, 1), 2, 2)
    return g.name, g.done(g.dense(g.gap(x), 10))


def unet(res: int, c: int, strided: bool) -> tuple[str, MemoryGraph]:
    g = Net(f"unet_{res}_{c}", strided=strided)
    x = g.input(res, res, 1)
    skips = []
    for i in range(4):
        x = g.conv(g.conv(x, c << i, 3), c << i, 3)
        skips.append(x)
        x = g.pool(x, 2, 2)
    x = g.conv(g.conv(x, c << 4, 3), c << 4, 3)
    for i in range(3, -1, -1):
        x = g.concat([skips[i], g.conv(g.up(x), c << i, 3)])
        x = g.conv(g.conv(x, c << i, 3), c << i, 3)
    return g.name, g.done(g.conv(x, 2, 1, relu=False))


def randwire(
    seed: int, strided: bool, nodes: int = 16, res: int = 28, c: int = 20
) -> tuple[str, MemoryGraph]:
    chance = random.Random(seed)
    g = Net(f"randwire_{seed}", strided=strided)
    x = g.conv(g.input(res * 2, res * 2, 3), c, 3, 2)
    for stage in range(2):
        before: dict[int, set[int]] = {i: set() for i in range(nodes)}
        for i in range(nodes):
            for d in (1, 2):
                j = (i + d) % nodes
                if chance.random() < 0.75:
                    j = chance.randrange(nodes)
                if j != i:
                    before[max(i, j)].add(min(i, j))
        made: list[str] = []
        for i in range(nodes):
            sources = sorted(before[i])
            y = made[sources[0]] if sources else x
            for p in sources[1:]:
                y = g.add(y, made[p])
            made.append(g.conv(g.dw(y, 3, 1 if sources else 2), c << stage, 1))
        used = {p for ps in before.values() for p in ps}
        ends = [made[i] for i in range(nodes) if i not in used]
        x = ends[0]
        for e in ends[1:]:
            x = g.add(x, e)
    return g.name, g.done(g.dense(g.gap(x), 10))


def nasnet(strided: bool, res: int = 32, c: int = 32, cells: int = 3) -> tuple[str, MemoryGraph]:
    g = Net(f"nasnet_{res}", strided=strided)
    previous = x = g.conv(g.input(res, res, 3), c, 3)

    def separable(z: str, k: int) -> str:
        return g.conv(g.dw(z, k), c, 1)

    for _ in range(cells):
        h, q = g.conv(x, c, 1), g.conv(previous, c, 1)
        parts = [
            q,
            g.add(separable(h, 3), h),
            g.add(separable(q, 3), separable(h, 5)),
            g.add(g.pool(h, 3, 1, "same"), q),
            g.add(g.pool(q, 3, 1, "same"), g.pool(q, 3, 1, "same")),
            g.add(separable(q, 5), separable(q, 3)),
        ]
        previous, x = x, g.concat(parts)
    return g.name, g.done(g.dense(g.gap(x), 10))


def networks(strided: bool = True) -> Iterator[tuple[str, MemoryGraph]]:
    """The 38 networks of the comparison."""
    for version in ("1.0", "1.1"):
        for res in (224, 227):
            for unfused in (False, True):
                yield squeezenet(version, res, unfused, strided)
    yield mobilenet_v1(224, 1.0, 1000, False, strided)
    yield mobilenet_v1(224, 1.0, 1000, True, strided)
    yield mobilenet_v1(96, 0.25, 2, False, strided)
    yield mobilenet_v1(128, 0.25, 1000, False, strided)
    yield mobilenet_v2(224, 1.0, 1000, False, strided)
    yield mobilenet_v2(224, 1.0, 1000, True, strided)
    yield mobilenet_v2(96, 0.35, 2, False, strided)
    yield mobilenet_v2(144, 0.35, 1000, False, strided)
    yield resnet8(False, strided)
    yield resnet8(True, strided)
    yield resnet18(224, strided)
    yield ds_cnn(False, strided)
    yield ds_cnn(True, strided)
    yield autoencoder(strided)
    yield fastgrnn(99, 32, 100, 0, strided)
    yield fastgrnn(32, 16, 64, 8, strided)
    yield fastgrnn(1, 32, 100, 0, strided)
    yield fastgrnn(16, 77, 32, 0, strided)
    yield rnnpool_face(240, 320, 1, strided)
    yield rnnpool_face(480, 640, 3, strided)
    yield googlenet(128, strided)
    yield googlenet(224, strided)
    yield densenet(32, 8, 12, 3, strided)
    yield densenet(32, 12, 12, 3, strided)
    yield unet(64, 8, strided)
    yield unet(128, 8, strided)
    for seed in range(3):
        yield randwire(seed, strided)
    yield nasnet(strided)


def offered_by_kernels(graph: MemoryGraph) -> MemoryGraph:
    """The network with what a build uses: the kernels' scratch and directions, no interleaved writes."""
    size = {t.name: t.size for t in graph.tensors}
    steps = []
    for step in graph.steps:
        assert isinstance(step, NetStep)
        kind = step.outputs[0].rstrip("0123456789")
        overlaps = tuple(Overlap(v.input_index, 0, v.forward_bytes, v.reverse_bytes) for v in step.overlaps)
        if kind == "dense":  # int8 reads its input anew for each output
            overlaps = (Overlap(0, 0, size[step.outputs[0]] - 1),)
        elif kind not in ("conv", "dw", "pool", "up"):
            overlaps = tuple(replace(v, reverse_bytes=None) for v in overlaps)
        steps.append(
            replace(
                step,
                scratch=step.scratch + step.kernel_scratch,
                overlaps=overlaps,
                views=tuple(v for v in step.views if not getattr(v, "interleaved", False)),
                writes_strided=False,
                reads_strided=False,
            )
        )
    return MemoryGraph(graph.tensors, tuple(steps))


def random_network(seed: int) -> MemoryGraph:
    """An irregular CNN: 15 to 70 operators, each on something recent."""
    chance = random.Random(seed)
    g = Net(f"random{seed}")
    pool = [g.input(chance.choice((24, 32, 48, 96)), chance.choice((24, 32, 48, 96)), chance.choice((1, 3)))]
    count, window = chance.randint(15, 70), chance.randint(2, 8)
    for _ in range(count):
        recent = pool[-window:]
        a = chance.choice(recent)
        h, w, c = g.shape[a]
        dice = chance.random()
        beside = [b for b in recent if b != a and g.shape[b][:2] == (h, w)]
        same = [b for b in beside if g.shape[b][2] == c]
        if dice < 0.45:
            stride = 2 if chance.random() < 0.2 and min(h, w) > 6 else 1
            out = g.conv(a, chance.randint(3, 67), chance.choice((1, 3)), stride)
        elif dice < 0.6:
            out = g.dw(a, 3)
        elif dice < 0.8:
            out = g.add(a, chance.choice(same)) if same else g.conv(a, c, 3)
        elif beside and c < 200:
            out = g.concat([a, *chance.sample(beside, min(len(beside), chance.randint(1, 3)))])
        else:
            out = g.conv(a, chance.randint(3, 40), 1)
        pool.append(out)
    used = {name for step in g.steps for name in step.inputs}
    return g.done(*[step.outputs[0] for step in g.steps if step.outputs[0] not in used])
