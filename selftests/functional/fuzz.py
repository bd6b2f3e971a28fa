#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""fuzz.py MAPPING TABLE SEED: random tables and messages for a mapping, whose data must stay.

A table that the kernel loads must have a status that the kernel loads, too, and that stays as it is. No random table is
resumed. The same seed makes the same tables.
"""

import mmap
import os
import random
import sys

from device_mapper import Mapping

LENGTH = 4096
ROUNDS = 20  # of a hundred tables: their messages fit into the kernel's log
CIPHERS = (
    *("aes-xts-plain64", "aes-xts-plain", "aes-cbc-essiv:sha256", "aes-cbc-eboiv", "aes-cbc-elephant", "aes-lrw-benbi"),
    *("aes:64-cbc-lmk", "aes:3-cbc-lmk", "aes-cbc-tcw", "aes-cbc-null", "aes-ecb", "cipher_null-ecb", "aes"),
    *("capi:xts(aes)-plain64", "capi:gcm(aes)-random", "capi:authenc(hmac(sha256),cbc(aes))-random", "capi:"),
    *("capi:cryptd(xts(aes))-plain64", "serpent-xts-plain64be", "twofish-cbc-essiv:md5", "aes-xts-none", "none-none"),
    *("des3_ede", "capi:ecb", "des:2-cbc-lmk", "capi:gcm(aes)-lmk", "capi:authenc(hmac(sha256),cbc(aes))-tcw"),
)
ARGUMENTS = (
    *("allow_discards", "same_cpu_crypt", "submit_from_crypt_cpus", "no_read_workqueue", "no_write_workqueue"),
    *("iv_large_sectors", "high_priority", "sector_size:512", "sector_size:4096", "sector_size:1000", "sector_size:"),
    *("integrity:28:aead", "integrity:16:none", "integrity:0:aead", "integrity:99999:none", "integrity:1", "nothing"),
    *("integrity_key_size:32", "integrity_key_size:0", "sector_size:18446744073709551616", "\udcff", "%s%n"),
)
NUMBERS = ("0", "1", "7", "8", "-1", "4294967295", "18446744073709551615", "18446744073709551616", "0x10", "", "a")
KEY_BYTES = (0, 1, 15, 16, 24, 25, 32, 48, 63, 64, 80, 96, 128, 192, 256)


def key():
    digits = "".join(random.choice("0123456789abcdef") for _ in range(2 * random.choice(KEY_BYTES)))
    return random.choice((digits, digits, digits, "-", digits[:-1], digits + "g", ":32:logon:none", ":64:user:x", ":"))


def table(device, sectors):
    arguments = random.choices(ARGUMENTS, k=random.choice((0, 0, 1, 2, 2, 3, 8, 40)))
    counted = random.choice((str(len(arguments)),) * 8 + NUMBERS)
    offset = random.choice(("0",) * 8 + NUMBERS)
    start = random.choice(("0",) * 8 + NUMBERS)
    words = [random.choice(CIPHERS), key(), offset, random.choice((device,) * 9 + ("/dev/none",)), start]
    words += [counted, *arguments] if arguments else []
    return f"0 {sectors} crypt {changed(' '.join(words)) if random.random() < 0.2 else ' '.join(words)}"


def changed(text):
    """The text with a few bytes lost, doubled or replaced."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        new = random.choice(("", text[at : at + 1] * 2, random.choice(" \t-:()0\udcfe"), text[: random.randrange(99)]))
        text = text[:at] + new + text[at + 1 :]
    return text


def taken(call, *arguments):
    """Return True if the call succeeds."""
    try:
        call(*arguments)
    except OSError:
        return False
    return True


def check_status(mapping, line):
    """The table that was loaded must have a status that can be loaded, and that stays as it is."""
    status = mapping.loaded()
    mapping.clear()
    if not taken(mapping.load, status) or mapping.loaded() != status:
        sys.exit(f"the kernel loads this table, but not its status:\n{line}\n{status}")


def main(name, own, seed):
    random.seed(int(seed))
    mapping, words = Mapping(name), own.split()
    disk = os.open(f"/dev/mapper/{name}", os.O_RDWR | os.O_DIRECT)
    data, memory = os.urandom(LENGTH), mmap.mmap(-1, LENGTH)
    memory[:] = data
    os.pwrite(disk, memory, 0)
    counts = {True: 0, False: 0}
    for _ in range(ROUNDS):
        for _ in range(100):
            line = table(words[6], words[1])
            found = taken(mapping.load, line)
            counts[found] += 1
            if found:
                check_status(mapping, line)
            taken(mapping.clear)
        mapping.suspend()
        for _ in range(20):
            text = random.choice((f"key set {key()}", "key wipe", changed("key wipe"), changed("key set 00"), "key"))
            counts[taken(mapping.message, text)] += 1
        mapping.message("key wipe")
        mapping.message(f"key set {words[4]}")
        mapping.resume()
        counts[taken(mapping.message, random.choice(("key wipe", "key set 00", "status", "")))] += 1
        memory[:] = bytes(LENGTH)
        if os.preadv(disk, [memory], 0) != LENGTH or memory[:] != data:
            sys.exit("a read fails or has other data")
    print(f"seed {seed}: the kernel took {counts[True]} tables and messages, and refused {counts[False]}")


main(*sys.argv[1:])
