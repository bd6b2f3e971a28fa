"""Disks for `make package-test`: a Debian whose root is a LUKS2 volume, with its own kernel, initramfs and dkms."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import GIB, TOOLS, publish, use_entry
from ..common.progress import step
from ..common.run import run
from ..trees.archive import KEYRING, uris_of

NEED = 6 * GIB
ROOT_SIZE, BOOT_SIZE = 2 * GIB, 256 << 20
SECTOR = 4096  # of the volume, and of its file system
PASSPHRASE = "not a secret"  # of a volume that holds nothing
KEY_FILE = "/etc/keys/root.key"
# For Secure Boot: what Microsoft's and Debian's keys have signed, at the places where the firmware and shim look.
SECURE_BOOT = ("grub-efi-amd64-signed", "mokutil", "shim-signed")
SIGNED = {
    "EFI/BOOT/BOOTX64.EFI": "usr/lib/shim/shimx64.efi.signed",
    "EFI/BOOT/grubx64.efi": "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
    "EFI/BOOT/mmx64.efi": "usr/lib/shim/mmx64.efi.signed",
}
COMMON = (
    *("ca-certificates", "cpio", "cryptsetup", "dkms", "dmsetup", "e2fsprogs", "gcc", "kmod", "lvm2", "make"),
    *("mdadm", "openssl", "python3", "systemd-sysv", "udev", "zstd"),
)
# What is written into the system before its kernel is installed.
FILES = {
    "etc/fstab": "/dev/mapper/root / ext4 errors=remount-ro 0 1\n/dev/vdb /boot ext4 defaults 0 2\n",
    "etc/crypttab": f"root /dev/vda {KEY_FILE} luks,initramfs,x-initrd.attach,no-read-workqueue,no-write-workqueue\n",
    KEY_FILE[1:]: PASSPHRASE,
    "etc/cryptsetup-initramfs/conf-hook": "KEYFILE_PATTERN=/etc/keys/*.key\n",
    "etc/initramfs-tools/conf.d/result": "UMASK=0077\nRESUME=none\n",
    "etc/dracut.conf.d/result.conf": 'hostonly="no"\nadd_dracutmodules+=" crypt "\n'
    f'install_items+=" /etc/crypttab {KEY_FILE} "\n',
    "etc/hostname": "result\n",
    "etc/systemd/system/result.service": (TOOLS / "guest" / "package.service").read_text(),
}
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "systemd-timesyncd.service",
)


@dataclass(frozen=True)
class System:
    """A Debian release with `packages`, what makes its initramfs and what Secure Boot takes.

    In `arriving`, suites whose kernels lie there to come.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    arriving: tuple[str, ...] = ()


SYSTEMS = {
    system.name: system
    for system in (
        System(
            "trixie",
            "trixie",
            ("cryptsetup-initramfs", "initramfs-tools"),
            ("trixie-security", "trixie-backports"),
        ),
        System("trixie-dracut", "trixie", ("dracut", "systemd-cryptsetup")),
        System(
            "trixie-secure",
            "trixie",
            ("cryptsetup-initramfs", "initramfs-tools", *SECURE_BOOT),
            ("trixie-backports",),
        ),
        System("bookworm", "bookworm", ("cryptsetup-initramfs", "initramfs-tools")),
    )
}


def disks(system: System, log: Path) -> Path:
    """The directory with the disks root.img and boot.img of a system, and esp/ for Secure Boot (made once, as root)."""
    if os.geteuid() != 0:
        raise UserError("the disks for the package's tests are made with debootstrap and chroot, which need root")
    identity = repr((system, COMMON, sorted(FILES.items()), MASKED, PASSPHRASE)).encode()
    final = use_entry("images", f"{system.name}-{hashlib.sha256(identity).hexdigest()[:16]}")
    if not final.exists():
        with step(f"making the disks of {system.name}", log):
            publish(final, lambda part: _make(system, part, log), NEED, f"the disks of {system.name}")
    return final


