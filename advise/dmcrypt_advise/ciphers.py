"""The driver of the kernel's crypto API for a cipher, and how it completes requests, from /proc/crypto."""

import re
from dataclasses import dataclass

from .defects import Version
from .system import System

# A driver of the kind "simd" queues a request to cryptd only if the code that it interrupted uses the FPU
# (crypto/simd.c). That never happens in the task that submits a write, where no_write_workqueue encrypts.
SYNC, SIMD, ASYNC = "synchronous", "synchronous unless the FPU is busy", "asynchronous"
UNSURE = "asynchronous, and not known to be used"
# A cipher in C or in scalar assembly, alone or in a template; the hash of a template does not matter.
SLOW = re.compile(
    r"(^|(?<!mac)\()((ecb-|cbc-)?\w+-(generic|asm|3way)|aes-(lib|fixed-time|arm|arm64))\b|\b(?!\w*mac-)\w+-aes-lib\b"
)
# dm-crypt never gets a driver with CRYPTO_ALG_ALLOCATES_MEMORY (since 5.9), whatever its priority, and /proc/crypto
# does not show this flag. From the sources of Linux 5.10.262, 6.1.192, 6.12.118 and 7.3.4; a template inherits it.
ALLOCATING = re.compile(
    r"(^|[(,])(qat_|mv-|safexcel-|artpec6?-|cavium-|n5_|hisi_sec_(aes|3?des)_|virtio_crypto_)"
    r"|-(caam(-qi2?)?|ccp|qce|talitos|sun8i-ss|gxl|chcr|iproc|ixp4xx|n2|picoxcell)($|[,)])|^authenc\(hmac\(\w+-eip93"
)
# These drivers have the flag in one version and not in another, or share their name with one that has not.
PERHAPS_ALLOCATING = re.compile(r"(^|[(,])(hisi_sec_|cpt_)|-sun8i-ce($|[,)])")
# Drivers that sleep in the caller, and the first of these versions in which they do not; () if there is none.
SLEEPING: dict[str, Version] = {"-sun4i-ss": (6, 1), "-paes-s390": (7, 3), "-ux500": (), "-iproc": ()}


@dataclass(frozen=True)
class CipherDriver:
    """The driver in use for a cipher. `kind`: SYNC, SIMD, ASYNC or UNSURE. `slow`: it uses no special instructions."""

    name: str
    kind: str
    slow: bool

    def sleeps(self, kernel: Version) -> bool:
        """True if the driver may sleep in the task or softirq that calls it, in a kernel of this version."""
        return any(self.name.endswith(end) and (not never or kernel < never) for end, never in SLEEPING.items())


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
    """The driver that dm-crypt gets: of those that it may use the one with the highest priority.

    None if /proc/crypto has none for the cipher.
    """
    blocks = (system.read("/proc/crypto") or "").split("\n\n")
    entries = [dict(re.findall(r"^(\w+)[ \t]*:[ \t]*(.*)$", block, re.MULTILINE)) for block in blocks]
    entries = [entry for entry in entries if "driver" in entry]
    wanted = algorithm(cipher)
    fitting = [entry for entry in entries if wanted in (entry.get("name"), entry["driver"])]
    usable = [entry for entry in fitting if not ALLOCATING.search(entry["driver"])]
    if not fitting:
        return None
    # The mapping is open: if all drivers seem to have the flag, one is in use nevertheless, in a changed kernel.
    best = max(usable or fitting, key=lambda it: int(it.get("priority", 0)))
    name, kind = best["driver"], SYNC
    if best.get("async") == "yes":
        inner = [it for it in entries if it["driver"] == f"__{name}" and it.get("internal") == "yes"]
        perhaps = len(usable) > 1 and PERHAPS_ALLOCATING.search(name)
        kind = UNSURE if perhaps else SIMD if inner and "cryptd" not in name else ASYNC
    return CipherDriver(name, kind, bool(SLOW.search(name)))
