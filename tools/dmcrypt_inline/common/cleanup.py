"""Undoing what was set up: also when a signal comes, and told when it cannot be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .errors import UserError

TRIES, PAUSE = 20, 0.25  # times, and seconds between them
Result = TypeVar("Result")


@contextmanager
def undone(what: str, undo: Callable[[], object], by_hand: str) -> Iterator[None]:
    """Call `undo` at the end, however that comes; `by_hand` is the command that does the same.

    What it undoes is made in the body, so `undo` may find nothing, or half of it; it may be called twice.
    Raises UserError when it fails. Where the body has failed already, that is only printed, and its exception goes on.
    """
    try:
        yield
    except BaseException:
        try:
            _call(what, undo, by_hand)
        except UserError as error:
            print(error, flush=True)
        raise
    _call(what, undo, by_hand)


def _call(what: str, undo: Callable[[], object], by_hand: str) -> None:
    try:
        try:
            undo()
        except KeyboardInterrupt:  # it comes once (see measure.interruptible), but may have come here
            undo()
            raise
    except (UserError, OSError) as error:
        raise UserError(f"LEFT BEHIND: {what}: {error}\n  to undo it: {by_hand}") from error


def retried(action: Callable[[], Result]) -> Result:
    """What `action` returns, which may raise UserError for a while: udev looks into devices that were just written."""
    for _ in range(TRIES - 1):
        try:
            return action()
        except UserError:
            time.sleep(PAUSE)
    return action()
