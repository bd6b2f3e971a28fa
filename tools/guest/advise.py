#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""advise on real mappings: the advice, --apply, --undo. Writes KTAP to RESULTS/advise.ktap, each screen beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from dmcrypt_advise.command import main as program

RESULTS = Path(sys.argv[1])
NULLB = Path("/sys/kernel/config/nullb")
NVMET = Path("/sys/kernel/config/nvmet")
CRYPTTAB = Path("/etc/crypttab")
KEY = Path("/dev/shm/key")
PASSPHRASE = Path("/dev/shm/passphrase")
PASSPHRASE_OF_IMAGES = Path("/dev/shm/passphrase-of-images")
IMAGES, PACKED = Path(os.environ["INPUT"], "images.tar"), "tests/bitlk-images.tar.xz"
MIB = 2048  # in sectors
READ, WRITE = "no_read_workqueue", "no_write_workqueue"
# What is advised where both flags help: before 6.9 a read that a hard interrupt completes can use memory that was
# freed.
RELEASE = tuple(int(number) for number in os.uname().release.split(".")[:2])
SAFE = [READ, WRITE] if RELEASE >= (6, 9) else [WRITE]
OPTIONS = ",".join(SAFE).replace("_", "-")  # as a header and crypttab spell them
FAST = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
claims: list[Callable[[], None]] = []


def claim(test: Callable[[], None]) -> Callable[[], None]:
    """Add a test to the plan."""
    claims.append(test)
    return test


def of_later_kernels(test: Callable[[], None]) -> Callable[[], None]:
    """The same, but where the kernel is 5.8's, which has neither RAID, nor NVMe nor zoned disks."""
    return claim(test) if RELEASE >= (6, 0) else test


def run(*argv: str, check: bool = True) -> str:
    """What a program printed."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def same(what: str, wanted: object, found: object) -> None:
    """Fail with both, unless they are the same."""
    if wanted != found:
        raise AssertionError(f"{what}: wanted {wanted}, found {found}")


@contextmanager
def disk(name: str, mib: int = 32, **attributes: int) -> Iterator[str]:
    """A RAM-backed null_blk device."""
    place = NULLB / name
    place.mkdir()
    wanted = {"memory_backed": 1, "size": mib, "blocksize": 512, "submit_queues": 1, **attributes, "power": 1}
    try:
        for attribute, value in wanted.items():
            (place / attribute).write_text(str(value))
        device = Path("/dev", name)
        yield str(device if device.exists() else f"/dev/nullb{(place / 'index').read_text().strip()}")
    finally:
        (place / "power").write_text("0")
        place.rmdir()


@contextmanager
def nvme(device: str) -> Iterator[str]:
    """An NVMe controller with this device for a namespace, both ends in this kernel."""
    name = f"nqn.2026-11.example:{Path(device).name}"
    target, link = NVMET / "subsystems" / name, NVMET / "ports" / "1" / "subsystems" / name
    namespace = target / "namespaces" / "1"
    namespace.mkdir(parents=True)
    if not (port := NVMET / "ports" / "1").exists():
        port.mkdir()
        (port / "addr_trtype").write_text("loop")
    for attribute, value in ((target / "attr_allow_any_host", "1"), (namespace / "device_path", device)):
        attribute.write_text(value)
    (namespace / "enable").write_text("1")
    link.symlink_to(target)
    with Path("/dev/nvme-fabrics").open("r+b", buffering=0) as fabrics:
        fabrics.write(f"transport=loop,nqn={name}".encode())
        [number] = re.findall(rb"instance=(\d+)", fabrics.read(100))
    controller = f"nvme{int(number)}"
    try:
        yield waited_for(Path("/dev", f"{controller}n1"))
    finally:
        Path("/sys/class/nvme", controller, "delete_controller").write_text("1")
        link.unlink()
        namespace.rmdir()
        target.rmdir()


def waited_for(place: Path) -> str:
    """A device that the kernel is about to make."""
    for _ in range(100):
        if place.exists():
            break
        time.sleep(0.1)
    return str(place)


@contextmanager
def raid1(devices: Sequence[str]) -> Iterator[str]:
    """A RAID 1 of them, as mdadm --build --assume-clean makes it."""
    Path("/sys/module/md_mod/parameters/new_array").write_text("md_safe")
    place = Path("/sys/block/md_safe/md")
    kib = min(int(Path("/sys/class/block", Path(each).name, "size").read_text()) for each in devices) // 2
    for attribute, value in (("metadata_version", "none"), ("level", "raid1"), ("raid_disks", len(devices))):
        (place / attribute).write_text(str(value))
    for slot, each in enumerate(Path(device).name for device in devices):
        (place / "new_dev").write_text(Path("/sys/class/block", each, "dev").read_text())
        (place / f"dev-{each}" / "size").write_text(str(kib))
        (place / f"dev-{each}" / "slot").write_text(str(slot))
    for attribute, value in (("component_size", kib), ("resync_start", "none"), ("array_state", "active")):
        (place / attribute).write_text(str(value))
    try:
        yield waited_for(Path("/dev/md_safe"))
    finally:
        (place / "array_state").write_text("clear")


@contextmanager
def opened(name: str, device: str, *options: str, key_file: Path = PASSPHRASE) -> Iterator[None]:
    """A volume, open."""
    run("cryptsetup", "open", "-q", "--key-file", str(key_file), *options, device, name)
    try:
        yield
    finally:
        run("cryptsetup", "close", name)


@contextmanager
def mapped(name: str, table: str, *options: str) -> Iterator[str]:
    """A mapping without cryptsetup."""
    run("dmsetup", "create", name, *options, "--table", table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        run("dmsetup", "remove", "--retry", name)


@contextmanager
def crypttab(text: str) -> Iterator[None]:
    """A crypttab with this text."""
    CRYPTTAB.write_text(text)
    try:
        yield
    finally:
        CRYPTTAB.unlink()


def luks_format(device: str, *options: str) -> None:
    """A LUKS volume that opens quickly."""
    run("cryptsetup", "luksFormat", "-q", *FAST, "--key-file", str(PASSPHRASE), *options, device)


def advise(*arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error. Within this process: to start one takes seconds here."""
    with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as complained:
        status = program(arguments)
    return status, said.getvalue(), complained.getvalue()


