"""`make package-test`: the package on Debian systems in guests, through reboots and power cuts.

These tests replace the firmware and the boot loader: before each boot they read kernel and initramfs from the /boot on
the system's disk. All else is the unmodified distribution. With Secure Boot the firmware is EDK2 with Microsoft's keys;
it starts Debian's signed shim, GRUB and MokManager.
"""

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
from ..guests.runs import new_run
from . import ktap
from .guest_tests import ADVISE
from .package_images import PASSPHRASE, make_disks

LONG = 3600.0  # seconds for one boot, which may build a module and an initramfs in the emulator
ARGUMENTS = "root=/dev/mapper/root ro console=ttyS0 panic=-1 clocksource=tsc tsc=reliable rd.luks.crypttab=yes"
QEMU = (
    *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max,-erms,-la57", "-smp", "1", "-m", "2G"),
    *("-nodefaults", "-display", "none", "-device", "virtio-rng-pci"),
)
# The clock counts instructions, so a busy host makes no time limit of the system expire.
COUNTED = ("-icount", "shift=1,sleep=off", "-no-reboot")
FIRMWARE, VARIABLES = (Path("/usr/share/OVMF") / name for name in ("OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"))
SECURE = ("-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on")
# The screens of MokManager, and what a person types there: down, to the entry that enrols or agrees, and Enter.
CHOOSE, ENTER = b"\x1b[B\r", b"\r"
QUESTIONS = (
    (b"Press any key", ENTER),
    (b"Enroll MOK", CHOOSE),
    (b"View key 0", CHOOSE),
    (b"Enroll the key", CHOOSE),
    (b"Password", PASSPHRASE.encode() + ENTER),
    (b"Reboot", ENTER),
)
NVME, NVME_SIZE = ("nvme0", "nvme1"), 96 << 20  # empty disks; each boot has new ones
END, CUT = "end of this boot", "sysrq: Resetting"
REJECTED = "Loading of module with unavailable key is rejected"
SECURE_BOOT = "SecureBootEnable\0".encode("utf-16-le")  # EDK2's variable; its value is the next byte
CASE = re.compile(r"^(not )?ok: (.*)$", re.M)


@dataclass(frozen=True)
class Boot:
    """One boot of the machine: the steps of tools/guest/package.sh that run in it, separated by blanks.

    `kernel`: the start of the kernel's name (default: the newest kernel, as boot loaders do). `secure`: Secure Boot is
    on, where the system is made for it.
    """

    steps: str
    kernel: str = ""
    secure: bool = True

    @property
    def cut(self) -> str:
        """The step that a power cut ends, or ""."""
        last = self.steps.split()[-1]
        return last if last.startswith("cut_") else ""

    @property
    def locked_out(self) -> bool:
        """The root stays closed, because the kernel does not know the key that signed dm-crypt."""
        return self.steps == "locked_out"


# A system, newly installed, and its boots. After a power cut the installation goes on.
SCENARIOS = {
    "installed_and_removed": "trixie: install / patched remove / original",
    "kselftests_pass": "trixie: install / patched kselftests",
    "build_fails": "trixie: install / patched broken / original",
    "boot_is_full": "trixie: full / original",
    "original_cannot_be_put_back": "trixie: install unfinished / original",
    "power_cut_while_building": "trixie: cut_building / original go_on / patched",
    "power_cut_when_placed": "trixie: cut_placed / original left_placed go_on / patched",
    "power_cut_while_initramfs_is_made": "trixie: cut_initramfs / original left_initramfs go_on / patched",
    "power_cut_when_initramfs_is_replaced": "trixie: cut_replaced / patched go_on / patched",
    "interrupted_while_original_returns": "trixie: install / patched interrupted / original",
    "kernels_arrive": "trixie: install early / original running / patched series / patched / patched, kernel 6.12",
    "unknown_kernels_arrive": "trixie: install / patched unknown / original",
    "next_version_arrives": "trixie: install / patched upgrade / original data_only",
    "installed_and_removed_with_dracut": "trixie-dracut: install / patched remove / original",
    "installed_and_removed_on_bookworm": "bookworm: install / patched remove / original",
    "secure_boot": "trixie-secure: lockdown refused / lockdown enrolled / lockdown patched series"
    " / lockdown patched remove / lockdown original",
    "secure_boot_is_turned_on_later": "trixie-secure: install unknown_key, without Secure Boot / locked_out"
    " / patched imported, without Secure Boot / lockdown patched",
    "advice": "trixie: layers advice",
    "advice_with_dracut": "trixie-dracut: advice",
}


