"""The advice for recorded machines, and the facts behind it."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dmcrypt_advise import (
    ciphers,
    command,
    crypttab,
    disks,
    initramfs,
    judge,
    looking,
    mappings,
    screen,
)
from dmcrypt_advise.defects import KNOWN_DEFECTS, generated_files, is_affected, patch_places, version_numbers
from dmcrypt_advise.judge import CANNOT_TELL, DONE, FIX_FIRST, LEAVE, SET, TAKE_BACK, Verdict
from dmcrypt_advise.mappings import DISCARD, READ, WRITE
from dmcrypt_advise.recording import archive, load
from dmcrypt_advise.system import System
from machines import MACHINES, machine, unified

ADVISE = Path(__file__).resolve().parents[1]
LAPTOP = "debian-12-laptop"
UUID = "11111111-2222-3333-4444-555555555555"
NAME = "nvme0n1p3_crypt"
ROTATES = {"nvme0n1/queue/rotational <==\n0": "nvme0n1/queue/rotational <==\n1"}
ONE_QUEUE = {"/nvme0n1/mq/1/": "/nvme0n1/other/"}  # the disk completes in softirqs
ONE_CPU = {"==> /proc/swaps": "==> /sys/devices/system/cpu/possible <==\n0\n==> /proc/swaps"}
UNSAFE = {"6.1.119-1": "6.1.50-1", "1 allow_discards": "1 no_read_workqueue"}
ALL_OPTIONS = {"1 allow_discards": "3 allow_discards no_read_workqueue no_write_workqueue"}
ZEN = {**ALL_OPTIONS, "6.1.0-28-amd64": "6.17.1-zen1-1-zen", "Debian 6.1.119-1": "Arch"}
NEWEST = {"6.1.119-1": "7.3.4-1"}
NO_ASYNC = {"async        : yes": "async : no"}
NOT_SIMD = {"driver       : __xts-aes-aesni": "driver       : other"}


def verdicts(system: System) -> dict[str, Verdict]:
    """The verdicts by name of the mapping."""
    return {verdict.name: verdict for verdict in judge.judge(looking.look(system))}


def laptop(place: Path, **changed: str) -> Verdict:
    """The verdict on the laptop's only mapping."""
    [verdict] = verdicts(machine(LAPTOP, place, changed)).values()
    return verdict


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.txt")), ids=lambda path: path.stem)
def test_the_screen_of_a_machine(path: Path, tmp_path: Path) -> None:
    facts = looking.look(machine(path.stem, tmp_path))
    output = screen.text(facts, judge.judge(facts))
    assert output == path.with_suffix(".screen").read_text()
    assert all(len(line) <= screen.WIDTH or " sudo " in line for line in output.splitlines())
    assert json.loads(screen.as_json(facts, judge.judge(facts)))["not_seen"] == list(facts.unseen)