def advice(name: str) -> dict[str, Any]:
    """What advise has to say of a mapping; the screen is left in RESULTS."""
    (RESULTS / f"{name}.txt").write_text(advise()[1])
    return next(each for each in json.loads(advise("--json")[1])["mappings"] if each["name"] == name)


def expect(name: str, **wanted: object) -> dict[str, Any]:
    """Hold some fields of what is advised against what they must be."""
    said = advice(name)
    same(f"advice for {name}", wanted, {key: said[key] for key in wanted})
    return said


def act(*options: str) -> None:
    """--apply or --undo."""
    same("status and complaints", (0, ""), advise("--yes", "--key-file", str(PASSPHRASE), *options)[::2])


def refused(name: str) -> None:
    """--apply has to refuse, with a reason, and to leave the table alone."""
    before = run("dmsetup", "table", name)
    status, _, complained = advise("--yes", "--apply", name)
    same("exit status", 2, status)
    same("lines with reasons", True, len(complained.splitlines()) > 1)
    same("table", before, run("dmsetup", "table", name))


def flags(name: str) -> list[str]:
    """The optional arguments in force."""
    return run("dmsetup", "table", name).split()[9:]


def stored(device: str) -> list[str]:
    """The flags in a LUKS2 header. cryptsetup never takes an empty list away again, which means the same as none."""
    said = run("cryptsetup", "luksDump", "--dump-json-metadata", device)
    return list(json.loads(said)["config"].get("flags", []))


@claim
def luks2_keeps_discards_and_is_taken_back() -> None:
    with disk("d") as device:
        luks_format(device, "--type", "luks2", "--sector-size", "512")
        with opened("volume", device, "--allow-discards"):
            expect("volume", advice="set", flags=SAFE, in_force=["allow_discards"], header=[], status=1)
            act("--apply", "volume")
            same("in force", ["allow_discards", *SAFE], flags("volume"))
            same("in the header", OPTIONS.split(","), stored(device))
            expect("volume", advice="nothing to do", conflicts=expected_loss("allow_discards"))
            act("--undo", "volume")
            same("in force", ["allow_discards"], flags("volume"))
            same("in the header", [], stored(device))
            act("--apply", "volume")
        with opened("volume", device):
            same("in force when opened again", SAFE, flags("volume"))
            same("status", 0, advice("volume")["status"])
            act("--undo", "volume")


