# SPDX-License-Identifier: Apache-2.0
"""Float arithmetic that gives the same bits on every machine.

A BLAS chooses its order of summing, and its fused multiply-adds, by the processor, so that training with it
gives other weights on another machine. Here everything is elementwise + - * / on float64, each rounded once
by IEEE 754, in an order that this file fixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial, log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matmul(a: Array, b: Array) -> Array:
    """`a (n, k) @ b (k, m)`, summed in the order of k."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k]
    return total


def total(values: Array) -> Array:
    """The sum over the first axis, in its order."""
    result = np.zeros(values.shape[1:])
    for row in values:
        result += row
    return result


def exp(x: Array) -> Array:
    """e^x for -700 < x < 700 by a Taylor polynomial of degree 13 after x = n ln 2 + r."""
    n = np.rint(x * (1 / log(2)))
    r = x - n * log(2)
    value = np.full_like(r, 1 / factorial(13))
    for k in range(12, -1, -1):
        value = value * r + 1 / factorial(k)
    return np.asarray(np.ldexp(value, n.astype(np.int64)), dtype=np.float64)


def softmax(scores: Array) -> Array:
    """Probabilities of each row's classes."""
    e = exp(np.maximum(scores - scores.max(axis=1, keepdims=True), -600.0))
    denominator = np.zeros((e.shape[0], 1))
    for k in range(e.shape[1]):
        denominator += e[:, k : k + 1]
    return np.asarray(e / denominator)


def batches(rng: np.random.Generator, count: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Indices 0 … count-1, shuffled, in batches of `size`."""
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]


class Adam:
    """Kingma and Ba's optimiser over a dictionary of arrays, changed in place."""

    def __init__(self, parameters: dict[str, Array]) -> None:
        self.parameters = parameters
        self.first = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.second = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.steps = 0

    def step(self, gradients: dict[str, Array], rate: float) -> None:
        self.steps += 1
        near, far = 0.9, 0.999
        near_correction, far_correction = 1.0, 1.0
        for _ in range(self.steps):  # powers by multiplication: pow() is the C library's
            near_correction *= near
            far_correction *= far
        for name, gradient in gradients.items():
            self.first[name] = near * self.first[name] + (1 - near) * gradient
            self.second[name] = far * self.second[name] + (1 - far) * gradient * gradient
            mean = self.first[name] / (1 - near_correction)
            spread = np.sqrt(self.second[name] / (1 - far_correction))
            self.parameters[name] -= rate * mean / (spread + 1e-8)