@pytest.mark.parametrize(
    ("changed", "advice", "flags"),
    [
        ({}, SET, {WRITE}),
        (ONE_QUEUE, SET, {READ, WRITE}),
        ({**ONE_QUEUE, **ONE_CPU}, SET, {WRITE}),
        ({"/nvme0n1/mq/0/": "/x/", "/nvme0n1/mq/1/": "/y/", "6.1.119-1": "6.1.50-1"}, SET, {WRITE}),
        ({"luks,discard": "luks,discard,header=/boot/header"}, CANNOT_TELL, set()),
        ({" ro quiet": f" ro rd.luks.options={UUID}=discard,header=/h"}, CANNOT_TELL, set()),
        ({" ro quiet": f" ro rd.luks.options={UUID[::-1]}=header=/h"}, SET, {WRITE}),
        (UNSAFE, TAKE_BACK, {READ}),
        ({**UNSAFE, "(no flags)\n\nData": "no-read-workqueue\nRequirements:\tonline-reencrypt\n"}, FIX_FIRST, set()),
        ({**UNSAFE, "Flags:       \t(no flags)": "Flags:       \tno-journal"}, FIX_FIRST, set()),
        ({"6.1.119-1": "6.9.1-1"}, SET, {READ, WRITE}),
        ({"6.1.119-1": "5.10.8-1", **ONE_QUEUE}, SET, {WRITE}),
        ({"v1.24.0": "v1.21.0"}, LEAVE, set()),
        ({"name         : xts(aes)": "name         : other", "6.1.119-1": "7.3.4-1"}, CANNOT_TELL, set()),
        # drivers that sleep in the caller
        ({**NEWEST, **NO_ASYNC, ": xts-aes-aesni": ": xts-aes-ux500"}, SET, {WRITE}),
        (
            {"6.1.119-1": "6.12.3-1", **NO_ASYNC, ": xts-aes-aesni": ": xts-paes-s390"},
            SET,
            {WRITE},
        ),
        ({**NEWEST, **NO_ASYNC, ": xts-aes-aesni": ": xts-paes-s390"}, SET, {READ, WRITE}),
        (
            {"none\n==> /sys/block/nvme0n1/queue/sched": "host-managed\n==> /sys/block/nvme0n1/queue/sched"},
            LEAVE,
            set(),
        ),
        (ROTATES, LEAVE, set()),
        ({**NOT_SIMD, "6.1.119-1": "7.3.4-1"}, FIX_FIRST, set()),
        ({"priority     : 401": "priority     : 1", "6.1.119-1": "6.12.1-1"}, SET, {WRITE}),
        ({"aes-xts-plain64": "aes-cbc-eboiv"}, FIX_FIRST, set()),
        # names of ciphers in the crypto API: without a driver the program could not tell
        ({**NEWEST, "xts-plain64": "cbc-essiv:a", ": xts(aes)": ": essiv(cbc(aes),a)"}, SET, {READ, WRITE}),
        ({**NEWEST, "aes-xts-plain64": "aes", ": xts(aes)": ": cbc(aes)"}, SET, {READ, WRITE}),
        ({**NEWEST, "aes-xts": "capi:lrw(x(aes))", ": xts(aes)": ": lrw(x(aes))"}, SET, {READ, WRITE}),
        ({"1 allow_discards": "1 integrity:32:aead", "6.1.119-1": "7.3.4-1"}, SET, {WRITE}),
        ({"(no flags)\n\nData": "(no flags)\nRequirements:\tonline-reencrypt\n"}, LEAVE, set()),
        ({"Flags:       \t(no flags)": "Flags:       \tno-journal"}, LEAVE, set()),
        ({"Flags:       \t(no flags)": "Flags:       \thigh_priority"}, SET, {WRITE}),
        ({"(no flags)\n\nData": "(no flags)\nRequirements:\topal\n", "LUKS2-1": "LUKS2-OPAL-1"}, SET, {WRITE}),
        ({"luksDump /dev/nvme0n1p3": "other"}, CANNOT_TELL, set()),
        ({"UUID:          \t1": "UUID:          \t9"}, CANNOT_TELL, set()),
        # kernels that set the flags by themselves
        (ZEN, LEAVE, set()),
        ({**ZEN, "6.17.1-zen1-1-zen": "7.0.14-2-liquorix-amd64"}, LEAVE, set()),
        ({**ZEN, **NOT_SIMD}, FIX_FIRST, set()),
        ({**ZEN, **NOT_SIMD, "(no flags)": "no-read-workqueue"}, TAKE_BACK, {READ, WRITE}),
        ({**ZEN, "3 allow_discards no_read_workqueue": "2 allow_discards"}, SET, {READ, WRITE}),
        ({**ZEN, "-zen1-1-zen": "-next"}, LEAVE, set()),
        ({**ZEN, "-zen1-1-zen": "-200.fc43"}, SET, {READ, WRITE}),
        ({**ZEN, "-zen1-1-zen": ""}, SET, {READ, WRITE}),
    ],
)
def test_the_verdict_follows_what_is_found(
    tmp_path: Path, changed: dict[str, str], advice: str, flags: set[str]
) -> None:
    verdict = laptop(tmp_path, **changed)
    assert (verdict.advice, set(verdict.flags)) == (advice, flags)
    assert bool(verdict.do) is (advice in (SET, TAKE_BACK))
    assert verdict.reasons