def read_boot(text: str) -> Boot:
    """A boot of SCENARIOS: the steps, perhaps with a kernel or without Secure Boot."""
    steps, _, how = text.partition(", ")
    return Boot(steps, how.removeprefix("kernel ") if how.startswith("kernel ") else "", how != "without Secure Boot")


def run_scenarios(package: Path, names: Sequence[str]) -> Counts:
    """Run the scenarios of these names (none given: all). Raises UserError for an unknown one."""
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise UserError(f"unknown scenario: {', '.join(unknown)}\n  the scenarios are: {', '.join(SCENARIOS)}")
    return total([_run(name, package) for name in names or SCENARIOS])


def _run(name: str, package: Path) -> Counts:
    system, _, boots = SCENARIOS[name].partition(": ")
    place = new_run(build_dir("package-test"), name)
    log = place / "log"
    images = make_disks(system, log)
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
    for number, boot in enumerate(map(read_boot, boots.split(" / ")), 1):
        with step(f"{name}, boot {number}: {boot.steps}", place / f"{number}.console"):
            output = _boot(place, number, boot, package)
            console = (place / f"{number}.console").read_text(errors="replace")
            counted.append(judge_boot(f"{name}, boot {number}", boot, output, console))
        if counted[-1].failed:
            say(f"  output: {place / f'{number}.output'}")
            break
    shutil.rmtree(place / "esp", ignore_errors=True)
    for large in ("root.qcow2", "boot.img", "kernel", "initramfs", "inputs", "variables", *NVME):
        (place / large).unlink(missing_ok=True)
    return total(counted)


def judge_boot(title: str, boot: Boot, output: str, console: str) -> Counts:
    """Print and count the cases of a boot: those of its steps, and one for each step that did not end as it must.

    The cases of a kselftest count, too. `output` is that of package.sh, `console` the kernel's.
    """
    output = output.replace("\r", "")
    cases = [(not match[1], match[2].strip()) for match in CASE.finditer(output)]
    for name in boot.steps.split():
        ended = re.findall(rf"^begin of {name}$(.*?)^end of {name}$", output, re.M | re.S)
        if boot.locked_out:
            closed = "begin of" not in output and END not in output  # the firmware prints something, too
            cases.append((closed and REJECTED in console, "the kernel rejects the module, and the root stays closed"))
        elif name == boot.cut:
            cut = f"begin of {name}" in output and not ended and END not in output and CUT in console
            cases.append((cut, "the power was cut in time"))
        elif len(ended) != 1 or not CASE.search(ended[0]) or output.count(f"begin of {name}\n") != 1:
            cases.append((False, f"{name} ends once, with at least one case"))
    skipped = []
    for report in map(ktap.parse, output.split("TAP version 13\n")[1:]):
        cases += [(case.ok, case.name) for case in report.cases if not case.skip]
        cases += [(False, problem) for problem in report.problems]
        skipped += [f"{case.name} # SKIP {case.skip}" for case in report.cases if case.skip]
    for good, text in (*cases, *((True, text) for text in skipped)):
        say(f"{'ok' if good else 'not ok'} {title}: {text}")
    passed = sum(good for good, _ in cases)
    return Counts(passed, len(cases) - passed, len(skipped))