def expected_loss(word: str) -> list[str]:
    """What is said of a flag that nobody stored."""
    return [f"in force, but stored nowhere that the next opening looks at: {word}"]


@claim
def luks1_is_kept_by_crypttab() -> None:
    with disk("d") as device:
        luks_format(device, "--type", "luks1")
        text = f"# mine\nvolume\t{device}  none\tluks,discard # no option\n\n"
        with crypttab(text), opened("volume", device, "--allow-discards"):
            expect("volume", type="LUKS1", advice="set", flags=SAFE, crypttab=["allow_discards"], conflicts=[])
            act("--apply", "volume")
            same("in force", ["allow_discards", *SAFE], flags("volume"))
            line = CRYPTTAB.read_text().splitlines()[1]
            same("crypttab", f"volume\t{device}  none\tluks,discard,{OPTIONS} # no option", line)
            expect("volume", advice="nothing to do", status=0)
            act("--undo", "volume")
            same("in force", ["allow_discards"], flags("volume"))
            same("crypttab", text, CRYPTTAB.read_text())


@claim
def plain_changes_when_it_is_opened_again() -> None:
    options = ("--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--hash", "sha256")
    with disk("d") as device:
        text = f"volume {device} {KEY} plain,cipher=aes-xts-plain64,size=512,hash=sha256"
        with crypttab(text), opened("volume", device, *options, key_file=KEY):
            expect("volume", type="PLAIN", advice="set", flags=SAFE)
            act("--apply", "volume")
            same("in force", [], flags("volume"))
            same("crypttab", f"{text},{OPTIONS}", CRYPTTAB.read_text())
            act("--undo", "volume")
            same("crypttab", text, CRYPTTAB.read_text())


@claim
def swap_with_a_random_key_changes_when_it_is_opened_again() -> None:
    options = ("--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512")
    with ExitStack() as stack:
        device = stack.enter_context(disk("d"))
        text = f"swap {device} /dev/urandom swap,cipher=aes-xts-plain64,size=512"
        stack.enter_context(crypttab(f"{text}\n"))
        stack.enter_context(opened("swap", device, *options, key_file=Path("/dev/urandom")))
        run("mkswap", "/dev/mapper/swap")
        run("swapon", "/dev/mapper/swap")
        stack.callback(run, "swapoff", "/dev/mapper/swap")
        said = expect("swap", advice="set", flags=SAFE)
        same("said on the screen", True, "for swap" in (RESULTS / "swap.txt").read_text())
        same("calls of cryptsetup", [], [line for line in said["do"] if line.startswith("cryptsetup")])
        act("--apply", "swap")
        same("crypttab", f"{text},{OPTIONS}\n", CRYPTTAB.read_text())
        act("--undo", "swap")
        same("crypttab", f"{text}\n", CRYPTTAB.read_text())


@claim
def authenticated_volume_gets_no_flag_that_its_kernel_cannot_bear() -> None:
    with disk("d", 64) as device:
        luks_format(device, "--type", "luks2", "--integrity", "hmac-sha256")
        with opened("volume", device):
            audit = Path("/proc/self/loginuid").exists()
            expect("volume", advice="set", flags=[WRITE] if audit else SAFE, disks=[Path(device).name])
            wanted = [WRITE] if audit else SAFE
            act("--apply", "volume")
            same("in force", wanted, [flag for flag in flags("volume") if "workqueue" in flag])
            same("in the header", [flag.replace("_", "-") for flag in wanted], stored(device))
            act("--undo", "volume")


@claim
def layers_are_walked_down_to_the_disk_that_rotates() -> None:
    with disk("one") as first, disk("two") as second:
        Path("/sys/block", Path(second).name, "queue/rotational").write_text("1")
        table = f"0 {16 * MIB} linear {first} 0\n{16 * MIB} {16 * MIB} linear {second} 0"
        with mapped("vg-root", table) as both:
            luks_format(both, "--type", "luks2")
            with opened("volume", both):
                expect("volume", advice="leave", flags=[], disks=[Path(first).name, Path(second).name], status=0)
                refused("volume")


