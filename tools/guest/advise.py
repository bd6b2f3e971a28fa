#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""dmcrypt-advise on real mappings: the advice, --apply, --undo. Writes RESULTS/advise.ktap, and each screen next to it.

Most cases are rows of advice_cases(): a volume, the fields of the advice, and the flags that --apply sets. Without such
flags --apply must refuse.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from dmcrypt_advise.command import main as advise_main

RESULTS = Path(sys.argv[1])
NULLB = Path("/sys/kernel/config/nullb")
CRYPTTAB = Path("/etc/crypttab")
PASSPHRASE = Path("/dev/shm/passphrase")
MIB = 2048  # in sectors
READ, WRITE = "no_read_workqueue", "no_write_workqueue"
FIX_FIRST = "get a kernel fix first"
RELEASE = tuple(int(number) for number in os.uname().release.split(".")[:2])
LUKS2 = ("--type", "luks2")
CHANGE = ("--yes", "--key-file", str(PASSPHRASE))
FAST = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
AUDIT = Path("/proc/self/loginuid").exists()


def checked_output(*argv: str) -> str:
    """The output of a program, which must succeed."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def same(what: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise AssertionError(f"{what}: wanted {wanted}, found {found}")


@contextmanager
def disk(mib: int = 32) -> Iterator[str]:
    """A null_blk device in memory."""
    place = NULLB / "d"
    place.mkdir()
    wanted = {"memory_backed": 1, "size": mib, "blocksize": 512, "submit_queues": 1, "power": 1}
    try:
        for attribute, value in wanted.items():
            (place / attribute).write_text(str(value))
        device = Path("/dev/d")
        device = device if device.exists() else Path(f"/dev/nullb{(place / 'index').read_text().strip()}")
        Path("/sys/block", device.name, "queue/rotational").write_text("0")
        yield str(device)
    finally:
        (place / "power").write_text("0")
        place.rmdir()


@contextmanager
def open_volume(device: str, *options: str) -> Iterator[str]:
    """The volume on a device, open as "volume"."""
    checked_output("cryptsetup", "open", "-q", "--key-file", str(PASSPHRASE), *options, device, "volume")
    try:
        yield device
    finally:
        checked_output("cryptsetup", "close", "volume")


@contextmanager
def luks(*options: str, mib: int = 32, crypttab: str = "", open_with: Sequence[str] = ()) -> Iterator[str]:
    """A LUKS volume, open; `crypttab`: its options there."""
    with disk(mib=mib) as device:
        luks_format(device, *options)
        line = f"volume {device} none luks,{crypttab}\n" if crypttab else ""
        CRYPTTAB.write_text(line)
        with open_volume(device, *open_with):
            yield device
        same("crypttab", line, CRYPTTAB.read_text())
        CRYPTTAB.unlink()


def luks_format(device: str, *options: str) -> None:
    checked_output("cryptsetup", "luksFormat", "-q", *FAST, "--key-file", str(PASSPHRASE), *options, device)


@contextmanager
def table(cipher: str) -> Iterator[str]:
    """A mapping without cryptsetup."""
    with disk() as device:
        mapping = f"0 {32 * MIB} crypt {cipher} {'0' * 128} 0 {device} 0"
        checked_output("dmsetup", "create", "volume", "--table", mapping)
        try:
            yield device
        finally:
            checked_output("dmsetup", "remove", "--retry", "volume")


@cache
def xts_driver() -> dict[str, str]:
    """The entry of /proc/crypto for the driver that dm-crypt gets for xts(aes), before a test changes it."""
    with table("aes-xts-plain64"):
        blocks = Path("/proc/crypto").read_text().split("\n\n")
    entries = [dict(re.findall(r"^(\w+) *: (.*)$", block, re.MULTILINE)) for block in blocks]
    return max((each for each in entries if each.get("name") == "xts(aes)"), key=lambda each: int(each["priority"]))


def helpful_flags() -> list[str]:
    """The flags to advise for aes-xts-plain64: with a cipher in C, decryption in a softirq would block the CPU."""
    return [WRITE] if re.search(r"-(generic|lib)\b", xts_driver()["driver"]) else [READ, WRITE]


def cryptd_table() -> AbstractContextManager[str]:
    """A mapping whose cipher completes asynchronously. From here on xts(aes) is cryptd's, which has priority."""
    driver = "xts-aes-lib" if "xts-aes-lib" in Path("/proc/crypto").read_text() else "xts(ecb(aes-generic))"
    return table(f"capi:cryptd({driver})-plain64")


