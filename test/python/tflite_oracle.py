# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's interpreter in a process of its own: some of its kernels end their process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
REFERENCE = "BUILTIN_REF"
OPTIMISED = "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
"""The resolvers by their names: reference kernels, and the optimised ones without XNNPACK."""

_PATIENCE_S = 60


class Unanswered(Exception):
    """The interpreter has no answer; the text says why, in its own words."""


class Oracle:
    """The interpreter's process, begun on first need and anew after each abort."""

    def __init__(self) -> None:
        self._process: Any = None
        self._link: Connection | None = None

    def outputs(
        self, content: bytes, samples: Sequence[Sequence[Array]], resolver: str = REFERENCE
    ) -> list[list[Array]]:
        """For every sample the arrays of all outputs. Raises Unanswered."""
        if self._link is None:
            context = multiprocessing.get_context("spawn")
            self._link, far = context.Pipe()
            self._process = context.Process(target=_serve, args=(far,), daemon=True)
            self._process.start()
            far.close()
        link = self._link
        try:
            link.send((content, samples, resolver))
            if not link.poll(_PATIENCE_S):
                raise EOFError
            answer = link.recv()
        except (EOFError, OSError):
            self.close()
            raise Unanswered("its process ended") from None
        if isinstance(answer, str):
            raise Unanswered(answer)
        return list(answer)

    def close(self) -> None:
        """End the process."""
        if self._link is not None:
            self._link.close()
            self._process.kill()
            self._process.join()
        self._link = None


@contextlib.contextmanager
def oracle() -> Iterator[Oracle]:
    """An oracle that ends with the block."""
    found = Oracle()
    try:
        yield found
    finally:
        found.close()


def _serve(link: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the interpreter's own lines
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    while True:
        try:
            content, samples, resolver = link.recv()
        except EOFError:
            return
        try:
            engine = Interpreter(
                model_content=content, experimental_op_resolver_type=getattr(OpResolverType, resolver)
            )
            engine.allocate_tensors()
            answers = []
            for sample in samples:
                for detail, value in zip(engine.get_input_details(), sample, strict=True):
                    engine.set_tensor(detail["index"], value)
                engine.invoke()
                details = engine.get_output_details()
                answers.append([np.array(engine.get_tensor(detail["index"])) for detail in details])
            link.send(answers)
        except (RuntimeError, ValueError) as error:
            link.send(str(error).split("\n")[0].removeprefix("tflite/kernels/"))
