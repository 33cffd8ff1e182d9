# SPDX-License-Identifier: Apache-2.0
"""What operators compute with: products on codes, `y = round(b + sum(w * x))`, whatever the family.

posit, fixed: the exact sum, one rounding (`product`). float: float32 arithmetic, one term after the other,
starting from the bias. affine: TensorFlow Lite's reference arithmetic (`tflite`). Elementwise operations,
reductions and conversions are in `elementwise`; they are reachable from here too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.numerics import tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.depthwise import depthwise
from minun_pio.numerics.elementwise import (
    add,
    clamp_codes,
    clip_codes,
    convert,
    div,
    encode_ratio,
    maximum,
    mean_rows,
    minimum,
    mul,
    multiply_add,
    prelu,
    reduce_mean,
    reduce_sum,
    round_sum,
    squared_difference,
    squared_distance,
    sub,
)
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes, Format
from minun_pio.numerics.operand import CodeRows, Exact, PatchRows, Window, columns_of, fits_single, patches
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.product import Bias, bias_row, product

__all__ = [
    "Window",
    "add",
    "clamp_codes",
    "clip_codes",
    "conv",
    "convert",
    "div",
    "dot",
    "dot_batched",
    "encode_ratio",
    "maximum",
    "mean_rows",
    "minimum",
    "mul",
    "multiply_add",
    "patches",
    "prelu",
    "reduce_mean",
    "reduce_sum",
    "round_sum",
    "squared_difference",
    "squared_distance",
    "sub",
]

_FLOAT_BLOCK = 1 << 14
_DECODED_AT_A_TIME = 1 << 22  # values of decoded images, 32 MB


def dot(
    x: Codes,
    x_format: Format,
    w: Codes,
    w_format: Format,
    bias: Codes | None,
    bias_format: Format | None,
    out: Format,
    kind: tflite.Product = tflite.Product.DENSE,
) -> Codes:
    """Codes of `round(bias + x @ w.T)`: x (..., K), w (N, K), bias (N,) or None, result (..., N).

    `kind` matters to affine formats only. Any widths of one family together. Raises MinunError
    `format.family` where families meet.
    """
    columns, depth = np.asarray(w).shape
    rows = np.ascontiguousarray(x).reshape(-1, depth)
    result: Codes
    if isinstance(x_format, Affine):
        w_affine, out_affine = _affine(w_format), _affine(out)
        accumulator = tflite.accumulate(rows, x_format, np.asarray(w), w_affine, bias)
        result = tflite.requantise(accumulator, x_format, w_affine, out_affine, kind)
    elif x_format.family == "float":
        result = out.encode(_float_dot(rows, x_format, np.asarray(w), w_format, bias, bias_format))
    else:
        fx, fw, fo = _exact(x_format), _exact(w_format), _exact(out)
        _one_family(fx, fw, fo, *(() if bias_format is None else (bias_format,)))
        added = bias_row(bias, None if bias_format is None else _exact(bias_format), columns)
        single = fits_single(rows, fx, w, fw, depth)
        left = CodeRows(rows, fx, single)
        result = product(left, columns_of(np.asarray(w), fw, single), added, fo)
    return result.reshape(*np.shape(x)[:-1], columns)


def dot_batched(a: Codes, a_format: Format, b: Codes, b_format: Format, out: Format) -> Codes:
    """Codes of `round(a @ b)`: a (..., M, K), b (..., K, N), leading axes broadcast, result (..., M, N)."""
    left, right = np.asarray(a), np.asarray(b)
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, lead + left.shape[-2:])
    right = np.broadcast_to(right, lead + right.shape[-2:])
    result = np.empty((*lead, left.shape[-2], right.shape[-1]), out.storage)
    for index in np.ndindex(*lead):
        columns = np.ascontiguousarray(right[index].T)
        result[index] = dot(left[index], a_format, columns, b_format, None, None, out, tflite.Product.MATMUL)
    return result


def conv(
    x: Codes,
    x_format: Format,
    w: Codes,
    w_format: Format,
    bias: Codes | None,
    bias_format: Format | None,
    out: Format,
    window: Window,
    groups: int = 1,
    kind: tflite.Product = tflite.Product.CONV,
) -> Codes:
    """Convolution: x (samples, H, W, Cin), w (Cout, kh, kw, Cin / groups), result (samples, OH, OW, Cout).

    `window.kernel` is (kh, kw). Padding has the value zero (an affine input's zero point).
    """
    image, kernels = np.ascontiguousarray(x), np.asarray(w)
    out_channels, in_channels = kernels.shape[0], image.shape[3]
    per_in, per_out = in_channels // groups, out_channels // groups
    pieces: list[Codes] = []
    if not isinstance(x_format, Posit | Fixed) and image.shape[0] > 1:
        step = _samples_at_a_time(image.shape, window)
        if step < image.shape[0]:
            parts = (image[start : start + step] for start in range(0, image.shape[0], step))
            return np.concatenate(
                [
                    conv(part, x_format, w, w_format, bias, bias_format, out, window, groups, kind)
                    for part in parts
                ]
            )
    if groups > 1 and per_in == 1 and isinstance(x_format, Posit | Fixed):
        fw, fo = _exact(w_format), _exact(out)
        _one_family(x_format, fw, fo, *(() if bias_format is None else (bias_format,)))
        added = bias_row(bias, None if bias_format is None else _exact(bias_format), out_channels)
        return depthwise(image, x_format, kernels, fw, added, fo, window)
    for group in range(groups):
        part = image if groups == 1 else image[..., group * per_in : (group + 1) * per_in]
        chosen = slice(group * per_out, (group + 1) * per_out)
        flat = kernels[chosen].reshape(per_out, -1)
        part_bias = None if bias is None else np.asarray(bias).ravel()[chosen]
        if isinstance(x_format, Posit | Fixed):
            fw, fo = _exact(w_format), _exact(out)
            _one_family(x_format, fw, fo, *(() if bias_format is None else (bias_format,)))
            added = bias_row(part_bias, None if bias_format is None else _exact(bias_format), per_out)
            pieces.append(_conv_exact(part, x_format, flat, fw, added, fo, window))
        else:
            zero = x_format.zero_point if isinstance(x_format, Affine) else 0
            rows = patches(part, window, fill=zero)
            weights = tflite.channels(w_format, chosen) if isinstance(w_format, Affine) else w_format
            pieces.append(dot(rows, x_format, flat, weights, part_bias, bias_format, out, kind))
    return pieces[0] if groups == 1 else np.concatenate(pieces, axis=-1)


def _samples_at_a_time(shape: tuple[int, ...], window: Window) -> int:
    """Samples whose patches take some 32 MB as float32."""
    taps = window.kernel[0] * window.kernel[1]
    pixels = shape[1] * shape[2] // (window.strides[0] * window.strides[1]) + 1
    return max(1, (1 << 23) // (pixels * taps * shape[3]))


def _conv_exact(
    image: Codes, fmt: Exact, kernels: Codes, fw: Exact, bias: Bias | None, out: Exact, window: Window
) -> Codes:
    single = fits_single(image, fmt, kernels, fw, kernels.shape[1])
    columns = columns_of(kernels, fw, single)
    samples = image.shape[0]
    step = max(1, _DECODED_AT_A_TIME // max(1, image[0].size)) if samples else 1
    parts = []
    for start in range(0, samples, step):
        rows = PatchRows(image[start : start + step], fmt, window, single)
        parts.append(product(rows, columns, bias, out, align=rows.shape[2]).reshape(*rows.shape, -1))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _float_dot(
    x: Codes, x_format: Format, w: Codes, w_format: Format, bias: Codes | None, bias_format: Format | None
) -> NDArray[np.float32]:
    """acc = bias; for k in order: acc = fl(acc + fl(w * x)); no fused multiply-add, as the device does."""
    _one_family(x_format, w_format)
    right = np.ascontiguousarray(_singles(w, w_format).T)
    start_values = np.zeros(right.shape[1], np.float32)
    if bias is not None and bias_format is not None:
        start_values += _singles(np.asarray(bias).ravel(), bias_format)
    result = np.empty((x.shape[0], right.shape[1]), np.float32)
    step = max(1, _FLOAT_BLOCK // right.shape[1])  # the running sums stay in the cache
    for start in range(0, x.shape[0], step):
        left = np.ascontiguousarray(_singles(x[start : start + step], x_format).T)
        total = result[start : start + step]
        total[...] = start_values
        term = np.empty_like(total)
        with np.errstate(all="ignore"):
            for k in range(left.shape[0]):
                np.multiply(left[k, :, None], right[k], out=term)
                np.add(total, term, out=total)
    return result


def _singles(codes: Codes, fmt: Format) -> NDArray[np.float32]:
    return np.asarray(codes) if fmt.storage.kind == "f" else fmt.decode(codes).astype(np.float32)


def _exact(fmt: Format) -> Exact:
    if isinstance(fmt, Posit | Fixed):
        return fmt
    raise MinunError(
        "format.family", f"{fmt.name} found among posit or fixed-point operands; convert it first"
    )


def _affine(fmt: Format) -> Affine:
    if isinstance(fmt, Affine):
        return fmt
    raise MinunError("format.family", f"{fmt.name} found among affine operands; convert it first")


def _one_family(*formats: Format) -> None:
    families = {fmt.family for fmt in formats}
    if len(families) > 1:
        names = ", ".join(fmt.name for fmt in formats)
        raise MinunError(
            "format.family", f"one operator has {names}; one family expected, convert the others first"
        )
