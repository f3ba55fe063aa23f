"""A renewal goes on until it is closed, remembers that it failed, and ends with its owner."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from reclaim.errors import DatabaseUnavailable
from reclaim.renewal import Renewal

pytestmark = pytest.mark.fast

WAIT = 20
SHORT = timedelta(milliseconds=5)
LONG = timedelta(hours=1)


class Owner:
    """Renews by doing what the test says."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.renewal = Renewal(self, "the thing")
        self._work = work

    def renew(self) -> None:
        self._work()


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "renewal of the thing"]


def ended(thread: threading.Thread) -> bool:
    thread.join(WAIT)
    return not thread.is_alive()


def test_it_renews_again_and_again_until_it_is_closed() -> None:
    times: list[int] = []
    thrice = threading.Event()

    def work() -> None:
        times.append(len(times))
        if len(times) == 3:
            thrice.set()

    owner = Owner(work)
    owner.renewal.start(SHORT)
    owner.renewal.start(SHORT)
    assert len(threads()) == 1
    assert thrice.wait(WAIT)
    owner.renewal.close()
    assert threads() == []
    renewed = len(times)
    owner.renewal.start(SHORT)
    assert threads() == []
    assert len(times) == renewed


def test_a_failure_is_remembered_until_a_renewal_succeeds() -> None:
    steps = [threading.Event() for _ in range(3)]
    said: list[str] = []

    def work() -> None:
        if steps[1].is_set():
            said.append(owner.renewal.failure_text())
            steps[2].set()
        elif steps[0].is_set():
            said.append(owner.renewal.failure_text())
            steps[1].set()
        else:
            steps[0].set()
            raise DatabaseUnavailable("the database is away")

    owner = Owner(work)
    owner.renewal.start(SHORT)
    assert steps[2].wait(WAIT)
    owner.renewal.close()
    assert said[:2] == [": the database is away", ""]


def test_a_failure_nobody_thought_of_does_not_end_it() -> None:
    failed, renewed = threading.Event(), threading.Event()

    def work() -> None:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError
        renewed.set()

    owner = Owner(work)
    owner.renewal.start(SHORT)
    assert renewed.wait(WAIT)
    owner.renewal.close()


def test_it_ends_with_an_owner_that_nobody_needs() -> None:
    failed = threading.Event()

    def work() -> None:
        failed.set()
        raise DatabaseUnavailable("the database is away")

    for interval in (LONG, SHORT):
        owner = Owner(work)
        owner.renewal.start(interval)
        if interval is SHORT:
            assert failed.wait(WAIT)
        (thread,) = threads()
        del owner
        gc.collect()
        assert ended(thread)


def test_what_is_left_to_it_is_done_between_renewals() -> None:
    done, failed = threading.Event(), threading.Event()

    def fails() -> None:
        failed.set()
        raise ZeroDivisionError

    owner = Owner(lambda: None)
    owner.renewal.start(LONG)
    owner.renewal.run_soon(fails)
    owner.renewal.run_soon(done.set)
    assert done.wait(WAIT)
    assert failed.is_set()
    owner.renewal.close()


def test_it_renews_in_time_however_much_is_left_to_it() -> None:
    renewed = threading.Event()
    owner = Owner(renewed.set)

    def again() -> None:
        if not renewed.is_set():
            owner.renewal.run_soon(again)

    owner.renewal.run_soon(again)
    owner.renewal.start(SHORT)
    assert renewed.wait(WAIT)
    owner.renewal.close()


def test_the_thread_itself_can_close_it() -> None:
    owner = Owner(lambda: owner.renewal.close())
    owner.renewal.start(SHORT)
    (thread,) = threads()
    assert ended(thread)