def _make(system: System, part: Path, log: Path) -> None:
    root = part / "root"
    run(["cp", "-a", _bootstrapped(system.suite, log), root], log=log, timeout=900)
    suites = (system.suite, *system.arriving)
    sources = "".join(f"deb [signed-by={KEYRING}] {_uri(suite, log)} {suite} main\n" for suite in suites)
    (root / "etc/apt/sources.list").write_text(sources)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    install = "apt-get install -q -y --no-install-recommends"
    _inside(root, ["apt-get update -q", f"{install} {' '.join(system.packages)}"], log)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / KEY_FILE[1:]).chmod(0o600)
    kernel = "linux-image-cloud-amd64/{0} linux-headers-cloud-amd64/{0}"
    commands = [f"{install} {kernel.format(system.suite)}", "apt-get clean"]
    for suite in system.arriving:
        commands += [f"{install} --download-only {kernel.format(suite)}", f"mkdir /var/cache/{suite}"]
        commands += [f"mv /var/cache/apt/archives/*.deb /var/cache/{suite}"]
    commands += [f"systemctl mask {' '.join(MASKED)}", "systemctl enable result.service"]
    commands += ["rm -rf /var/lib/apt/lists/* /etc/resolv.conf /usr/share/doc/* /usr/share/locale/* /usr/share/man/*"]
    _inside(root, commands, log)
    if set(SECURE_BOOT) <= set(system.packages):
        for place, signed in SIGNED.items():
            (part / "esp" / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / signed, part / "esp" / place)
    shutil.move(root / "boot", part / "boot")
    (root / "boot").mkdir()
    for name, size in (("boot", BOOT_SIZE), ("root", ROOT_SIZE)):
        made: list[str | Path] = [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-b",
            str(SECTOR),
            "-d",
            part / name,
            part / f"{name}.img",
        ]
        run([*made, f"{size >> 10}k"], log=log, timeout=900)
        shutil.rmtree(part / name)
    (part / "root.img").rename(part / "root.plain")
    encrypt(part / "root.plain", part / "root.img", log)
    (part / "root.plain").unlink()


def _inside(root: Path, commands: Sequence[str], log: Path) -> None:
    """Shell commands inside the system; in a mount namespace of their own, so that nothing stays mounted."""
    script = "\n".join(["set -e", "mount -t proc proc /proc", "export DEBIAN_FRONTEND=noninteractive", *commands])
    run(["unshare", "--mount", "chroot", root, "sh", "-c", script], log=log, timeout=3600)


def _uri(suite: str, log: Path) -> str:
    """The machine's own archive for a suite. Raises UserError when apt knows none."""
    uris = uris_of(suite, log)
    if not uris:
        raise UserError(f"apt of this machine knows no Debian archive that may hold {suite}")
    return uris[0]


def _bootstrapped(suite: str, log: Path) -> Path:
    """The system without kernel. debootstrap verifies signatures and checksums."""
    final = use_entry("images", f"{suite}-{hashlib.sha256(repr(COMMON).encode()).hexdigest()[:16]}.root")
    words = ("debootstrap", "--variant=minbase", f"--keyring={KEYRING}", f"--include={','.join(COMMON)}", suite)
    return publish(final, lambda part: _debootstrap(words, part, _uri(suite, log), log), NEED, suite)


def _debootstrap(words: tuple[str, ...], part: Path, uri: str, log: Path) -> None:
    run([*words, part, uri], log=log, timeout=3600)


def encrypt(plain: Path, volume: Path, log: Path) -> None:
    """A LUKS2 volume that holds `plain`. Its key is no secret; the host needs no device mapper.

    cryptsetup writes the header, OpenSSL's library encrypts: aes-xts-plain64, whose numbers count 512 bytes.
    """
    key = hashlib.sha512(PASSPHRASE.encode()).digest()
    key_file, phrase = volume.with_suffix(".key"), volume.with_suffix(".phrase")
    key_file.write_bytes(key)
    phrase.write_text(PASSPHRASE)
    with volume.open("wb") as made:
        made.truncate((16 << 20) + plain.stat().st_size)
    luks = ["cryptsetup", "luksFormat", "-q", "--type", "luks2", "--cipher", "aes-xts-plain64", "--key-size", "512"]
    luks += ["--sector-size", str(SECTOR), "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    run([*luks, "--volume-key-file", key_file, "--key-file", phrase, volume], log=log, timeout=120)
    library = ctypes.CDLL(ctypes.util.find_library("crypto"))
    for function in ("EVP_CIPHER_CTX_new", "EVP_aes_256_xts"):
        getattr(library, function).restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.EVP_CIPHER_CTX_new())
    library.EVP_EncryptInit_ex(context, ctypes.c_void_p(library.EVP_aes_256_xts()), None, key, None)
    out, length = ctypes.create_string_buffer(SECTOR), ctypes.c_int()
    with plain.open("rb") as source, volume.open("r+b") as made:
        made.seek(16 << 20)
        for number in range(plain.stat().st_size // SECTOR):
            tweak = (number * SECTOR // 512).to_bytes(16, "little")
            library.EVP_EncryptInit_ex(context, None, None, None, tweak)
            library.EVP_EncryptUpdate(context, out, ctypes.byref(length), source.read(SECTOR), SECTOR)
            made.write(out.raw)
    library.EVP_CIPHER_CTX_free(context)
    key_file.unlink()
    phrase.unlink()
