"""Disks for `make package-test`: Debian with its own kernel and initramfs, dkms, and a root in a LUKS2 volume."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import UserError
from ..common.host import KEYRING
from ..common.paths import GIB, TOOLS, publish, use_entry
from ..common.run import run
from ..trees.archive import uris_of

NEED = 6 * GIB
ROOT_SIZE, BOOT_SIZE, HEADER = 2 * GIB, 256 << 20, 16 << 20
SECTOR = 4096  # of the volume and its file system
PASSPHRASE = "not a secret"  # the volume contains nothing of value
KEY_FILE = "/etc/keys/root.key"
# For Secure Boot: programs that Microsoft and Debian signed, by the paths where the firmware and shim look for them.
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
# Files of the system, written before its kernel is installed.
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
    *("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer"),
    "systemd-timesyncd.service",
)


@dataclass(frozen=True)
class DebianSystem:
    """A Debian release; `packages` make its initramfs, and Secure Boot possible.

    `arriving`: suites whose kernels the system has downloaded, and not installed.
    """

    suite: str
    packages: tuple[str, ...]
    arriving: tuple[str, ...] = ()


INITRAMFS_TOOLS = ("cryptsetup-initramfs", "initramfs-tools")
SYSTEMS = {
    "trixie": DebianSystem("trixie", INITRAMFS_TOOLS, ("trixie-security", "trixie-backports")),
    "trixie-dracut": DebianSystem("trixie", ("dracut", "systemd-cryptsetup")),
    "trixie-secure": DebianSystem("trixie", (*INITRAMFS_TOOLS, *SECURE_BOOT), ("trixie-backports",)),
    "bookworm": DebianSystem("bookworm", INITRAMFS_TOOLS),
}


def make_disks(name: str, log: Path) -> Path:
    """Make the disks of a system once, as root; return their directory: root.img, boot.img, esp/ for Secure Boot."""
    system = SYSTEMS[name]
    if os.geteuid() != 0:
        raise UserError("make package-test needs root: it makes its disks with debootstrap and chroot")
    identity = repr((system, COMMON, sorted(FILES.items()), MASKED, PASSPHRASE)).encode()
    final = use_entry("images", f"{name}-{hashlib.sha256(identity).hexdigest()[:16]}")
    return publish(final, lambda part: _make(system, part, log), NEED, f"making the disks of {name}", log)


def _make(system: DebianSystem, part: Path, log: Path) -> None:
    root = part / "root"
    # debootstrap verifies signatures and checksums.
    minimal = ("--variant=minbase", f"--keyring={KEYRING}", f"--include={','.join(COMMON)}")
    run(["debootstrap", *minimal, system.suite, root, uris_of(system.suite, log)[0]], log=log, timeout=3600)
    suites = (system.suite, *system.arriving)
    sources = "".join(f"deb [signed-by={KEYRING}] {uris_of(suite, log)[0]} {suite} main\n" for suite in suites)
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
        options = ("-q", "-t", "ext4", "-b", str(SECTOR), "-d", part / name)
        run(["mke2fs", *options, part / f"{name}.img", f"{size >> 10}k"], log=log, timeout=900)
        shutil.rmtree(part / name)
    (part / "root.img").rename(part / "root.plain")
    encrypt(part / "root.plain", part / "root.img", log)
    (part / "root.plain").unlink()


def _inside(root: Path, commands: Sequence[str], log: Path) -> None:
    """Run shell commands inside the system, in a mount namespace of their own: nothing stays mounted."""
    script = "\n".join(["set -e", "mount -t proc proc /proc", "export DEBIAN_FRONTEND=noninteractive", *commands])
    run(["unshare", "--mount", "chroot", root, "sh", "-c", script], log=log, timeout=3600)


def encrypt(plain: Path, volume: Path, log: Path) -> None:
    """Make a LUKS2 volume that contains `plain`, without the host's device mapper. Its key is no secret.

    cryptsetup writes the header. The cipher is aes-xts-plain64, whose tweak counts units of 512 bytes.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  (only in python_env)

    key = hashlib.sha512(PASSPHRASE.encode()).digest()
    key_file = volume.with_suffix(".key")
    key_file.write_bytes(key)
    with volume.open("wb") as made:
        made.truncate(HEADER + plain.stat().st_size)
    luks = ["cryptsetup", "luksFormat", "-q", "--type", "luks2", "--cipher", "aes-xts-plain64", "--key-size", "512"]
    luks += ["--sector-size", str(SECTOR), "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    luks += ["--key-file", "-"]  # the passphrase is read from standard input
    run([*luks, "--volume-key-file", key_file, volume], log=log, timeout=120, stdin=PASSPHRASE.encode())
    with plain.open("rb") as source, volume.open("r+b") as made:
        made.seek(HEADER)
        for unit in range(0, plain.stat().st_size // 512, SECTOR // 512):
            xts = modes.XTS(unit.to_bytes(16, "little"))
            made.write(Cipher(algorithms.AES(key), xts).encryptor().update(source.read(SECTOR)))
    key_file.unlink()
