from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from dmcrypt_advise import looking, opening
from dmcrypt_advise.initramfs import find_initramfs
from dmcrypt_advise.looking import MappingFacts
from dmcrypt_advise.mappings import DISCARD, FLAGS, READ, WRITE
from dmcrypt_advise.mappings import Mapping as Volume
from dmcrypt_advise.opening import DRACUT, ENCRYPT, IN_INITRAMFS, INITRAMFS_TOOLS, SYSTEMD
from machines import LAPTOP, NAME, UUID, load, machine

ROOT = Volume("root", "dm-0", "LUKS1", UUID)
LINE = f"root UUID={UUID} none luks"
BOTH = "no-read-workqueue,no-write-workqueue"
IMAGE = "/boot/initrd.img-6.12.1"
SYSTEMD_FILE = f"==> cpio {IMAGE} usr/lib/systemd/systemd <==\n"
SCRIPTS = f"==> cpio {IMAGE} usr/lib/dracut/dracut-107 <==\n==> cpio {IMAGE} usr/sbin/cryptroot-ask <==\n"
HOOK = f"==> cpio {IMAGE} hooks/encrypt <==\n"
DEBIAN = f"==> cpio {IMAGE} conf/initramfs.conf <==\n"


def copy(options: str, member: str = "etc/crypttab") -> str:
    return f"==> cpio {IMAGE} {member} <==\n{LINE},{options}\n"


def found(place: Path, command_line: str, crypttab: str = "", image: str = "", mount: str = "/") -> MappingFacts:
    """The facts about a LUKS1 volume, which has no header for options. `crypttab`: its options there."""
    text = f"""\
==> /proc/sys/kernel/osrelease <==
6.12.1
==> /proc/cmdline <==
{command_line}
==> /proc/self/mounts <==
/dev/mapper/root {mount} ext4 rw 0 0
==> /etc/crypttab <==
{f"{LINE},{crypttab}" if crypttab else ""}
==> /sys/block/dm-0/dm/name <==
root
==> /sys/block/dm-0/dm/uuid <==
CRYPT-LUKS1-{UUID.replace("-", "")}-root
==> /sys/block/dm-0/slaves/nvme0n1/ <==
==> /sys/block/nvme0n1/queue/rotational <==
0
==> $ dmsetup table --target crypt <==
root: 0 8 crypt aes-xts-plain64 {"0" * 128} 0 259:0 8 2 {READ} {WRITE}
{image}"""
    [only] = looking.look(load(text, place)).mappings
    return only


@pytest.mark.parametrize(
    ("command_line", "crypttab", "image", "opener", "options"),
    [
        # initramfs-tools
        ("quiet", BOTH, copy("discard", "cryptroot/crypttab"), INITRAMFS_TOOLS, {DISCARD}),
        (f"cryptopts=source=UUID={UUID},{BOTH}", BOTH, DEBIAN, None, set()),
        # systemd in the initramfs
        ("quiet", "", SYSTEMD_FILE + copy("allow-discards"), IN_INITRAMFS, {DISCARD}),
        (f"rd.luks.options={UUID}={BOTH}", "discard", SYSTEMD_FILE + copy("discard"), IN_INITRAMFS, {READ, WRITE}),
        (f"rd.luks.options={BOTH}", "discard", SYSTEMD_FILE + copy("discard"), IN_INITRAMFS, {DISCARD}),
        (f"rd.luks.uuid={UUID} rd.luks.crypttab=0", BOTH, "", IN_INITRAMFS, set()),
        (f"rd.luks.uuid={UUID}", BOTH, SYSTEMD_FILE, IN_INITRAMFS, set()),  # no copy of crypttab
        (f"rd.luks.uuid={UUID} cryptdevice=UUID={UUID}:root:{BOTH}", "", SYSTEMD_FILE, IN_INITRAMFS, set()),
        ("quiet", BOTH, SYSTEMD_FILE, None, set()),  # the root file system, and nothing names its volume
        # dracut's scripts
        (f"rd.luks.uuid={UUID}", "discard", SCRIPTS + copy("allow-discards"), DRACUT, {DISCARD}),
        (f"rd.luks.uuid={UUID} rd.luks.allow-discards rd.luks.options={BOTH}", "", SCRIPTS, DRACUT, {DISCARD}),
        (f"rd.luks.uuid={UUID} rd.luks.crypttab=0", "discard", SCRIPTS + copy("allow-discards"), DRACUT, set()),
        # mkinitcpio
        (f"cryptdevice=UUID={UUID}:root rd.luks.options={UUID}={BOTH}", BOTH, HOOK, ENCRYPT, set()),
        ("cryptdevice=/dev/sda2:root:perf-no_read_workqueue,same-cpu-crypt", "", "", ENCRYPT, {READ}),
        # unknown
        ("quiet", "", "", None, set()),
        ("quiet", BOTH, "", SYSTEMD, {READ, WRITE}),
        ("quiet", "discard, no-read-workqueue", "", SYSTEMD, {DISCARD}),  # the field ends at the space
    ],
)
def test_only_the_places_that_the_opener_reads_count(
    tmp_path: Path, *, command_line: str, crypttab: str, image: str, opener: opening.Opener | None, options: set[str]
) -> None:
    stored = found(tmp_path, command_line, crypttab, image).stored
    assert stored.opening.opener.name == (opener.name if opener else "")
    assert stored.next_boot == options
    assert stored.opening.known is (opener is not None)


