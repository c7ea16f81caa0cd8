"""Retries of failed acts in long-running programs; starters and load sensors do not retry."""

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


def retry_once_after_failure(act: Callable[[], T], failed: type[Exception]) -> T:
    tries = Retrying(retry=retry_if_exception_type(failed), stop=stop_after_attempt(2), reraise=True)
    return tries(act)


def poll_until(is_done: Callable[[], bool], limit_s: float, pause_s: float = 0.2) -> bool:
    """Wait until a condition holds; return False after the time limit."""
    tries = Retrying(
        retry=retry_if_result(lambda result: not result),
        stop=stop_after_delay(limit_s),
        wait=wait_fixed(pause_s),
        retry_error_callback=lambda _: False,
    )
    return tries(is_done)


def repeat_until_stopped(act: Callable[[], None], pause_s: float, stopped: Event) -> None:
    """Repeat an act with pauses, until `stopped` is set or the act raises an exception."""
    tries = Retrying(
        retry=retry_if_result(lambda _: True),
        stop=stop_when_event_set(stopped),
        wait=wait_fixed(pause_s),
        sleep=sleep_using_event(stopped),
        retry_error_callback=lambda _: None,
    )
    tries(act)