@of_later_kernels
def a_file_system_on_lvm_on_crypt_on_raid_on_nvme_is_named() -> None:
    with ExitStack() as stack:
        disks = [stack.enter_context(nvme(stack.enter_context(disk(name)))) for name in ("one", "two")]
        names = [Path(each).name for each in disks]
        below = stack.enter_context(raid1(disks))
        luks_format(below, "--type", "luks2")
        stack.enter_context(opened("volume", below))
        table = f"0 {8 * MIB} linear /dev/mapper/volume 0"
        above = stack.enter_context(mapped("group-home", table, "--uuid", f"LVM-{'0' * 64}"))
        run("mkfs.ext4", "-q", above)
        Path("/dev/shm/mnt").mkdir()
        run("mount", above, "/dev/shm/mnt")
        stack.callback(run, "umount", "/dev/shm/mnt")
        expect("volume", advice="set", flags=SAFE, disks=names)
        screen = (RESULTS / "volume.txt").read_text()
        same("use", True, "for /dev/shm/mnt (ext4) on group-home" in screen)
        same("media", 2, sum(f"{name}: NVMe, not rotational" in screen for name in names))
        act("--apply", "volume")
        same("in force", SAFE, flags("volume"))
        act("--undo", "volume")
        same("in force", [], flags("volume"))


@of_later_kernels
def a_zoned_disk_needs_one_flag_alone() -> None:
    table = f"0 {32 * MIB} crypt aes-xts-plain64 {'0' * 128} 0 %s 0"
    with disk("d", zoned=1, zone_size=4, zone_nr_conv=0) as device, mapped("zoned", table % device):
        expect("zoned", advice="set", flags=[READ], in_force=[WRITE], conflicts=[])


@claim
def small_sectors_on_a_disk_of_large_ones_are_named() -> None:
    run("modprobe", "scsi_debug", "dev_size_mb=32", "physblk_exp=3")
    try:
        [place] = Path("/sys/bus/pseudo/drivers/scsi_debug").glob("adapter0/host*/target*/*/block/*")
        device = f"/dev/{place.name}"
        luks_format(device, "--type", "luks2", "--sector-size", "512")
        with opened("laptop", device):
            said = expect("laptop", advice="set", flags=SAFE)
            same("lines about sectors", 3, len(said["sectors"]))
            (RESULTS / "laptop.txt").rename(RESULTS / "small_sectors.txt")
            [command] = re.findall(r"cryptsetup .*--active-name laptop", said["sectors"][1])
            run(*command.split(), "-q", "--key-file", str(PASSPHRASE), *FAST)
            expect("laptop", sectors=[])
    finally:
        run("modprobe", "-r", "scsi_debug")


@contextmanager
def bitlocker(image: str) -> Iterator[None]:
    """A volume that Windows made, open as "windows": an image of cryptsetup's tests."""
    with tarfile.open(IMAGES) as outer, tarfile.open(fileobj=outer.extractfile(PACKED)) as packed:
        packed.extract(f"bitlk-images/{image}", "/dev/shm", filter="data")
    file = Path("/dev/shm/bitlk-images", image)
    device = run("losetup", "--show", "-f", str(file)).strip()
    PASSPHRASE_OF_IMAGES.write_text("anaconda")
    try:
        with opened("windows", device, "--type", "bitlk", key_file=PASSPHRASE_OF_IMAGES):
            yield
    finally:
        run("losetup", "-d", device)
        file.unlink()


@claim
def a_bitlocker_volume_with_diffuser_waits_for_a_fix() -> None:
    with bitlocker("bitlk-aes-cbc-elephant-128.img"):
        expect("windows", type="BITLK", advice="get a kernel fix first", flags=[])
        refused("windows")


@claim
def a_bitlocker_volume_with_xts_changes_when_it_is_opened_again() -> None:
    with bitlocker("bitlk-aes-xts-128.img"):
        expect("windows", type="BITLK", advice="set", flags=SAFE)


@claim
def header_and_crypttab_in_conflict_are_named() -> None:
    with disk("d") as device:
        luks_format(device, "--type", "luks2")
        with crypttab(f"volume {device} none luks,discard\n"), opened("volume", device, f"--perf-{READ}"):
            said = expect("volume", in_force=[READ], next_boot=["allow_discards"])
            named = [*expected_loss(READ), "stored, but not in force now: allow_discards"]
            same("conflicts", named, said["conflicts"])


