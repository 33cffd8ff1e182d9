# SPDX-License-Identifier: Apache-2.0
"""Training samples made a little different each time, so that a small set is not learnt by heart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def noisy(x: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Each pixel moved by up to 6 of its 16 grey levels."""
    return np.asarray(x + rng.integers(-6, 7, x.shape) / 16.0)


def shifted(images: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Half of the images (n, 8, 8, 1) moved by up to one pixel in each direction; zeros come in."""
    padded = np.zeros((len(images), 10, 10, 1))
    moves = rng.integers(0, 3, (len(images), 2))
    stays = rng.integers(0, 2, len(images)) == 0
    for index, image in enumerate(images):
        down, right = (1, 1) if stays[index] else moves[index]
        padded[index, down : down + 8, right : right + 8] = image
    return padded[:, 1:9, 1:9]
