"""The data on the disk: the sums in regressions.sh, computed from the definitions of the modes."""

import hashlib
import re
import struct
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dmcrypt_inline.trees.selftests import SELFTESTS

SECTOR = 512
MASK = 0xFFFFFFFF


def _run(key: bytes, mode: modes.ECB | modes.CBC | modes.XTS, data: bytes) -> bytes:
    encryption = Cipher(algorithms.AES(key), mode).encryptor()
    return encryption.update(data) + encryption.finalize()


def _block(key: bytes, data: bytes) -> bytes:
    return _run(key, modes.ECB(), data)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _number(value: int) -> bytes:
    return value.to_bytes(16, "little")


def _xts(key: bytes) -> Callable[[int, bytes], bytes]:
    """IEEE 1619, with the number of the sector as the tweak."""
    return lambda number, data: _run(key, modes.XTS(_number(number)), data)


def _essiv(key: bytes) -> Callable[[int, bytes], bytes]:
    """CBC; the IV is the number of the sector, encrypted with the SHA-256 of the key."""
    ivs = hashlib.sha256(key).digest()
    return lambda number, data: _run(key, modes.CBC(_block(ivs, _number(number))), data)


def _eboiv(key: bytes) -> Callable[[int, bytes], bytes]:
    """CBC; the IV is the offset of the sector in bytes, encrypted with the key."""
    return lambda number, data: _run(key, modes.CBC(_block(key, _number(number * SECTOR))), data)


def _elephant(key: bytes) -> Callable[[int, bytes], bytes]:
    """EBOIV after the diffuser of BitLocker (N. Ferguson, AES-CBC + Elephant diffuser, 2006)."""
    encrypted, sector_keys = _eboiv(key[:32]), key[32:]

    def sector(number: int, data: bytes) -> bytes:
        offset = _number(number * SECTOR)
        sector_key = _block(sector_keys, offset + offset[:15] + b"\x80")
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
    "null": (0, lambda _: lambda _, data: data),
    "async-null": (0, lambda _: lambda _, data: data),
}


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
