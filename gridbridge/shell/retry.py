"""Which failures are tried again, how often and after which pause; for programs that run long.

Hot programs never come here: their steps end, and the next step tries again.
"""

from collections.abc import Callable
from threading import Event
from typing import TypeVar

from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    sleep_using_event,
    stop_after_attempt,
    stop_after_delay,
    stop_when_event_set,
    wait_fixed,
)

T = TypeVar("T")


def once_more(act: Callable[[], T], failed: type[Exception]) -> T:
    """Do it a second time, at once, after such a failure; raise the second failure."""
    tries = Retrying(
        retry=retry_if_exception_type(failed), stop=stop_after_attempt(2), reraise=True
    )
    return tries(act)


def until(is_done: Callable[[], bool], limit_s: float, pause_s: float = 0.2) -> bool:
    """Look again and again, for so long at most; say whether it is done."""
    tries = Retrying(
        retry=retry_if_result(lambda result: not result),
        stop=stop_after_delay(limit_s),
        wait=wait_fixed(pause_s),
        retry_error_callback=lambda _: False,
    )
    return tries(is_done)


def until_stopped(act: Callable[[], None], pause_s: float, stopped: Event) -> None:
    """Do it again and again, with a pause after each time, until it raises."""
    tries = Retrying(
        retry=retry_if_result(lambda _: True),
        stop=stop_when_event_set(stopped),
        wait=wait_fixed(pause_s),
        sleep=sleep_using_event(stopped),
        retry_error_callback=lambda _: None,
    )
    tries(act)
