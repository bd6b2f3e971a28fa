#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""mutate_flags.py IMAGE MAPPING PATCHED RELEASED SEED <SECRET: two cryptsetups read random flags in a LUKS2 header.

Both must end with the same status, show the same flags and load the same table. The same seed makes the same headers.
"""

import hashlib
import json
import os
import random
import re
import subprocess
import sys

# The header has two copies: a binary header with big-endian numbers and a checksum of the copy, then the JSON area.
BINARY, SIZE, CHECKSUM = 4096, slice(8, 16), slice(448, 512)
WORKQUEUES = ("no-read-workqueue", "no-write-workqueue")
KNOWN = (*WORKQUEUES, "allow-discards", "same-cpu-crypt", "submit-from-crypt-cpus", "no-journal", "high-priority")
UNKNOWN = ("", "later", "%s%n", "\u00e4\U0001f600", "y" * 4096)
FILL = "xxxx"  # replaced so that the JSON text has the length of its area, one byte more, or up to two bytes less
SECRET = sys.stdin.buffer.read()


def misspelled(text):
    """The text in several spellings, all of them wrong."""
    at = random.randrange(len(text))
    cut = (text[:at], text[at + 1 :], text[:at] + text[at + 1 :])
    return [*cut, text.upper(), text.replace("-", "_"), f"no-{text}", text * 2, f" {text}", f"{text}\n", f"\0{text}"]


def words():
    def word():
        known = random.choice(KNOWN)
        wrong, unknown = random.choice(misspelled(known)), random.choice(UNKNOWN)
        return random.choice((known, known, known, f"{known}\0s", wrong, unknown))

    return [word() for _ in range(random.randrange(6))]


def other():
    return random.choice((None, True, 0, -1, 2**64, 1.5, float("nan"), KNOWN[0], [], words(), {}, {KNOWN[0]: words()}))


def nested():
    value = random.choice(KNOWN)
    for _ in range(random.choice((1, 2, 27, 28, 29, 30, 31, 32, 99))):  # json-c takes 32 levels
        value = random.choice(([value], {"flags": value}))
    return value


MEMBERS = (  # of "config", with their values
    lambda: [("flags", misspelled(random.choice(KNOWN[:5])))],
    lambda: [("flags", [*words(), random.choice(UNKNOWN), *WORKQUEUES, *words()])],
    lambda: [("flags", random.sample(KNOWN, len(KNOWN)))],
    lambda: [("flags", random.choices(KNOWN, k=random.choice((9, 500))))],
    lambda: [("flags", [*words(), other(), *words()])],
    lambda: [("flags", other())],
    lambda: [("flags", nested())],
    lambda: [("flags", [WORKQUEUES[0], FILL, WORKQUEUES[1]])],
    lambda: [("flags", words()), ("flags", random.choice((words(), other())))],
    lambda: [(random.choice(("flag", "Flags", "\0flags", "flags\0")), words())],
    list,
)


def member(name, value):
    text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    return json.dumps(name) + ":" + random.choice((*[text] * 9, text.replace("-", "\\u002d")))


def header(copies, members):
    """The copies with these members in "config" of their JSON text, and with right checksums."""
    data, room = json.loads(copies[0][BINARY:].rstrip(b"\0")), len(copies[0]) - BINARY
    config = [member(*item) for item in [*data.pop("config").items(), *members]]
    random.shuffle(config)
    text = f'{json.dumps(data)[:-1]},"config":{{{",".join(config)}}}}}'
    text = text.replace(FILL, "x" * (room - len(text.encode()) + len(FILL) - random.randint(-1, 2)))
    for copy in copies:
        new = bytearray(copy[:BINARY] + text.encode()[:room].ljust(room, b"\0"))
        new[CHECKSUM] = bytes(64)
        new[CHECKSUM] = hashlib.sha256(new).digest().ljust(64, b"\0")
        yield bytes(new)


def run(*command):
    done = subprocess.run(command, input=SECRET, capture_output=True, check=False)
    return done if done.returncode >= 0 else sys.exit(f"signal {-done.returncode} ends {command}")


def arguments(mapping):
    """The optional arguments, except for high_priority: of the flags above only this one is new in cryptsetup 2.8."""
    found = run("dmsetup", "table", mapping).stdout.decode().split()[9:]
    return [argument for argument in found if argument != "high_priority"]


def verdict(image, mapping, program):
    """The exit status of each command, the flags that it shows, and the arguments of its table."""
    dump = run(program, "luksDump", image)
    flags = re.search(rb"^Flags:.*^Data segments:", dump.stdout, re.DOTALL | re.MULTILINE)
    found = ["luksDump", dump.returncode, flags and flags[0]]
    found += ["test", run(program, "open", "--test-passphrase", image).returncode]
    found += ["open", run(program, "open", image, mapping).returncode]
    if found[-1] == 0:
        found += [arguments(mapping), "refresh", run(program, "refresh", mapping).returncode, arguments(mapping)]
        found += ["close", run(program, "close", mapping).returncode]
    return found


def main(image, mapping, patched, released, seed):
    random.seed(int(seed))
    disk = os.open(image, os.O_RDWR)
    size = int.from_bytes(os.pread(disk, BINARY, 0)[SIZE], "big")
    copies, opened = (os.pread(disk, size, 0), os.pread(disk, size, size)), 0
    for members in MEMBERS:
        new, found = b"".join(header(copies, members())), []
        for program in (released, patched):
            os.pwrite(disk, new, 0)
            found.append([*verdict(image, mapping, program), os.pread(disk, 2 * size, 0) == new])
        if found[0] != found[1]:
            config = new[BINARY:size].partition(b'"config":')[2].strip(b"\0")
            sys.exit("\n".join(["released and patched differ:", *map(str, found), str(config)]))
        opened += "close" in found[0]
    os.pwrite(disk, b"".join(copies), 0)
    print(f"seed {seed}: {len(MEMBERS)} headers, {opened} of them open")


main(*sys.argv[1:])