def test_a_kernel_whose_version_is_only_its_origin_may_have_later_defects(tmp_path: Path) -> None:
    changed = {"5.14.0-427.13.1.el9_4": "4.18.0-553.el8_10", "aes-xts-plain64": "aes-cbc-eboiv", "xts(aes)": "cbc(aes)"}
    verdict = verdicts(machine("rhel-9-server", tmp_path, changed))["fast"]
    assert (verdict.advice, set(verdict.refused), set(verdict.doubted)) == (CANNOT_TELL, set(), {READ, WRITE})


def test_an_active_option_that_is_not_found(tmp_path: Path) -> None:
    changed = {f"{NAME} UUID={UUID} none luks,discard": ""}
    assert "may be lost" in laptop(tmp_path / "a", **changed).conflicts[0]  # as on NixOS
    changed |= {" ro quiet": f" ro rd.luks.uuid={UUID}"}
    assert "stored nowhere" in laptop(tmp_path / "b", **changed).conflicts[0]


def test_without_root_the_unread_facts_are_listed(tmp_path: Path) -> None:
    text = (MACHINES / f"{LAPTOP}.txt").read_text()
    system = load(text[: text.index("==> $ dmsetup")], tmp_path, is_root=False)
    assert [verdict.status for verdict in verdicts(system).values()] == [2]
    facts = looking.look(system)
    assert next(line for line in facts.unseen if "needs root" in line) in screen.text(facts, judge.judge(facts))


def test_parse_table_keeps_the_size_of_the_key_only() -> None:
    text = (
        f"a: 0 8 crypt c {'ab' * 64} 0 8:0 0 3 sector_size:4096 integrity:28:aead allow_discards\n"
        "a: 8 8 crypt c :64:logon:secret-name 0 8:0 8 2 allow_discards no_read_workqueue\nb: 0 8 linear 8:0 0\n"
    )
    [(name, segments)] = mappings.parse_table(text).items()
    found = [(it.sector_size, it.integrity, it.key_bits, it.keyring) for it in segments]
    assert (name, found) == ("a", [(4096, True, 512, ""), (512, False, 512, "logon")])
    assert mappings.Mapping("a", "dm-0", "", "", segments).active == frozenset({DISCARD})
    assert "abab" not in repr(segments)
    assert "secret" not in repr(segments)


@pytest.mark.parametrize(
    ("driver", "slow"),
    [
        ("xts(ecb(aes-generic))", True),
        ("xts(ecb(aes-lib))", True),
        ("essiv(cbc(aes-generic),sha256-generic)", True),
        ("adiantum(xchacha12-generic,aes-generic,nhpoly1305-generic)", True),
        ("xts(cbc-twofish-3way)", True),
        ("cbc-blowfish-asm", True),
        ("xts-aes-lib", False),
        ("xts-aes-aesni", False),
        ("xts(ecb-aes-aesni)", False),
        ("authenc(hmac(sha256-generic),xts-aes-aesni)", False),
        ("adiantum(xchacha12-simd,aes-generic,nhpoly1305-generic)", False),
    ],
)
def test_drivers_without_instructions_for_their_cipher(tmp_path: Path, driver: str, slow: bool) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/crypto").write_text(f"name : xts(aes)\ndriver : {driver}\n")
    served = ciphers.cipher_driver(System(tmp_path), "aes-xts-plain64")
    assert served
    assert served.slow is slow


