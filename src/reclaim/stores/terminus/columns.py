"""Columns of numbers, and bytes viewed as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def at_any_byte(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """View of the data as values of a kind, beginning at every byte."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(len(data) - size + 1, 0),), kind, data, strides=(1,))


def to_numbers(words: Words) -> Numbers:
    return words.astype(np.int64)
