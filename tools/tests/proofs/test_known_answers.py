"""What must lie on the disk: the sums in regressions.sh, computed from the definitions of the modes."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable

import pytest

from dmcrypt_inline.trees.selftests import SELFTESTS

SECTOR = 512
MASK = 0xFFFFFFFF


def _gf(a: int, b: int) -> int:
    """The product in the field of AES."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _s_box() -> list[int]:
    box = []
    for value in range(256):
        inverse = next((other for other in range(256) if _gf(value, other) == 1), 0)
        turned = [((inverse << n) | (inverse >> (8 - n))) & 0xFF for n in range(5)]
        box.append(turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63)
    return box


S = _s_box()
# The columns of MixColumns for each value of a byte, after SubBytes: one table for each row.
T = [
    [int.from_bytes(bytes(_gf(S[x], factor) for factor in (2, 1, 1, 3)), "big") for x in range(256)],
    [int.from_bytes(bytes(_gf(S[x], factor) for factor in (3, 2, 1, 1)), "big") for x in range(256)],
    [int.from_bytes(bytes(_gf(S[x], factor) for factor in (1, 3, 2, 1)), "big") for x in range(256)],
    [int.from_bytes(bytes(_gf(S[x], factor) for factor in (1, 1, 3, 2)), "big") for x in range(256)],
]


class Aes:
    """AES with a key of 256 bits, as FIPS 197 defines it; it only encrypts."""

    def __init__(self, key: bytes) -> None:
        words = list(struct.unpack(">8I", key))
        power = 1
        while len(words) < 60:
            word = words[-1]
            if len(words) % 8 == 0:
                word = ((word << 8) | (word >> 24)) & MASK
            if len(words) % 4 == 0:
                word = int.from_bytes(bytes(S[byte] for byte in word.to_bytes(4, "big")), "big")
            if len(words) % 8 == 0:
                word ^= power << 24
                power = _gf(power, 2)
            words.append(words[-8] ^ word)
        self.rounds = [words[at : at + 4] for at in range(0, 60, 4)]

    def block(self, data: bytes) -> bytes:
        state = [word ^ key for word, key in zip(struct.unpack(">4I", data), self.rounds[0], strict=True)]
        for keys in self.rounds[1:-1]:
            state = [
                T[0][state[n] >> 24]
                ^ T[1][state[(n + 1) % 4] >> 16 & 0xFF]
                ^ T[2][state[(n + 2) % 4] >> 8 & 0xFF]
                ^ T[3][state[(n + 3) % 4] & 0xFF]
                ^ keys[n]
                for n in range(4)
            ]
        last = bytes(S[state[(n + row) % 4] >> (24 - 8 * row) & 0xFF] for n in range(4) for row in range(4))
        return _xor(last, struct.pack(">4I", *self.rounds[-1]))


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _number(value: int) -> bytes:
    return value.to_bytes(16, "little")


def _cbc(aes: Aes, iv: bytes, data: bytes) -> bytes:
    blocks = []
    for at in range(0, len(data), 16):
        iv = aes.block(_xor(data[at : at + 16], iv))
        blocks.append(iv)
    return b"".join(blocks)


def _xts(key: bytes) -> Callable[[int, bytes], bytes]:
    """IEEE 1619, with the number of the sector as the tweak."""
    aes, tweaks = Aes(key[:32]), Aes(key[32:])

    def sector(number: int, data: bytes) -> bytes:
        tweak = int.from_bytes(tweaks.block(_number(number)), "little")
        blocks = []
        for at in range(0, len(data), 16):
            blocks.append(_xor(aes.block(_xor(data[at : at + 16], _number(tweak))), _number(tweak)))
            tweak <<= 1
            tweak ^= (1 << 128 | 0x87) if tweak >> 128 else 0
        return b"".join(blocks)

    return sector


def _essiv(key: bytes) -> Callable[[int, bytes], bytes]:
    """CBC; the IV is the number of the sector, encrypted with the SHA-256 of the key."""
    aes, ivs = Aes(key), Aes(hashlib.sha256(key).digest())
    return lambda number, data: _cbc(aes, ivs.block(_number(number)), data)


def _eboiv(key: bytes) -> Callable[[int, bytes], bytes]:
    """CBC; the IV is the offset of the sector in bytes, encrypted with the key."""
    aes = Aes(key)
    return lambda number, data: _cbc(aes, aes.block(_number(number * SECTOR)), data)


def _elephant(key: bytes) -> Callable[[int, bytes], bytes]:
    """EBOIV after the diffuser of BitLocker (N. Ferguson, AES-CBC + Elephant diffuser, 2006)."""
    encrypted, sector_keys = _eboiv(key[:32]), Aes(key[32:])

    def sector(number: int, data: bytes) -> bytes:
        offset = _number(number * SECTOR)
        sector_key = sector_keys.block(offset) + sector_keys.block(offset[:15] + b"\x80")
        words = list(struct.unpack("<128I", _xor(data, sector_key * (SECTOR // 32))))
        # The paper tells how to decrypt: this takes it back, step by step.
        for cycles, near, far, turns in ((5, -2, -5, (9, 0, 13, 0)), (3, 2, 5, (0, 10, 0, 25))):
            for _ in range(cycles):
                for at in reversed(range(128)):
                    other, turn = words[(at + far) % 128], turns[at % 4]
                    turned = ((other << turn) | (other >> (32 - turn))) & MASK
                    words[at] = (words[at] - (words[(at + near) % 128] ^ turned)) & MASK
        return encrypted(number, struct.pack("<128I", *words))

    return sector


MODES: dict[str, tuple[int, Callable[[bytes], Callable[[int, bytes], bytes]]]] = {
    "aes-xts-plain64": (64, _xts),
    "aes-cbc-essiv:sha256": (32, _essiv),
    "aes-cbc-eboiv": (32, _eboiv),
    "aes-cbc-elephant": (64, _elephant),
    "$NULL": (0, lambda _: lambda _, data: data),
    "$ASYNC": (0, lambda _: lambda _, data: data),
}


def test_aes_is_that_of_fips_197() -> None:
    assert Aes(bytes(range(32))).block(bytes.fromhex("00112233445566778899aabbccddeeff")) == bytes.fromhex(
        "8ea2b7ca516745bfeafc49904b496089"
    )


def _stored() -> dict[str, str]:
    text = (SELFTESTS / "regressions.sh").read_text()
    block = re.search(r"^declare -A STORED=\((.*?)^\)", text, re.M | re.S)
    assert block
    return dict(re.findall(r"^\s*\[(.*?)\]=(\w*)$", block[1], re.M))


def test_each_mode_has_its_sum() -> None:
    assert _stored().keys() == MODES.keys()


@pytest.mark.parametrize("mode", MODES)
def test_the_sum_is_that_of_the_definition(mode: str) -> None:
    length, encryption = MODES[mode]
    data = b"".join(b"%d\n" % number for number in range(1, 20000))[: 48 << 10] * 4
    encrypt = encryption(bytes(range(1, length + 1)))
    sectors = (encrypt(at // SECTOR, data[at : at + SECTOR]) for at in range(0, len(data), SECTOR))
    assert _stored()[mode] == hashlib.sha256(b"".join(sectors)).hexdigest()
