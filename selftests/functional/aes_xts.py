#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Encrypt as dm-crypt does, with OpenSSL, and read and write with memory that is not aligned to pages.

aes_xts.py encrypt KEY IV SECTOR LARGE FIRST    stdin to stdout: IV is plain or plain64, SECTOR the size of one in
                                                bytes, LARGE 1 for iv_large_sectors, FIRST the iv_offset
aes_xts.py write DEVICE SECTOR BYTES            stdin to DEVICE, in requests of BYTES; the memory of each begins
                                                SECTOR bytes after the start of a page
aes_xts.py read DEVICE SECTOR BYTES SIZE        the first SIZE bytes of DEVICE to stdout, in the same way
"""

import ctypes
import mmap
import os
import sys


def encrypt(key, iv, sector, large, first):
    crypto = ctypes.CDLL("libcrypto.so.3")
    for name in ("EVP_CIPHER_CTX_new", "EVP_aes_128_xts", "EVP_aes_256_xts"):
        getattr(crypto, name).restype = ctypes.c_void_p
    raw = bytes.fromhex(key)
    cipher = ctypes.c_void_p({32: crypto.EVP_aes_128_xts, 64: crypto.EVP_aes_256_xts}[len(raw)]())
    context = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
    sector, step, first = int(sector), int(sector) // 512, int(first)
    plain = sys.stdin.buffer.read()
    stored, length = ctypes.create_string_buffer(sector), ctypes.c_int()
    for number in range(len(plain) // sector):
        tweak = (first + number * step) % (1 << 64)
        if large == "1":
            tweak //= step
        if iv == "plain":
            tweak %= 1 << 32
        data = plain[number * sector : (number + 1) * sector]
        started = crypto.EVP_EncryptInit_ex(context, cipher, None, raw, tweak.to_bytes(16, "little"))
        if not (started and crypto.EVP_EncryptUpdate(context, stored, ctypes.byref(length), data, sector)):
            sys.exit("OpenSSL failed")
        sys.stdout.buffer.write(stored.raw)


def write(device, sector, size):
    disk = os.open(device, os.O_WRONLY | os.O_DIRECT)
    plain = sys.stdin.buffer.read()
    for at in range(0, len(plain), int(size)):
        data = plain[at : at + int(size)]
        memory = memory_for(len(data), int(sector))
        memory[:] = data
        if os.pwrite(disk, memory, at) != len(data):
            sys.exit("a short write")


def read(device, sector, size, total):
    disk = os.open(device, os.O_RDONLY | os.O_DIRECT)
    for at in range(0, int(total), int(size)):
        memory = memory_for(min(int(size), int(total) - at), int(sector))
        if os.preadv(disk, [memory], at) != len(memory):
            sys.exit("a short read")
        sys.stdout.buffer.write(memory)


def memory_for(size, offset):
    return memoryview(mmap.mmap(-1, size + offset))[offset:]


{"encrypt": encrypt, "write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
