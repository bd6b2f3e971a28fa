"""Which driver of the kernel's crypto API serves a cipher, and how it completes: from /proc/crypto."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .system import System

# A driver of the kind "simd" hands a request to cryptd only where the FPU's registers are in use by what it
# interrupted (crypto/simd.c): never in the task that submits a write, which is where no_write_workqueue encrypts.
SYNC, SIMD, ASYNC = "synchronous", "synchronous unless the FPU is busy", "asynchronous"
# A cipher in C, a block at a time, in a template or by itself; what hashes beside it does not matter.
PLAIN = re.compile(r"(^|(?<!mac)\()(\w+-generic|aes-lib|aes-fixed-time)\b")


@dataclass(frozen=True)
class Driver:
    """The driver in use for a cipher. `kind`: SYNC, SIMD or ASYNC. `plain`: it uses no instructions made for it."""

    name: str
    kind: str
    priority: int
    plain: bool


@dataclass(frozen=True)
class _Entry:
    name: str
    driver: str
    priority: int
    is_async: bool
    internal: bool


def algorithm(cipher: str) -> str:
    """What dm-crypt asks the crypto API for: "xts(aes)" for aes-xts-plain64, "essiv(cbc(aes),sha256)" for essiv."""
    if cipher.startswith("capi:"):
        return cipher.removeprefix("capi:").rpartition("-")[0]
    words = cipher.split("-")
    if len(words) < 2:
        return f"cbc({words[0]})"
    name, mode = words[0].partition(":")[0], words[1]
    if len(words) > 2 and (essiv := re.fullmatch(r"essiv:(\w+)", words[2])):
        return f"essiv({mode}({name}),{essiv[1]})"
    return f"{mode}({name})"


def iv(cipher: str) -> str:
    """The IV generator's name without its options: plain64, essiv, eboiv, random."""
    return cipher.removeprefix("capi:").rpartition("-")[2].partition(":")[0]


def parse(text: str) -> list[_Entry]:
    """The drivers in /proc/crypto."""
    found = []
    for block in text.split("\n\n"):
        said = {key.strip(): value.strip() for line in block.splitlines() for key, _, value in [line.partition(":")]}
        if "driver" in said:
            priority = int(said.get("priority", "0"))
            flags = said.get("async") == "yes", said.get("internal") == "yes"
            found.append(_Entry(said.get("name", ""), said["driver"], priority, *flags))
    return found


def serving(system: System, cipher: str) -> Driver | None:
    """The driver of the highest priority of that name, None where /proc/crypto has none."""
    entries = parse(system.read("/proc/crypto") or "")
    wanted = algorithm(cipher)
    fitting = [it for it in entries if wanted in (it.name, it.driver)]
    if not fitting:
        return None
    best = max(fitting, key=lambda it: it.priority)
    return Driver(best.driver, _kind(best, entries), best.priority, bool(PLAIN.search(best.driver)))


def _kind(entry: _Entry, entries: Sequence[_Entry]) -> str:
    if not entry.is_async:
        return SYNC
    if "cryptd" not in entry.driver and any(it.internal and it.driver == f"__{entry.driver}" for it in entries):
        return SIMD
    return ASYNC
