"""The driver of the kernel's crypto API for a cipher, and how it completes requests, from /proc/crypto."""

from __future__ import annotations

import re
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
    plain: bool


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


def cipher_driver(system: System, cipher: str) -> CipherDriver | None:
    """The driver with the highest priority for a cipher, None if /proc/crypto has none."""
    blocks = (system.read("/proc/crypto") or "").split("\n\n")
    entries = [dict(re.findall(r"^(\w+)[ \t]*:[ \t]*(.*)$", block, re.MULTILINE)) for block in blocks]
    entries = [entry for entry in entries if "driver" in entry]
    wanted = algorithm(cipher)
    fitting = [it for it in entries if wanted in (it.get("name"), it["driver"]) and not ALLOCATING.search(it["driver"])]
    if not fitting:
        return None
    best = max(fitting, key=lambda it: int(it.get("priority", 0)))
    name, kind = best["driver"], SYNC
    if best.get("async") == "yes":
        inner = [it for it in entries if it["driver"] == f"__{name}" and it.get("internal") == "yes"]
        kind = SIMD if inner and "cryptd" not in name else ASYNC
    return CipherDriver(name, kind, bool(PLAIN.search(name)))
