# SPDX-License-Identifier: Apache-2.0
"""ProtoNN (Gupta et al., ICML 2017) by plain gradient descent: scores = exp(-gamma^2 |x W - B|^2) Z."""

from __future__ import annotations

import numpy as np
from arithmetic import Adam, Array, batches, exp, matmul, softmax, total
from numpy.typing import NDArray
from variations import noisy

PROJECTED = 10  # dimensions after the projection W
PROTOTYPES = 30  # three a class
CLASSES = 10


def scores(x: Array, p: dict[str, Array], gamma: float) -> Array:
    """(n, 10) class scores of pixels `x` (n, 64)."""
    return matmul(similarity(matmul(x, p["W"]), p["B"], gamma)[0], p["Z"].T.copy())


def similarity(projected: Array, prototypes: Array, gamma: float) -> tuple[Array, Array]:
    """exp(-gamma^2 |p - b|^2) as (n, prototypes), and the differences (n, prototypes, d)."""
    difference = projected[:, None, :] - prototypes.T[None, :, :]
    distance = np.zeros(difference.shape[:2])
    for k in range(difference.shape[2]):
        distance += difference[:, :, k] * difference[:, :, k]
    return exp(np.maximum(-gamma * gamma * distance, -600.0)), difference


def train(x: Array, y: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Weights W (64, d), B (d, m), Z (10, m), gamma, as float32."""
    rng = np.random.Generator(np.random.PCG64(7))
    p = {"W": rng.integers(-1000, 1001, (64, PROJECTED)) / 4000.0}
    firsts = [rng.permutation(np.flatnonzero(y == k % CLASSES))[:4] for k in range(PROTOTYPES)]
    centres = np.stack([x[chosen].sum(axis=0) / 4 for chosen in firsts])
    p["B"] = matmul(centres, p["W"]).T.copy()
    p["Z"] = np.zeros((CLASSES, PROTOTYPES))
    for k in range(PROTOTYPES):
        p["Z"][k % CLASSES, k] = 4.0
    gamma = 0.75
    optimiser = Adam(p)
    target = np.eye(CLASSES)[y]
    epochs = 120
    for epoch in range(epochs):
        for batch in batches(rng, len(x), 96):
            seen = noisy(x[batch], rng)
            near, difference = similarity(matmul(seen, p["W"]), p["B"], gamma)
            error = (softmax(matmul(near, p["Z"].T.copy())) - target[batch]) / len(batch)
            by_distance = matmul(error, p["Z"]) * near * (-2 * gamma * gamma)  # (n, m)
            flow = by_distance[:, :, None] * difference  # (n, m, d)
            by_projection = total(flow.transpose(1, 0, 2))
            gradients = {
                "W": matmul(seen.T.copy(), by_projection) + 1e-4 * p["W"],
                "B": -total(flow).T,
                "Z": matmul(error.T.copy(), near) + 1e-4 * p["Z"],
            }
            optimiser.step(gradients, 0.02 * (1 - epoch / epochs))
    weights = {name: value.astype(np.float32) for name, value in p.items()}
    weights["gamma"] = np.array(gamma, dtype=np.float32)
    return weights
