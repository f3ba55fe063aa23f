"""Pools of threads whose work is done at once, by whoever asks for it.

A task takes its turns in one thread: what others do for it would be in no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from reclaim.catalog.content import range_writer


@contextmanager
def one_thread() -> Iterator[None]:
    """Let commits write their ranges one after the other."""
    with patch.object(range_writer, "ThreadPoolExecutor", _AtOnce):
        yield


class _AtOnce:
    def __init__(self, _threads: int) -> None:
        pass

    def __enter__(self) -> _AtOnce:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **options))
        except Exception as error:
            future.set_exception(error)
        return future