@pytest.mark.parametrize(
    ("command_line", "options"),
    [
        ("rd.luks.options=discard", set(FLAGS)),
        (f"luks.options={UUID}=discard", {DISCARD}),
        ("luks=no", set()),
    ],
)
def test_the_running_system_opens_other_volumes(tmp_path: Path, command_line: str, options: set[str]) -> None:
    stored = found(tmp_path, command_line, BOTH, SYSTEMD_FILE, mount="/srv").stored
    assert stored.next_boot == options


@pytest.mark.parametrize(
    ("opener", "words", "texts"),
    [
        (SYSTEMD, "luks,tpm2-device=auto,discard,no-read-workqueue", []),
        (SYSTEMD, "--perf-no_write_workqueue", ["its spelling is no-write-workqueue"]),
        (SYSTEMD, "discards,no-write-workqueues", ["its spelling is discard", "its spelling is no-write-workqueue"]),
        (SYSTEMD, "high-priority", ["ignores high-priority"]),
        (ENCRYPT, "sector-size=4096,same-cpu-crypt", ["ignores same-cpu-crypt"]),
        (replace(INITRAMFS_TOOLS, installed=(2, 3, 7)), "no-read-workqueue", ["cryptsetup 2.3.7 is older than 2.4"]),
        (replace(INITRAMFS_TOOLS, installed=(2, 4, 3)), BOTH, []),
        (replace(SYSTEMD, installed=(239,)), "discard,same-cpu-crypt", ["systemd 239 is older than 248"]),
    ],
)
def test_options_that_nobody_reads_are_named(opener: opening.Opener, words: str, texts: list[str]) -> None:
    ignored = opener.ignored(words.split(","), "crypttab")
    assert len(ignored) == len(texts)
    assert all(text in line for line, text in zip(ignored, texts, strict=True))


@pytest.mark.parametrize("place", ["/efi/0123456789abcdef/6.12.1/initrd", "/usr/lib/modules/6.12.1/initramfs.img"])
def test_where_the_initramfs_is(tmp_path: Path, place: str) -> None:
    system = load(f"==> cpio {place} etc/crypttab <==\nroot x\n", tmp_path)
    assert find_initramfs(system, "6.12.1") == (place, {"etc/crypttab": "root x\n"})


def test_a_disk_with_a_slash_in_its_name(tmp_path: Path) -> None:
    changed = {"/nvme0n1": "/cciss!c0d0", "/dev/cciss!": "/dev/cciss/", "\nnvme0n1 ": "\ncciss/c0d0 "}
    [only] = looking.look(machine(LAPTOP, tmp_path, changed)).mappings
    assert only.stored.header == frozenset()
    assert [disk.transport for disk in only.disks] == ["nvme"]


def test_a_drive_that_encrypts_alone_has_no_dm_crypt_mapping(tmp_path: Path) -> None:
    changed = {"LUKS2-": "LUKS2-OPAL-", f"{NAME}: 0": "other: 0"}
    assert looking.look(machine(LAPTOP, tmp_path, changed)).mappings == ()


def test_an_unreadable_directory_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = load("==> cpio /boot/initrd-6.12.1 etc/crypttab <==\n", tmp_path)
    monkeypatch.setattr(Path, "is_file", Mock(side_effect=PermissionError(13, "Permission denied")))
    assert find_initramfs(system, "6.12.1") == ("", {})
    assert any("Permission denied" in text for text in system.unseen)
