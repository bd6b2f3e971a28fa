"""`make package-test`: the package on Debian systems of its own, in guests, through reboots and power cuts.

The firmware's and the boot loader's part is ours: before each boot kernel and initramfs are read from the system's
/boot, as that lies on the disk. Everything after that is the distribution's, unmodified. With Secure Boot the firmware
is EDK2 with Microsoft's keys, and starts the shim, GRUB and MokManager that Debian has had signed.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.counts import Counts, total
from ..common.errors import UserError
from ..common.paths import REPO, TOOLS, build_dir
from ..common.progress import say, step
from ..common.run import run
from . import advice, ktap
from .package_images import PASSPHRASE, SYSTEMS, disks

LONG = 3600.0  # seconds for one boot, which may build a module and an initramfs, emulated
ARGUMENTS = "root=/dev/mapper/root ro console=ttyS0 panic=-1 clocksource=tsc tsc=reliable rd.luks.crypttab=yes"
EMULATED = ("-accel", "tcg", "-cpu", "max,-erms,-la57", "-smp", "1")
# The clock counts instructions: what is slow because the machine is busy runs into no time limit of the system's.
COUNTED = ("-icount", "shift=1,sleep=off")
FIRMWARE, VARIABLES = (Path("/usr/share/OVMF") / name for name in ("OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"))
SECURE = (*("-machine", "q35,smm=on"), *("-global", "driver=cfi.pflash01,property=secure,value=on"))
# What MokManager asks, and a person's keys: down, to what enrols or agrees, and Enter.
CHOOSE, ENTER = b"\x1b[B\r", b"\r"
QUESTIONS = (
    (b"Press any key", ENTER),
    (b"Enroll MOK", CHOOSE),
    (b"View key 0", CHOOSE),
    (b"Enroll the key", CHOOSE),
    (b"Password", PASSPHRASE.encode() + ENTER),
    (b"Reboot", ENTER),
)
NVME, NVME_SIZE = ("nvme0", "nvme1"), 96 << 20  # empty disks; what is on them is lost with each boot
END, CUT = "end of this boot", "sysrq: Resetting"
REFUSED = "Loading of module with unavailable key is rejected"
SWITCH = "SecureBootEnable\0".encode("utf-16-le")  # EDK2's variable, of one byte
CHECK_LINE = re.compile(r"^(not )?ok: (.*)$", re.M)


@dataclass(frozen=True)
class Boot:
    """What happens between one start of the machine and the next: steps of tools/guest/package.sh.

    `kernel` is the beginning of the name of the one to start (else the newest, as boot loaders do it); `secure`,
    whether Secure Boot is on, where the system is made for it.
    """

    steps: tuple[str, ...]
    kernel: str = ""
    secure: bool = True

    @property
    def cut(self) -> bool:
        """Whether it ends with a power cut."""
        return self.steps[-1].startswith("cut_")

    @property
    def shut(self) -> bool:
        """Whether the root is not opened, because the kernel does not know the key that signed dm-crypt."""
        return self.steps == ("shut",)


@dataclass(frozen=True)
class Scenario:
    """A system as it comes, and what happens to it."""

    system: str
    boots: tuple[Boot, ...]


def _cut(where: str, *then: str) -> Scenario:
    """The power is cut at a place: what the steps `then` case boots after that, and installing goes on."""
    return Scenario("trixie", (Boot((f"cut_{where}",)), Boot((*then, "go_on")), Boot(("ours",))))


INSTALLED_AND_REMOVED = (Boot(("install",)), Boot(("ours", "remove")), Boot(("stock",)))
KERNELS_ARRIVE = (
    Boot(("install", "early")),
    Boot(("stock", "running")),
    Boot(("ours", "series")),
    Boot(("ours",)),
    Boot(("ours",), "6.12"),
)
NEXT_VERSION_ARRIVES = (Boot(("install",)), Boot(("ours", "upgrade")), Boot(("stock", "data_only")))
SCENARIOS = {
    "installed_and_removed": Scenario("trixie", INSTALLED_AND_REMOVED),
    "kselftests_pass": Scenario("trixie", (Boot(("install",)), Boot(("ours", "kselftests")))),
    "build_fails": Scenario("trixie", (Boot(("install",)), Boot(("ours", "broken")), Boot(("stock",)))),
    "boot_is_full": Scenario("trixie", (Boot(("full",)), Boot(("stock",)))),
    "stock_cannot_be_put_back": Scenario("trixie", (Boot(("install", "unfinished")), Boot(("stock",)))),
    "power_cut_while_building": _cut("building", "stock"),
    "power_cut_when_placed": _cut("placed", "stock", "left_placed"),
    "power_cut_while_initramfs_is_made": _cut("initramfs", "stock", "left_initramfs"),
    "power_cut_when_initramfs_is_replaced": _cut("replaced", "ours"),
    "interrupted_while_stock_returns": Scenario(
        "trixie", (Boot(("install",)), Boot(("ours", "interrupted")), Boot(("stock",)))
    ),
    "kernels_arrive": Scenario("trixie", KERNELS_ARRIVE),
    "unknown_kernels_arrive": Scenario("trixie", (Boot(("install",)), Boot(("ours", "unknown")), Boot(("stock",)))),
    "next_version_arrives": Scenario("trixie", NEXT_VERSION_ARRIVES),
    "installed_and_removed_with_dracut": Scenario("trixie-dracut", INSTALLED_AND_REMOVED),
    "installed_and_removed_on_bookworm": Scenario("bookworm", INSTALLED_AND_REMOVED),
    "secure_boot": Scenario(
        "trixie-secure",
        (
            Boot(("locked", "refused")),
            Boot(("locked", "enrolled")),
            Boot(("locked", "ours", "series")),
            Boot(("locked", "ours", "remove")),
            Boot(("locked", "stock")),
        ),
    ),
    "secure_boot_is_turned_on_later": Scenario(
        "trixie-secure",
        (
            Boot(("install", "unknown_key"), secure=False),
            Boot(("shut",)),
            Boot(("ours", "imported"), secure=False),
            Boot(("locked", "ours")),
        ),
    ),
    "advice": Scenario("trixie", (Boot(("layers", "advice")),)),
    "advice_with_dracut": Scenario("trixie-dracut", (Boot(("advice",)),)),
}


def run_scenarios(package: Path, names: Sequence[str]) -> Counts:
    """Run the scenarios of these names (all, where there are none). Raises UserError for an unknown one."""
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise UserError(f"no such test: {', '.join(unknown)}\n  there are: {', '.join(SCENARIOS)}")
    return total([_run(name, SCENARIOS[name], package) for name in names or SCENARIOS])


def _run(name: str, scenario: Scenario, package: Path) -> Counts:
    place = build_dir("package-test") / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    log = place / "log"
    images = disks(SYSTEMS[scenario.system], log)
    overlay = ("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", images / "root.img", place / "root.qcow2")
    run(overlay, log=log, timeout=60)
    shutil.copyfile(images / "boot.img", place / "boot.img")
    if (images / "esp").exists():
        shutil.copytree(images / "esp", place / "esp")
        grub = place / "esp" / "EFI" / "debian" / "grub.cfg"
        grub.parent.mkdir()
        grub.write_text(f"linux /kernel {ARGUMENTS}\ninitrd /initramfs\nboot\n")
        shutil.copyfile(VARIABLES, place / "variables")
    counted = []
    for number, boot in enumerate(scenario.boots, 1):
        with step(f"{name}, boot {number}: {' '.join(boot.steps)}", place / f"{number}.console"):
            said = _boot(place, number, boot, package)
            console = (place / f"{number}.console").read_text(errors="replace")
            counted.append(judge(f"{name}, boot {number}", boot, said, console))
        if counted[-1].failed:
            say(f"  what was said: {place / f'{number}.said'}")
            break
    shutil.rmtree(place / "esp", ignore_errors=True)
    for left in ("root.qcow2", "boot.img", "kernel", "initramfs", "inputs", "variables", *NVME):
        (place / left).unlink(missing_ok=True)
    return total(counted)


def judge(title: str, boot: Boot, said: str, console: str) -> Counts:
    """One line a case; and one for each step that did not come to its end, or did though the power was to be cut.

    A kselftest's cases count, too, and its skips as such. `said` is what package.sh wrote, `console` what the
    kernel did.
    """
    said = said.replace("\r", "")
    cases = [(not match[1], match[2].strip()) for match in CHECK_LINE.finditer(said)]
    parts = {name: re.findall(rf"^begin of {name}$(.*?)^end of {name}$", said, re.M | re.S) for name in boot.steps}
    for name, found in parts.items():
        if boot.shut:
            stays = "begin of" not in said and END not in said  # the firmware says something, too
            cases.append((stays and REFUSED in console, "the kernel refuses ours, and the root stays shut"))
        elif boot.cut and name == boot.steps[-1]:
            cut = f"begin of {name}" in said and not found and END not in said and CUT in console
            cases.append((cut, "the power was cut in time"))
        elif len(found) != 1 or not CHECK_LINE.search(found[0]) or said.count(f"begin of {name}\n") != 1:
            cases.append((False, f"{name} comes to its end, once, and cases something"))
    skipped = []
    for report in map(ktap.parse, said.split("TAP version 13\n")[1:]):
        cases += [(case.ok, case.name) for case in report.cases if not case.skip]
        cases += [(False, problem) for problem in report.problems]
        skipped += [f"{case.name} # SKIP {' '.join(case.diagnostics)}" for case in report.cases if case.skip]
    for good, what in cases:
        say(f"{'ok' if good else 'not ok'} {title}: {what}")
    for what in skipped:
        say(f"ok {title}: {what}")
    return Counts(sum(good for good, _ in cases), sum(not good for good, _ in cases), len(skipped))


def _boot(place: Path, number: int, boot: Boot, package: Path) -> str:
    """Start the machine once; returns what its steps said."""
    log = place / "log"
    disk = place / "boot.img"
    kernel = newest(run(["debugfs", "-R", "ls -p /", disk], log=log, timeout=60).output, boot.kernel)
    for source, name in ((f"/vmlinuz-{kernel}", "kernel"), (f"/initrd.img-{kernel}", "initramfs")):
        run(["debugfs", "-R", f"dump {source} {place / name}", disk], log=log, timeout=60)
    with tarfile.open(place / "inputs", "w") as inputs:
        inputs.add(package, "package.deb")
        inputs.add(TOOLS / "guest" / "package.sh", "package.sh")
        inputs.add(REPO / "selftests" / "dm-crypt", "dm-crypt")
        inputs.add(advice.PACKAGE, "dmcrypt_advise")
        (place / "steps").write_text(" ".join(boot.steps))
        inputs.add(place / "steps", "steps")
    said = place / f"{number}.said"
    drives = [
        word
        for name, form in (("root.qcow2", "qcow2"), ("boot.img", "raw"), ("inputs", "raw"))
        for word in ("-drive", f"file={place / name},format={form},if=virtio")
    ]
    for name in NVME:
        with (place / name).open("wb") as empty:
            empty.truncate(NVME_SIZE)
        drives += ["-drive", f"file={place / name},format=raw,if=none,id={name}"]
        drives += ["-device", f"nvme,drive={name},serial={name}"]
    console = place / f"{number}.console"
    machine = ["qemu-system-x86_64", *EMULATED, "-m", "2G", "-nodefaults", "-display", "none"]
    machine += ["-device", "virtio-rng-pci", *drives]
    if (place / "esp").exists():
        machine += [*_firmware(place, console, boot.secure), *(("-no-reboot",) if boot.shut else ())]
    else:
        machine += [*COUNTED, "-no-reboot", "-serial", f"file:{console}"]
        machine += ["-kernel", str(place / "kernel"), "-initrd", str(place / "initramfs"), "-append", ARGUMENTS]
    run([*machine, "-serial", f"file:{said}"], log=log, timeout=LONG)
    for pipe in place.glob(f"{console.name}.*"):
        pipe.unlink()
    return said.read_text(errors="replace") if said.exists() else ""


def _firmware(place: Path, console: Path, secure: bool) -> list[str]:
    """QEMU's words for a machine with Secure Boot, that starts from place/esp; and somebody who answers MokManager."""
    variables = (place / "variables").read_bytes()
    before, switch, after = variables.partition(SWITCH)
    (place / "variables").write_bytes(before + switch + bytes([secure]) + after[1:])
    for name in ("kernel", "initramfs"):
        (place / name).replace(place / "esp" / name)
    ends = [console.with_name(f"{console.name}.{end}") for end in ("in", "out")]
    for end in ends:
        os.mkfifo(end)
    threading.Thread(target=answer, args=ends, daemon=True).start()
    return [
        *SECURE,
        *("-drive", f"file={FIRMWARE},format=raw,if=pflash,readonly=on"),
        *("-drive", f"file={place / 'variables'},format=raw,if=pflash"),
        *("-drive", f"file=fat:{place / 'esp'},format=raw,if=none,id=esp,readonly=on"),
        *("-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=esp,bootindex=0"),  # vda is the root
        *("-chardev", f"pipe,id=console,path={console},logfile={console}", "-serial", "chardev:console"),
    ]


def answer(keys: Path, screen: Path) -> None:
    """Type on the pipe `keys` what MokManager asks for on the pipe `screen`, until nobody writes there any more."""
    with keys.open("wb", buffering=0) as typed, screen.open("rb", buffering=0) as shown:
        seen = b""
        for question, reply in QUESTIONS:
            while question not in seen:
                fresh = shown.read(1 << 16)
                if not fresh:
                    return
                seen += fresh
            typed.write(reply)
            seen = b""
        while shown.read(1 << 16):
            pass


def newest(listing: str, beginning: str) -> str:
    """The newest kernel of a /boot, as `debugfs -R "ls -p /"` lists it, that has an initramfs.

    Raises UserError where there is none.
    """
    names = {line.split("/")[5] for line in listing.splitlines() if line.count("/") >= 6}
    kernels = [name.removeprefix("vmlinuz-") for name in names if name.startswith(f"vmlinuz-{beginning}")]
    whole = [kernel for kernel in kernels if f"initrd.img-{kernel}" in names]
    if not whole:
        raise UserError(f"no kernel {beginning}* with an initramfs lies in /boot: {' '.join(sorted(names))}")
    return max(whole, key=lambda kernel: [int(number) for number in re.findall(r"\d+", kernel)])
