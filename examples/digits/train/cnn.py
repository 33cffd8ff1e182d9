# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network: conv 3x3 to 8, relu, max-pool 2, conv 3x3 to 16, relu, max-pool 2, dense."""

from __future__ import annotations

import numpy as np
from arithmetic import Adam, Array, batches, matmul, softmax, total
from numpy.typing import NDArray
from variations import shifted

CLASSES = 10


def patches(x: Array) -> Array:
    """3x3 neighbourhoods, zero-padded: (n, h, w, c) to (n * h * w, 9 * c)."""
    n, h, w, c = x.shape
    padded = np.zeros((n, h + 2, w + 2, c))
    padded[:, 1:-1, 1:-1] = x
    shifted = [padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return np.stack(shifted, axis=3).reshape(n * h * w, 9 * c)


def unpatch(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The transpose of `patches`: each pixel's gradient, summed over the neighbourhoods that it is in."""
    n, h, w, c = shape
    padded = np.zeros((n, h + 2, w + 2, c))
    parts = gradient.reshape(n, h, w, 9, c)
    for k in range(9):
        padded[:, k // 3 : k // 3 + h, k % 3 : k % 3 + w] += parts[:, :, :, k]
    return padded[:, 1:-1, 1:-1]


def pool(x: Array) -> tuple[Array, Array]:
    """2x2 maximum, and where it came from (the first of equals) as 0/1 of the input's shape."""
    n, h, w, c = x.shape
    windows = (
        x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4).reshape(n, h // 2, w // 2, c, 4)
    )
    chosen = np.eye(4)[windows.argmax(axis=4)]
    mask = chosen.reshape(n, h // 2, w // 2, c, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(x.shape)
    return windows.max(axis=4), mask


def spread(x: Array) -> Array:
    """Each value four times, as the 2x2 window that it was pooled from."""
    return np.asarray(x.repeat(2, axis=1).repeat(2, axis=2))


def forward(x: Array, p: dict[str, Array]) -> dict[str, Array]:
    """Every intermediate value for pixels `x` (n, 8, 8, 1)."""
    n = len(x)
    v = {"patches1": patches(x)}
    v["relu1"] = np.maximum(matmul(v["patches1"], p["w1"]) + p["b1"], 0.0).reshape(n, 8, 8, 8)
    v["pool1"], v["mask1"] = pool(v["relu1"])
    v["patches2"] = patches(v["pool1"])
    v["relu2"] = np.maximum(matmul(v["patches2"], p["w2"]) + p["b2"], 0.0).reshape(n, 4, 4, 16)
    v["pool2"], v["mask2"] = pool(v["relu2"])
    v["flat"] = v["pool2"].reshape(n, 64)
    v["scores"] = matmul(v["flat"], p["w3"]) + p["b3"]
    return v


def train(x: Array, y: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Weights of the three layers, as float32; `x` is (n, 64)."""
    rng = np.random.Generator(np.random.PCG64(11))
    images = x.reshape(-1, 8, 8, 1)
    p = {
        "w1": rng.integers(-1000, 1001, (9, 8)) / 1500.0,
        "b1": np.zeros(8),
        "w2": rng.integers(-1000, 1001, (72, 16)) / 4500.0,
        "b2": np.zeros(16),
        "w3": rng.integers(-1000, 1001, (64, CLASSES)) / 4500.0,
        "b3": np.zeros(CLASSES),
    }
    optimiser = Adam(p)
    target = np.eye(CLASSES)[y]
    epochs = 30
    for epoch in range(epochs):
        for batch in batches(rng, len(x), 48):
            v = forward(shifted(images[batch], rng), p)
            error = (softmax(v["scores"]) - target[batch]) / len(batch)
            to_pool2 = matmul(error, p["w3"].T.copy()).reshape(v["pool2"].shape)
            to_conv2 = (spread(to_pool2) * v["mask2"] * (v["relu2"] > 0)).reshape(-1, 16)
            to_pool1 = unpatch(matmul(to_conv2, p["w2"].T.copy()), v["pool1"].shape)
            to_conv1 = (spread(to_pool1) * v["mask1"] * (v["relu1"] > 0)).reshape(-1, 8)
            gradients = {
                "w3": matmul(v["flat"].T.copy(), error) + 1e-4 * p["w3"],
                "b3": total(error),
                "w2": columns(v["patches2"], to_conv2) + 1e-4 * p["w2"],
                "b2": total(to_conv2),
                "w1": columns(v["patches1"], to_conv1) + 1e-4 * p["w1"],
                "b1": total(to_conv1),
            }
            optimiser.step(gradients, 0.01 * (1 - epoch / epochs))
    return {name: value.astype(np.float32) for name, value in p.items()}


def columns(a: Array, b: Array) -> Array:
    """`a.T @ b` for tall matrices, a column of `a` at a time, summed by halves."""
    result = np.zeros((a.shape[1], b.shape[1]))
    for k in range(a.shape[1]):
        result[k] = total_by_halves(a[:, k : k + 1] * b)
    return result


def total_by_halves(values: Array) -> Array:
    """The sum over the first axis by halving it, in an order that depends on its length only."""
    while len(values) > 1:
        half = len(values) // 2
        head = values[:half] + values[half : 2 * half]
        values = head if len(values) % 2 == 0 else np.concatenate([head, values[-1:]])
    return np.asarray(values[0])