@pytest.mark.parametrize(
    ("driver", "name", "kind"),
    [
        ("qat_aes_xts", "xts-aes-aesni", ciphers.SYNC),
        ("xts-aes-caam-qi2", "xts-aes-aesni", ciphers.SYNC),
        ("xts(ecb-aes-ccp)", "xts-aes-aesni", ciphers.SYNC),
        ("n5_xts(aes)", "xts-aes-aesni", ciphers.SYNC),
        ("xts-aes-ccree", "xts-aes-ccree", ciphers.ASYNC),
        ("cpt_xts_aes", "cpt_xts_aes", ciphers.UNSURE),
    ],
)
def test_the_driver_that_dm_crypt_gets(tmp_path: Path, driver: str, name: str, kind: str) -> None:
    (tmp_path / "proc").mkdir()
    blocks = [
        f"name : xts(aes)\ndriver : {each}\npriority : {priority}\nasync : {queues}\n"
        for each, priority, queues in (("xts-aes-aesni", 401, "no"), (driver, 4001, "yes"))
    ]
    (tmp_path / "proc/crypto").write_text("\n".join(blocks))
    found = ciphers.cipher_driver(System(tmp_path), "aes-xts-plain64")
    assert found
    assert (found.name, found.kind) == (name, kind)
    (tmp_path / "proc/crypto").write_text(blocks[1])  # in use, as the mapping is open
    assert ciphers.cipher_driver(System(tmp_path), "aes-xts-plain64") == ciphers.CipherDriver(
        driver, ciphers.ASYNC, False
    )


@pytest.mark.parametrize(
    ("version", "has"),
    [("5.8", False), ("5.9", True), ("5.10.262", True), ("5.15.169", False), ("6.6.17", True), ("6.8", False)],
)
def test_versions_with_a_defect(version: str, has: bool) -> None:
    [defect] = [each for each in KNOWN_DEFECTS if "CVE-2024-26718" in each.symptom]
    assert is_affected(defect, version_numbers(version)) is has


@pytest.mark.parametrize("content", [b"other", b"\x1f\x8b\x08" + b"\xff" * 20, None])
def test_an_initramfs_that_is_damaged_or_missing_is_listed_as_unseen(tmp_path: Path, content: bytes | None) -> None:
    system = System(tmp_path)
    (tmp_path / "boot").mkdir()
    if content:
        (tmp_path / "boot/initrd.img-1").write_bytes(content)
    assert initramfs.find_initramfs(system, "1") == ("", {})
    assert system.unseen


def test_a_unified_kernel_image_is_read(tmp_path: Path) -> None:
    line = f"nvme0n1p3_crypt UUID={UUID} none luks,no-write-workqueue\n"
    initrd = gzip.compress(archive({"etc/crypttab": line}))
    words = f"quiet rd.luks.options={UUID}=discard\0"
    image = unified(uname=b"6.1.0-28-amd64", cmdline=words.encode(), initrd=initrd)
    system = machine(LAPTOP, tmp_path)
    place = tmp_path / "efi/EFI/Linux"
    place.mkdir(parents=True)
    (place / "a-fallback.efi").write_bytes(unified(uname=b"6.1.0-27-amd64", initrd=b"other"))
    (place / "b-debian.efi").write_bytes(image)
    name = "/efi/EFI/Linux/b-debian.efi"
    found = {"etc/crypttab": line, f"etc/cmdline.d/{name}": words.strip("\0")}
    assert initramfs.find_initramfs(system, "6.1.0-28-amd64") == (name, found)
    [verdict] = verdicts(system).values()
    assert any(f"no_write_workqueue, /etc/crypttab has allow_discards: build {name}" in it for it in verdict.conflicts)
    for damaged in (image[:70], b"MZ", b"x" * 200, image[:300]):
        (place / "b-debian.efi").write_bytes(damaged)
        system.unseen.clear()
        assert initramfs.find_initramfs(system, "6.1.0-28-amd64") == ("", {})
        assert any("initramfs" in line for line in system.unseen)