@claim
def measuring_leaves_nothing_behind() -> None:
    with disk("d") as device:
        luks_format(device, "--type", "luks2")
        with opened("volume", device):
            before = run("dmsetup", "table")
            status, said, complained = advise("--measure", "volume", "--seconds", "10")
            same("status and complaints", (0, ""), (status, complained))
            same("loads", 5, len(re.findall(r"with no_\w+: (faster|slower|cannot tell)", said)))
            (RESULTS / "measured.txt").write_text(said)
            same("mappings", before, run("dmsetup", "table"))
            same("RAM disk", False, Path("/sys/module/brd").exists())


@claim
def measuring_ends_cleanly_when_interrupted() -> None:
    with disk("d") as device:
        luks_format(device, "--type", "luks2")
        with opened("volume", device):
            before = run("dmsetup", "table")
            if (child := os.fork()) == 0:
                os._exit(advise("--measure", "volume", "--seconds", "600")[0])
            while run("dmsetup", "table").count("\n") < before.count("\n") + 4:
                same("ended too early", (0, 0), os.waitpid(child, os.WNOHANG))
                time.sleep(0.1)
            time.sleep(1)
            os.kill(child, signal.SIGINT)
            same("exit status", 130, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            same("mappings", before, run("dmsetup", "table"))
            same("RAM disk", False, Path("/sys/module/brd").exists())


@claim
def a_user_is_told_what_was_not_seen() -> None:
    with disk("d") as device:
        luks_format(device, "--type", "luks2")
        with opened("volume", device):
            status, said, complained = as_nobody()
            same("exit status", 2, status)
            same("standard error", "", complained)
            same("said", True, "not seen:" in said and "volume: CANNOT TELL" in said)


def as_nobody() -> tuple[int, str, str]:
    """What a user without rights is told. A fork: the files of the program are not for such users here."""
    told = RESULTS / "nobody.json"
    with told.open("w") as out:
        if (child := os.fork()) == 0:
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            json.dump(advise(), out)
            out.close()
            os._exit(0)
        os.waitpid(child, 0)
    status, said, complained = json.loads(told.read_text())
    return status, said, complained


@claim
def a_cipher_that_completes_asynchronously_waits_for_a_fix() -> None:
    """The last one: from here on xts(aes) is cryptd's, whose priority is higher."""
    driver = "xts-aes-lib" if "xts-aes-lib" in Path("/proc/crypto").read_text() else "xts(ecb(aes-generic))"
    with disk("d") as device:
        table = f"0 {32 * MIB} crypt capi:cryptd({driver})-plain64 {'0' * 128} 0 {device} 0"
        with mapped("slow", table):
            expect("slow", advice="get a kernel fix first", flags=[])
            refused("slow")
        with mapped("slow", f"{table} 1 {WRITE}"):
            expect("slow", advice="take back", flags=[WRITE])


def a_kernel_without_the_flags_is_left_alone() -> None:
    """The only claim on a dm-crypt that does not know the flags."""
    with disk("d") as device:
        luks_format(device, "--type", "luks2")
        with opened("volume", device):
            said = expect("volume", advice="leave", flags=[], status=0)
            same("reasons", ["this kernel does not know the flags: 5.9 and later do"], said["reasons"])
            refused("volume")


def main() -> int:
    """Run all claims; 1 when one failed."""
    [version] = re.findall(r"^crypt +v1\.(\d+)", run("dmsetup", "targets"), re.MULTILINE)
    if int(version) < 22:
        claims[:] = [a_kernel_without_the_flags_is_left_alone]
    KEY.write_bytes(bytes(range(64)))
    PASSPHRASE.write_text("fake-passphrase")
    lines = ["KTAP version 1", f"1..{len(claims)}"]
    for number, test in enumerate(claims, 1):
        try:
            test()
            lines.append(f"ok {number} {test.__name__}")
        except Exception:
            lines += [f"# {line}" for line in traceback.format_exc().splitlines()[-8:]]
            lines.append(f"not ok {number} {test.__name__}")
        print("\n".join(lines[-9:] if lines[-1].startswith("not") else lines[-1:]), flush=True)
    (RESULTS / "advise.ktap").write_text("\n".join(lines) + "\n")
    return int(any(line.startswith("not ok") for line in lines))


sys.exit(main())
