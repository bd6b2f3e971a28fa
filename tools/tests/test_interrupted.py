"""What a measurement does when it is interrupted or something cannot be taken down."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from dmcrypt_inline import measure

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in BOTH}
    for number in BOTH:
        signal.signal(number, lambda *_: None)  # against a test that fails
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("first", BOTH)
def test_only_the_first_signal_interrupts(first: signal.Signals) -> None:
    measure.interruptible()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(first)
    for number in BOTH:
        signal.raise_signal(number)
        killed = subprocess.run(["sh", "-c", f"kill -{number.value} $$; sleep 5"], check=False)
        assert killed.returncode == -number  # a program run while cleaning up can still be ended