@pytest.mark.parametrize("packer", [["zstd"], ["lz4"], ["lz4", "-l"], ["xz"], ["xz", "--format=lzma"], ["gzip"]])
def test_compressions_of_an_initramfs(packer: list[str]) -> None:
    if not shutil.which(packer[0]):
        pytest.skip(f"there is no {packer[0]}")
    early = archive({"kernel/x86/microcode/AuthenticAMD.bin": "x"}) + b"\0" * 512
    inner = archive({"init": "#!", "etc/crypttab": "a b\n", "etc/cmdline.d/90crypt.conf": "rd.luks.uuid=x"})
    packed = subprocess.run([*packer, "-c"], input=inner, capture_output=True, check=True).stdout
    found = {"etc/crypttab": "a b\n", "etc/cmdline.d/90crypt.conf": "rd.luks.uuid=x"}
    assert initramfs.config_texts(early + packed) == initramfs.config_texts(packed) == found


@pytest.mark.parametrize(
    ("release", "package", "target", "wanted"),
    [
        ("6.1.0-28-amd64", "Parrot 6.1.15-1parrot1 (2023-04-25)", "1.24.0", ("6.1.15", True)),
        ("6.1.0-28-amd64", "Debian 1:6.1.15-1+rpt3 (2024-10-08)", "1.24.0", ("6.1.15", True)),
        ("5.3.18-150300.59.93-preempt", "", "1.22.0", ("5.3.18", False)),
        ("6.12.0-160000.5-default", "", "1.28.0", ("6.12", False)),
        ("6.11.3-1-default", "", "1.27.0", ("6.11.3", True)),
        ("5.10.0-216.0.0.115.oe2203sp4.x86_64", "", "1.23.0", ("5.10", False)),
        ("5.10.134-13.an8.x86_64", "", "1.23.0", ("5.10.134", False)),
        ("5.10.102-99.473.amzn2.x86_64", "", "1.23.0", ("5.10.102", False)),
        ("6.6.0-32.7.v2505.ky11.x86_64", "", "1.24.0", ("6.6", False)),
        ("5.10.0-136.12.0.86.h1032.eulerosv2r12.x86_64", "", "1.23.0", ("5.10", False)),
        ("6.8.12-9-pve", "PMX 6.8.12-9 (2025-03-16T19:18Z)", "1.25.0", ("6.8.12", True)),
        ("6.17.10+kali-amd64", "Kali 6.17.10-1kali1 (2025-12-08)", "1.28.0", ("6.17.10", True)),
        ("6.16.8+deb14-amd64", "Other 6.16.8-1 (2025-09-24)", "1.28.0", ("6.16.8", True)),
        ("6.6.0-98.0.0.103.x86_64", "", "1.24.0", ("6.6", False)),
        ("6.17.0-1-default", "", "1.28.0", ("6.17", True)),
        ("6.17.0-63.fc44.x86_64", "", "1.28.0", ("6.17", True)),
        ("6.8.0-060800-generic", "", "1.25.0", ("6.8", True)),
        ("6.17.0-arch1-1", "", "1.28.0", ("6.17", True)),
        ("5.4.0-vendor", "", "1.22.0", ("5.4", False)),
        ("5.4.0-vendor", "", "1.20.0", ("5.4", True)),
    ],
)
def test_the_version_of_the_kernel(
    tmp_path: Path, release: str, package: str, target: str, wanted: tuple[str, bool]
) -> None:
    changed = {"6.1.0-28-amd64": release, "Debian 6.1.119-1 (2024-11-22)": package, "v1.24.0": f"v{target}"}
    running = looking.look(machine(LAPTOP, tmp_path, changed)).kernel
    assert (running.version, running.exact) == (version_numbers(wanted[0]), wanted[1])
    assert running.distribution or not package