def _boot(place: Path, number: int, boot: Boot, package: Path) -> str:
    log, disk = place / "log", place / "boot.img"
    kernel = newest_kernel(run(["debugfs", "-R", "ls -p /", disk], log=log, timeout=60).output, boot.kernel)
    for source, name in ((f"/vmlinuz-{kernel}", "kernel"), (f"/initrd.img-{kernel}", "initramfs")):
        run(["debugfs", "-R", f"dump {source} {place / name}", disk], log=log, timeout=60)
    (place / "steps").write_text(boot.steps)
    with tarfile.open(place / "inputs", "w") as inputs:
        inputs.add(package, "package.deb")
        inputs.add(TOOLS / "guest" / "package.sh", "package.sh")
        inputs.add(REPO / "selftests" / "dm-crypt", "dm-crypt")
        inputs.add(ADVISE, "dmcrypt_advise")
        inputs.add(place / "steps", "steps")
    drives: list[str] = []
    for name, form in (("root.qcow2", "qcow2"), ("boot.img", "raw"), ("inputs", "raw")):
        drives += ["-drive", f"file={place / name},format={form},if=virtio"]
    for name in NVME:
        with (place / name).open("wb") as empty:
            empty.truncate(NVME_SIZE)
        drives += ["-drive", f"file={place / name},format=raw,if=none,id={name}"]
        drives += ["-device", f"nvme,drive={name},serial={name}"]
    console, output = place / f"{number}.console", place / f"{number}.output"
    if (place / "esp").exists():
        set_secure_boot(place / "variables", boot.secure)
        start = [*_firmware(place, console), *(["-no-reboot"] if boot.locked_out else [])]
    else:
        start = [*COUNTED, "-serial", f"file:{console}", "-append", ARGUMENTS]
        start += ["-kernel", str(place / "kernel"), "-initrd", str(place / "initramfs")]
    run([*QEMU, *drives, *start, "-serial", f"file:{output}"], log=log, timeout=LONG)
    for pipe in place.glob(f"{console.name}.*"):
        pipe.unlink()
    return output.read_text(errors="replace") if output.exists() else ""


def set_secure_boot(variables: Path, on: bool) -> None:
    """Turn Secure Boot on or off in a file of EDK2's variables. Raises UserError when the file has no such variable."""
    before, name, after = variables.read_bytes().partition(SECURE_BOOT)
    if not name or not after:
        raise UserError(f"{VARIABLES}: the firmware's variables do not include SecureBootEnable")
    variables.write_bytes(before + name + bytes([on]) + after[1:])


def _firmware(place: Path, console: Path) -> list[str]:
    """QEMU's arguments for a machine that starts from place/esp; a thread answers MokManager."""
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
    """Type the answers to MokManager's questions on the pipe `screen` into the pipe `keys`, until QEMU closes them."""
    with keys.open("wb", buffering=0) as typed, screen.open("rb", buffering=0) as shown:
        for question, reply in QUESTIONS:
            seen = b""
            while question not in seen:
                fresh = shown.read(1 << 16)
                if not fresh:
                    return
                seen += fresh
            typed.write(reply)
        while shown.read(1 << 16):
            pass


def newest_kernel(listing: str, start: str) -> str:
    """The newest kernel with an initramfs in a /boot, as `debugfs -R "ls -p /"` lists it; its name begins with `start`.

    Raises UserError when there is none.
    """
    names = {line.split("/")[5] for line in listing.splitlines() if line.count("/") >= 6}
    kernels = [name.removeprefix("vmlinuz-") for name in names if name.startswith(f"vmlinuz-{start}")]
    bootable = [kernel for kernel in kernels if f"initrd.img-{kernel}" in names]
    if not bootable:
        raise UserError(f"/boot has no kernel {start}* with an initramfs: {' '.join(sorted(names))}")
    return max(bootable, key=lambda kernel: [int(number) for number in re.findall(r"\d+", kernel)])
