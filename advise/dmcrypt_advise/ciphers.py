"""The driver of the kernel's crypto API for a cipher, and how it completes requests, from /proc/crypto."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .system import System

# A driver of the kind "simd" queues a request to cryptd only if the code that it interrupted uses the FPU
# (crypto/simd.c). That never happens in the task that submits a write, where no_write_workqueue encrypts.
SYNC, SIMD, ASYNC = "synchronous", "synchronous unless the FPU is busy", "asynchronous"
# A cipher in C that works block by block, alone or in a template; the hash of a template does not matter.
PLAIN = re.compile(r"(^|(?<!mac)\()(\w+-generic|aes-(lib|fixed-time|asm|arm|arm64))\b")
# Drivers with CRYPTO_ALG_ALLOCATES_MEMORY, which dm-crypt never gets, whatever their priority.
ALLOCATING = re.compile(r"^(qat_|mv-|safexcel-)|^(?!tk-).*-(caam|ccp|qce|talitos|sun8i-\w+)$")


@dataclass(frozen=True)
class CipherDriver:
    """The driver in use for a cipher. `kind`: SYNC, SIMD or ASYNC. `plain`: it uses no special CPU instructions."""

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
    """Name in the crypto API: "xts(aes)" for aes-xts-plain64, "essiv(cbc(aes),sha256)" for aes-cbc-essiv:sha256."""
    if cipher.startswith("capi:"):
        return cipher.removeprefix("capi:").rpartition("-")[0]
    words = cipher.split("-")
    if len(words) < 2:
        return f"cbc({words[0]})"
    name, mode = words[0].partition(":")[0], words[1]
    if len(words) > 2 and (essiv := re.fullmatch(r"essiv:(\w+)", words[2])):
        return f"essiv({mode}({name}),{essiv[1]})"
    return f"{mode}({name})"


def iv_generator(cipher: str) -> str:
    """The IV generator of a cipher without its options: plain64, essiv, eboiv, random."""
    return cipher.removeprefix("capi:").rpartition("-")[2].partition(":")[0]


def _entries(text: str) -> list[_Entry]:
    found = []
    for block in text.split("\n\n"):
        fields = {key.strip(): value.strip() for line in block.splitlines() for key, _, value in [line.partition(":")]}
        if "driver" in fields:
            priority = int(fields.get("priority", "0"))
            flags = fields.get("async") == "yes", fields.get("internal") == "yes"
            found.append(_Entry(fields.get("name", ""), fields["driver"], priority, *flags))
    return found


def cipher_driver(system: System, cipher: str) -> CipherDriver | None:
    """The driver with the highest priority for a cipher, None if /proc/crypto has none."""
    entries = _entries(system.read("/proc/crypto") or "")
    wanted = algorithm(cipher)
    fitting = [it for it in entries if wanted in (it.name, it.driver) and not ALLOCATING.search(it.driver)]
    if not fitting:
        return None
    best = max(fitting, key=lambda it: it.priority)
    return CipherDriver(best.driver, _kind(best, entries), best.priority, bool(PLAIN.search(best.driver)))


def _kind(entry: _Entry, entries: Sequence[_Entry]) -> str:
    if not entry.is_async:
        return SYNC
    if "cryptd" not in entry.driver and any(it.internal and it.driver == f"__{entry.driver}" for it in entries):
        return SIMD
    return ASYNC