@pytest.mark.parametrize(
    ("line", "crypttab", "in_image", "options"),
    [
        (f"rd.luks.options={UUID}=timeout=30s", "discard", "", set()),
        (f"rd.luks.uuid=luks-{UUID} rd.luks.options=timeout=30s", "discard", "", {DISCARD}),
        ("rd.luks.options=no-read-workqueue", "discard", "", {DISCARD}),
        ("rd.luks.options=no-read-workqueue", "", "", set()),
        (f"rd.luks.uuid=luks-{UUID} rd.luks.crypttab=no", "discard", "", set()),
        ("rd.luks.crypttab=no", "discard", "", {DISCARD}),
        (f"cryptdevice=UUID={UUID}:x", "discard", "discard", {DISCARD}),  # initramfs-tools does not read it
        ("quiet", "discard", "no-write-workqueue", {WRITE}),
        ("quiet", "discard", "header=/boot/header", None),
    ],
)
def test_the_place_with_the_highest_precedence_counts(
    tmp_path: Path, line: str, crypttab: str, in_image: str, options: set[str] | None
) -> None:
    system = machine(LAPTOP, tmp_path, {" ro quiet": f" ro {line}"})
    (tmp_path / "etc/crypttab").write_text(f"{NAME} UUID={UUID} none {crypttab}\n" if crypttab else "")
    (tmp_path / "boot").mkdir()
    if in_image:
        files = {"cryptroot/crypttab": f"{NAME} UUID={UUID} none {in_image}\n", "cryptroot/keyfiles/a.key": "secret"}
        (tmp_path / "boot/initrd.img-6.1.0-28-amd64").write_bytes(gzip.compress(archive(files)))
    [found] = looking.look(system).mappings
    if options is None:  # the header is detached: the one on the disk is not read
        assert found.stored.header is None
    else:
        assert found.stored.next_boot == frozenset(options)
    assert "secret" not in repr(found)


def test_parse_crypttab() -> None:
    lines = crypttab.parse_crypttab("# a\u2028b\x0cc\x85\na b key discard\r\n\nc\v/d\u00a0e\n")
    assert [(line.name, line.options) for line in lines] == [("a", ("discard",)), ("c", ())]
    assert lines[1].source == "/d\u00a0e"


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (f"rescue UUID={UUID} none\n{NAME} UUID={UUID} none", 1),
        (f"{NAME} UUID={UUID[::-1]} none\nother UUID={UUID} none", 1),
        (f'{NAME} UUID="{UUID[::-1]}" none', None),
        (f"{NAME} /dev/disk/by-uuid/{UUID[::-1]} none", None),
        (f"a /dev/sda none\nother /dev/disk/by-uuid/{UUID} none", 1),
        (f"other UUID='{UUID.upper()}' none", 0),
        (f"{NAME} PARTUUID={UUID[::-1]} none", 0),
        (f"{NAME} /dev/x\u00a0y none", 0),
    ],
)
def test_the_line_of_a_mapping_in_crypttab(tmp_path: Path, lines: str, number: int | None) -> None:
    system = machine(LAPTOP, tmp_path)
    (tmp_path / "etc/crypttab").write_text(lines)
    [found] = looking.look(system).mappings
    assert found.stored.line == (crypttab.parse_crypttab(lines)[number] if number is not None else None)


def test_the_use_of_a_mapping(tmp_path: Path) -> None:
    assert disks.used_for(machine(LAPTOP, tmp_path), "dm-2", "x") == "swap"


DONE_WITHOUT_LVM = {
    **ALL_OPTIONS,
    "LVM-ab": "other-",
    "(no flags)\n\n": "no-read-workqueue no-write-workqueue\n\n",
    "6.1.119-1": "6.17.1-1",
}


@pytest.mark.parametrize(
    ("changed", "larger"),
    [
        ({}, True),
        ({"other-": "LVM-"}, False),
        ({"998166528": "998166529"}, False),
        ({"3 allow_discards": "4 sector_size:4096 allow_discards"}, False),
    ],
)
def test_larger_sectors_are_advised_if_the_volume_can_have_them(
    tmp_path: Path, changed: dict[str, str], larger: bool
) -> None:
    verdict = laptop(tmp_path, **DONE_WITHOUT_LVM, **changed)
    assert (verdict.advice, verdict.larger, verdict.status) == (DONE, larger, int(larger))
    assert bool(verdict.sectors) is ("3 allow_discards" not in changed)