def advise(*arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error. In this process: starting another takes seconds here."""
    with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        status = advise_main(arguments)
    return status, output.getvalue(), errors.getvalue()


def expect(case: str, screen: str = "", **wanted: object) -> dict[str, Any]:
    """Compare fields of the advice for "volume" with `wanted`; the screen must contain `screen`."""
    text = advise()[1]
    (RESULTS / f"{case}.txt").write_text(text)
    found = next(each for each in json.loads(advise("--json")[1])["mappings"] if each["name"] == "volume")
    same("advice", wanted, {key: found[key] for key in wanted})
    same(f"'{screen}' on the screen", True, screen in text)
    return dict(found)


def active() -> list[str]:
    return checked_output("dmsetup", "table", "volume").split()[9:]


def stored(device: str) -> set[str]:
    """The flags in the LUKS2 header, spelled as in the table."""
    dump = checked_output("cryptsetup", "luksDump", "--dump-json-metadata", device)
    return {flag.replace("-", "_") for flag in json.loads(dump)["config"].get("flags", [])}


@dataclass(frozen=True)
class AdviceCase:
    """A volume, the expected fields of its advice, a text of the screen, and the flags that --apply sets."""

    name: str
    volume: Callable[[], AbstractContextManager[str]]
    fields: dict[str, object]
    screen: str = ""
    applies: Sequence[str] = ()

    def test(self) -> None:
        """Compare the advice; apply it and undo it, or see that --apply refuses and changes nothing."""
        with self.volume() as device:
            fields, before = expect(self.name, self.screen, **self.fields), set(active())
            status, _, errors = advise(*CHANGE, "--apply", "volume")
            same("status of --apply", (0, False) if self.applies else (2, True), (status, bool(errors)))
            same("active", before.union(self.applies), set(active()))
            if not self.applies:
                return
            if fields["type"] == "LUKS2":
                same("stored", set(self.applies), stored(device))
                expect(f"{self.name}.applied", advice="nothing to do")
            same("--undo", (0, ""), advise(*CHANGE, "--undo", "volume")[::2])
            same("active after --undo", before - {READ, WRITE}, set(active()))
            if fields["type"] == "LUKS2":
                same("stored after --undo", set(), stored(device))


def advice_cases() -> list[AdviceCase]:
    """The cases for this kernel. The last ones change which driver serves xts(aes)."""
    flags = helpful_flags()
    authenticated = [WRITE] if AUDIT and RELEASE >= (5, 16) else flags  # a read with a wrong tag writes a record
    asynchronous = xts_driver()["async"] == "yes"  # authenc() is what the ciphers in it are
    return [
        AdviceCase(
            "luks2_stores_the_flags_and_keeps_discards",
            lambda: luks(*LUKS2, open_with=["--allow-discards"]),
            {"advice": "set", "flags": flags, "in_force": ["allow_discards"], "header": [], "status": 1},
            "may be lost at the next boot",
            flags,
        ),
        AdviceCase(
            "luks1_gets_its_line_for_crypttab",
            lambda: luks("--type", "luks1", crypttab="discard", open_with=["--allow-discards"]),
            {"type": "LUKS1", "advice": "set", "flags": flags, "crypttab": ["allow_discards"], "conflicts": []},
            f"luks,discard,{','.join(flags).replace('_', '-')}",
            flags,
        ),
        AdviceCase(
            "an_authenticated_volume_gets_only_flags_that_are_safe",
            lambda: luks(*LUKS2, "--integrity", "hmac-sha256", mib=64),
            {"advice": FIX_FIRST, "flags": []} if asynchronous else {"advice": "set", "flags": authenticated},
            applies=[] if asynchronous else authenticated,
        ),
        AdviceCase("an_asynchronous_cipher_needs_a_fix", cryptd_table, {"advice": FIX_FIRST, "flags": []}),
    ]


WITHOUT_FLAGS = AdviceCase(
    "a_kernel_without_the_flags_stays_as_it_is", lambda: luks(*LUKS2), {"advice": "leave", "status": 0}
)


def small_sectors_on_a_disk_with_large_ones_are_changed() -> None:
    """The printed command changes the sector size of an open volume."""
    name = small_sectors_on_a_disk_with_large_ones_are_changed.__name__
    checked_output("modprobe", "scsi_debug", "dev_size_mb=32", "physblk_exp=3")
    try:
        [place] = Path("/sys/bus/pseudo/drivers/scsi_debug").glob("adapter0/host*/target*/*/block/*")
        device = f"/dev/{place.name}"
        luks_format(device, *LUKS2, "--sector-size", "512")
        with open_volume(device):
            fields = expect(name, advice="set", flags=helpful_flags())
            [command] = re.findall(r"cryptsetup .*--active-name volume", " ".join(fields["sectors"]))
            checked_output(*command.split(), "-q", "--key-file", str(PASSPHRASE), *FAST)
            expect(name, sectors=[])
    finally:
        checked_output("modprobe", "-r", "scsi_debug")


def measuring_removes_what_it_created() -> None:
    """advise/tests interrupt it at each step."""
    with luks(*LUKS2):
        before = checked_output("dmsetup", "table")
        status, output, errors = advise("--measure", "volume", "--seconds", "10")
        (RESULTS / "measured.txt").write_text(output)
        [written] = Path().glob("dmcrypt-advise-*.json")
        shutil.move(written, RESULTS / "measured.json")
        same("status and errors", (0, ""), (status, errors))
        same("loads", 12, len(re.findall(r"^\d+[kM] (random|sequential), [18] ", output, re.MULTILINE)))
        same("verdict", 1, " ".join(output.split()).count("Writes were not measured."))
        same("mappings", before, checked_output("dmsetup", "table"))


def all_tests() -> dict[str, Callable[[], None]]:
    [version] = re.findall(r"^crypt +v1\.(\d+)", checked_output("dmsetup", "targets"), re.MULTILINE)
    if int(version) < 22:
        return {WITHOUT_FLAGS.name: WITHOUT_FLAGS.test}
    functions = (small_sectors_on_a_disk_with_large_ones_are_changed, measuring_removes_what_it_created)
    return {test.__name__: test for test in functions} | {case.name: case.test for case in advice_cases()}


def main() -> int:
    PASSPHRASE.write_text("fake-passphrase")
    tests = all_tests()
    lines = ["KTAP version 1", f"1..{len(tests)}"]
    for number, (name, test) in enumerate(tests.items(), 1):
        try:
            test()
            lines.append(f"ok {number} {name}")
        except Exception:
            lines += [f"# {line}" for line in traceback.format_exc().splitlines()[-8:]]
            lines.append(f"not ok {number} {name}")
        print("\n".join(lines[-9:] if lines[-1].startswith("not") else lines[-1:]), flush=True)
    (RESULTS / "advise.ktap").write_text("\n".join(lines) + "\n")
    return int(any(line.startswith("not ok") for line in lines))


sys.exit(main())