@pytest.mark.parametrize(
    ("options", "advice"), [("2 no_read_workqueue no_write_workqueue", DONE), ("1 no_read_workqueue", SET)]
)
def test_a_doubted_flag_that_is_active_gives_status_2(tmp_path: Path, options: str, advice: str) -> None:
    header = options[2:].replace("_", "-")
    changed = {"259:0 32768": f"259:0 32768 {options}", "555\nFlags:       \t(no flags)": f"555\nFlags: {header}"}
    verdict = verdicts(machine("rhel-9-server", tmp_path, changed))["fast"]
    assert (verdict.advice, verdict.status, set(verdict.doubted)) == (advice, 2, {READ})


@pytest.mark.parametrize("name", ["dmcrypt-advise.8", "dmcrypt-advise.bash"])
def test_the_manual_page_and_the_completion_have_all_options(name: str) -> None:
    text = (ADVISE / name).read_text().replace("\\-", "-")
    assert set(re.findall(r"--[a-z-]+", text)) == set(re.findall(r"--[a-z-]+", command.option_parser().format_help()))


def test_flags_that_nothing_asks_for_show_a_kernel_that_sets_them(tmp_path: Path) -> None:
    verdict = laptop(tmp_path / "a", **{**ZEN, "-zen1-1-zen": "-next"})
    assert verdict.advice == LEAVE
    assert any("nothing else asks for them" in reason for reason in verdict.reasons)
    unknown = {f"{NAME} UUID={UUID} none luks,discard": ""}  # who opens it, and so what it asks for
    assert laptop(tmp_path / "b", **{**ZEN, "-zen1-1-zen": "-next", **unknown}).advice == SET


@pytest.mark.parametrize(
    ("version", "advice", "flags"),
    [
        ("7.3.2-1", SET, {READ, WRITE}),
        ("6.12.9-1", SET, {WRITE}),  # its queue leaves one defect of asynchronous ciphers
        ("6.13.3-1", FIX_FIRST, set()),  # there is no such module
    ],
)
def test_the_patched_module_is_recognised(tmp_path: Path, version: str, advice: str, flags: set[str]) -> None:
    system = machine(LAPTOP, tmp_path, {**NOT_SIMD, **ONE_QUEUE, "6.1.119-1": version})
    assert [verdict.advice for verdict in verdicts(system).values()] == [FIX_FIRST]
    (tmp_path / "sys/module/dm_crypt").mkdir(parents=True)
    (tmp_path / "sys/module/dm_crypt/version").write_text("1.0-inline\n")
    facts = looking.look(system)
    [verdict] = judge.judge(facts)
    assert (verdict.advice, set(verdict.flags)) == (advice, flags)
    assert "the patched module of this project, version 1.0" in screen.text(facts, (verdict,))


def test_a_fix_of_this_project_names_patch_and_package(tmp_path: Path) -> None:
    reasons = " ".join(laptop(tmp_path, **{**NOT_SIMD, "6.1.119-1": "6.12.9-1"}).reasons)
    title = "dm-crypt: do not submit writes from the completion of a cipher"
    assert f'this project has one for 6.12: the patch "{title}", also in the package dmcrypt-dkms' in reasons


def test_without_a_mapping_the_defects_of_the_kernel_are_listed(tmp_path: Path) -> None:
    facts = looking.look(load("==> /proc/sys/kernel/osrelease <==\n6.6.3\n", tmp_path))
    assert "CVE-2024-26718" in screen.text(facts, ())


@pytest.mark.parametrize(
    ("changed", "headline"),
    [
        ({}, "Set both flags and store them in the LUKS2 header."),
        ({**NOT_SIMD, "6.17.1-1": "6.9.1-1"}, "Set neither flag on this kernel."),
        (
            {"1 allow_discards": "1 no_read_workqueue"},
            "Set no_write_workqueue and store both flags in the LUKS2 header.",
        ),
        (ALL_OPTIONS, "Store both flags in the LUKS2 header."),
        ({"(no flags)": "no-read-workqueue no-write-workqueue"}, "Set both flags; the next boot does so in any case."),
        ({**ALL_OPTIONS, "(no flags)": "no-read-workqueue no-write-workqueue"}, "Keep both flags, active and stored."),
        ({"CRYPT-LUKS2": "CRYPT-LUKS1"}, "Set both flags and store them in /etc/crypttab."),
        ({"CRYPT-LUKS2": "CRYPT-BITLK"}, "Store both flags in /etc/crypttab, and open the volume again."),
        (ROTATES, "Leave it as it is."),
        ({"luksDump /dev/nvme0n1p3": "other"}, "Cannot tell: its LUKS2 header could not be read"),
    ],
)
def test_the_first_line_says_what_to_do(tmp_path: Path, changed: dict[str, str], headline: str) -> None:
    system = machine(LAPTOP, tmp_path, {"6.1.119-1": "6.17.1-1", **changed})
    [verdict] = verdicts(system).values()
    assert verdict.headline.startswith(headline)


def test_commands_are_complete_and_no_reason_is_printed_twice(tmp_path: Path) -> None:
    facts = looking.look(machine("rhel-9-server", tmp_path))
    output = screen.text(facts, judge.judge(facts), "sudo ./advise/dmcrypt-advise")
    for action in ("--apply fast", "--undo fast", "--measure fast", "--measure guest"):
        assert f"sudo ./advise/dmcrypt-advise {action}\n" in output
    assert not re.search(r"(?<!sudo )(cryptsetup refresh)|(?<!sudo \./advise/)dmcrypt-advise", output)
    assert output.count("is reported as success") == 1
    given = "by hand:\nupdate-initramfs -u\n    cryptsetup refresh a\nthe cryptsetup refresh"
    wanted = "by hand:\nsudo update-initramfs -u\n    sudo cryptsetup refresh a\nthe cryptsetup refresh"
    assert screen.complete(given, "sudo x") == wanted


def test_the_series_of_a_fix_are_those_of_the_queues() -> None:
    places = patch_places(ADVISE.parent)
    for defect in KNOWN_DEFECTS:
        queues = {re.sub(r"linux-([\d.]+).*", r"\1", place) for place in places.get(defect.patch, [])}
        assert set(defect.series) == queues, defect.title


@pytest.mark.parametrize(
    ("disk", "model", "transport", "kind"),
    [
        ("sda", "VMware Virtual disk", "", "virtual"),
        ("sda", "Msft Virtual Disk", "", "virtual"),  # Hyper-V and WSL2
        ("sda", "ATA VBOX HARDDISK", "sata", "virtual"),
        ("nvme0n1", "VMware Virtual NVMe Disk", "nvme", "virtual"),
        ("nvme1n1", "Amazon Elastic Block Store", "nvme", "virtual"),
        ("vda", "", "virtio", "virtual"),
        ("sdb", "SanDisk Ultra", "usb", "a USB disk"),
        ("sda", "ATA ST4000NM0035", "sata", ""),
    ],
)
def test_disks_that_may_be_wrong_about_rotating(disk: str, model: str, transport: str, kind: str) -> None:
    found = disks.Disk(disk, True, 512, 512, True, False, False, transport, model)
    assert found.unreliable == kind


def test_vendor_and_model_of_a_disk_are_read(tmp_path: Path) -> None:
    device = "==> /sys/block/sda/device/vendor <==\nATA     \n==> /sys/block/sda/device/model <==\nVBOX HARDDISK\n"
    assert disks.read_disk(load(device, tmp_path), "sda").virtual


def test_the_generated_documents_are_current() -> None:
    for path, content in generated_files(ADVISE.parent).items():
        assert path.read_text() == content, "python3 -m dmcrypt_advise.defects REPOSITORY"
