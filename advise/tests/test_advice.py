import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dmcrypt_advise import ciphers, command, crypttab, disks, initramfs, judge, looking, mappings, screen
from dmcrypt_advise.defects import KNOWN_DEFECTS, generated_files, patch_places, version_numbers
from dmcrypt_advise.judge import CANNOT_TELL, FIX_FIRST, LEAVE, SET, TAKE_BACK, Verdict
from dmcrypt_advise.mappings import DISCARD, READ, WRITE
from dmcrypt_advise.system import System
from machines import LAPTOP, MACHINES, NAME, ONE_QUEUE, UUID, archive, load, machine

ADVISE = Path(__file__).resolve().parents[1]
ONE_CPU = {"==> /proc/swaps": "==> /sys/devices/system/cpu/possible <==\n0\n==> /proc/swaps"}
UNSAFE = {"6.1.119-1": "6.1.50-1", "1 allow_discards": "1 no_read_workqueue"}
ALL_OPTIONS = {"1 allow_discards": "3 allow_discards no_read_workqueue no_write_workqueue"}
ZEN = {**ALL_OPTIONS, "6.1.0-28-amd64": "6.17.1-zen1-1-zen", "Debian 6.1.119-1": "Arch"}
NEWEST = {"6.1.119-1": "7.3.4-1"}
NO_LVM = {"LVM-ab": "other-"}
NO_ASYNC = {"async        : yes": "async : no"}
NOT_SIMD = {"driver       : __xts-aes-aesni": "driver       : other"}
MODULE = {"==> /proc/swaps": "==> /sys/module/dm_crypt/version <==\n1.0-inline\n==> /proc/swaps"}
PATCHED = {**NOT_SIMD, **ONE_QUEUE, **MODULE}


def verdicts(system: System) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in judge.judge(looking.look(system))}


def laptop(place: Path, **changed: str) -> Verdict:
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
        ({**NEWEST, **NO_ASYNC, ": xts-aes-aesni": ": xts-paes-s390"}, SET, {READ, WRITE}),
        ({"zoned <==\nnone": "zoned <==\nhost-managed"}, LEAVE, set()),
        ({**NOT_SIMD, "6.1.119-1": "7.3.4-1"}, FIX_FIRST, set()),
        ({"priority     : 401": "priority     : 1", "6.1.119-1": "6.12.1-1"}, SET, {WRITE}),
        ({"aes-xts-plain64": "aes-cbc-eboiv"}, CANNOT_TELL, set()),  # no driver of this name
        # a name in the crypto API: without a driver the program could not tell
        ({**NEWEST, "aes-xts-plain64": "aes", ": xts(aes)": ": cbc(aes)"}, SET, {READ, WRITE}),
        ({"1 allow_discards": "1 integrity:32:aead", "6.1.119-1": "7.3.4-1"}, SET, {WRITE}),
        ({"(no flags)": "no-write-workqueue"}, SET, {WRITE}),
        ({"(no flags)\n\nData": "(no flags)\nRequirements:\tonline-reencrypt\n"}, LEAVE, set()),
        ({"Flags:       \t(no flags)": "Flags:       \tno-journal"}, LEAVE, set()),
        ({"luksDump /dev/nvme0n1p3": "other"}, CANNOT_TELL, set()),
        ({"UUID:          \t1": "UUID:          \t9"}, CANNOT_TELL, set()),
        # the patched module
        ({**PATCHED, "6.1.119-1": "7.3.2-1"}, SET, {READ, WRITE}),
        ({**PATCHED, "6.1.119-1": "6.12.9-1"}, SET, {WRITE}),  # its queue leaves one defect of asynchronous ciphers
        ({**PATCHED, "6.1.119-1": "6.13.3-1"}, FIX_FIRST, set()),  # there is no such module
        # kernels that set the flags by themselves
        (ZEN, LEAVE, set()),
        ({**ZEN, **NOT_SIMD}, FIX_FIRST, set()),
        ({**ZEN, **NOT_SIMD, "(no flags)": "no-read-workqueue"}, TAKE_BACK, {READ, WRITE}),
        ({**ZEN, "3 allow_discards no_read_workqueue": "2 allow_discards"}, SET, {READ, WRITE}),
        ({**ZEN, "-zen1-1-zen": "-next"}, SET, {READ, WRITE}),
    ],
)
def test_the_verdict_follows_what_is_found(
    tmp_path: Path, changed: dict[str, str], advice: str, flags: set[str]
) -> None:
    verdict = laptop(tmp_path, **changed)
    assert (verdict.advice, set(verdict.flags)) == (advice, flags)
    assert bool(verdict.do) is (advice in (SET, TAKE_BACK))
    assert verdict.reasons


def test_without_root_the_unread_facts_are_listed(tmp_path: Path) -> None:
    text = (MACHINES / f"{LAPTOP}.txt").read_text()
    system = load(text[: text.index("==> $ dmsetup")], tmp_path, is_root=False)
    assert [verdict.status for verdict in verdicts(system).values()] == [2]
    facts = looking.look(system)
    assert next(line for line in facts.unseen if "needs root" in line) in screen.text(facts, judge.judge(facts))


def test_the_program_prints_the_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    system = machine(LAPTOP, tmp_path)
    monkeypatch.setattr(command, "System", lambda: system)
    assert command.main([]) == command.main(["--json"]) == 1
    assert '"version": "6.1.119"' in capsys.readouterr().out


def test_what_cannot_be_read_is_listed_once(tmp_path: Path) -> None:
    system = machine(LAPTOP, tmp_path, {"$ dmsetup table": "$ other"})
    (tmp_path / "etc/crypttab").unlink()
    (tmp_path / "etc/crypttab").mkdir()  # not even root can read it
    assert len(looking.look(system).unseen) == 3


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
        ("essiv(cbc(aes-generic),sha256-generic)", True),
        ("adiantum(xchacha12-generic,aes-generic,nhpoly1305-generic)", True),
        ("xts(cbc-twofish-3way)", True),
        ("cbc-blowfish-asm", True),
        ("xts-aes-lib", True),
        ("authenc(hmac(sha256-lib),cbc-aes-lib)", True),
        ("qat_aes_xts", False),  # dm-crypt could not get it, and yet the mapping is open
        ("xts(ecb-aes-aesni)", False),
        ("authenc(hmac(sha256-generic),xts-aes-aesni)", False),
        ("authenc(cmac-aes-lib,xts-aes-aesni)", False),
        ("adiantum(xchacha12-simd,aes-generic,nhpoly1305-generic)", False),
    ],
)
def test_drivers_without_instructions_for_their_cipher(tmp_path: Path, driver: str, slow: bool) -> None:
    system = load(f"==> /proc/crypto <==\nname : xts(aes)\ndriver : {driver}\n", tmp_path)
    assert ciphers.cipher_driver(system, "aes-xts-plain64") == ciphers.CipherDriver(driver, ciphers.SYNC, slow)


@pytest.mark.parametrize("damaged", [b"x" * 200, b"\x1f\x8b\x08" + b"\xff" * 20, b"070701" + b"x" * 104])
def test_a_damaged_initramfs_is_not_read(tmp_path: Path, damaged: bytes) -> None:
    system = load("==> /boot/initrd-6.12.1 <==\n", tmp_path)
    (tmp_path / "boot/initrd-6.12.1").write_bytes(damaged)
    assert initramfs.find_initramfs(system, "6.12.1") == ("", {})
    assert any("initramfs: /boot/initrd-6.12.1" in line for line in system.unseen)


@pytest.mark.parametrize("packer", [["zstd"], ["lz4"], ["lz4", "-l"], ["xz"], ["xz", "--format=lzma"], ["gzip"]])
def test_compressions_of_an_initramfs(packer: list[str]) -> None:
    if not shutil.which(packer[0]):
        pytest.skip(f"there is no {packer[0]}")
    early = archive({"kernel/x86/microcode/AuthenticAMD.bin": "x"}) + b"\0" * 512
    inner = archive({"init": "#!", "etc/crypttab": "a b\n", "hooks/encrypt": "#!"})
    packed = subprocess.run([*packer, "-c"], input=inner, capture_output=True, check=True).stdout
    found = {"etc/crypttab": "a b\n", "hooks/encrypt": ""}
    assert initramfs.config_texts(early + packed) == initramfs.config_texts(packed) == found


@pytest.mark.parametrize(
    ("release", "package", "target", "wanted"),
    [
        ("5.3.18-150300.59.93-preempt", "", "1.22.0", ("5.3.18", False)),
        ("6.12.0-160000.5-default", "", "1.28.0", ("6.12", False)),
        ("6.11.3-1-default", "", "1.27.0", ("6.11.3", True)),
        ("5.10.0-216.0.0.115.oe2203sp4.x86_64", "", "1.23.0", ("5.10", False)),
        ("5.10.134-13.an8.x86_64", "", "1.23.0", ("5.10.134", False)),
        ("5.10.0-136.12.0.86.h1032.eulerosv2r12.x86_64", "", "1.23.0", ("5.10", False)),
        ("6.16.8+deb14-amd64", "Other 6.16.8-1 (2025-09-24)", "1.28.0", ("6.16.8", True)),
        ("6.6.0-98.0.0.103.x86_64", "", "1.24.0", ("6.6", False)),
        ("6.17.0-1-default", "", "1.28.0", ("6.17", True)),
        ("6.17.0-63.fc44.x86_64", "", "1.28.0", ("6.17", True)),
        ("6.8.0-060800-generic", "", "1.25.0", ("6.8", True)),
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
def test_the_line_of_a_mapping_in_crypttab(lines: str, number: int | None) -> None:
    parsed = crypttab.parse_crypttab(lines)
    found = crypttab.line_of(parsed, mappings.Mapping(NAME, "dm-0", "LUKS2", UUID))
    assert found == (None if number is None else parsed[number])


@pytest.mark.parametrize(
    ("changed", "larger"),
    [
        (NO_LVM, True),
        ({}, False),
        ({**NO_LVM, "998166528": "998166529"}, False),
        ({**NO_LVM, "CRYPT-LUKS2": "CRYPT-LUKS1"}, False),
        ({**NO_LVM, "1 allow_discards": "2 sector_size:4096 allow_discards"}, False),
    ],
)
def test_larger_sectors_are_advised_if_the_volume_can_have_them(
    tmp_path: Path, changed: dict[str, str], larger: bool
) -> None:
    assert laptop(tmp_path, **changed).larger is larger


def test_a_doubted_flag_that_is_active_gives_status_2(tmp_path: Path) -> None:
    changed = {"259:0 32768": "259:0 32768 1 no_read_workqueue"}
    verdict = verdicts(machine("rhel-9-server", tmp_path, changed))["fast"]
    assert (verdict.advice, verdict.status, set(verdict.doubted)) == (SET, 2, {READ})


@pytest.mark.parametrize("name", ["dmcrypt-advise.8", "dmcrypt-advise.bash"])
def test_the_manual_page_and_the_completion_have_all_options(name: str) -> None:
    text = (ADVISE / name).read_text().replace("\\-", "-")
    assert set(re.findall(r"--[a-z-]+", text)) == set(re.findall(r"--[a-z-]+", command.option_parser().format_help()))


def test_without_a_mapping_the_defects_of_the_kernel_are_listed(tmp_path: Path) -> None:
    facts = looking.look(load("==> /proc/sys/kernel/osrelease <==\n6.6.3\n", tmp_path))
    assert "CVE-2024-26718" in screen.text(facts, ())


def test_commands_are_complete() -> None:
    given = "by hand:\nupdate-initramfs -u\n    cryptsetup refresh a\nthe refresh; dmcrypt-advise --undo a"
    wanted = "by hand:\nsudo update-initramfs -u\n    sudo cryptsetup refresh a\nthe refresh; sudo x --undo a"
    assert screen.complete(given, "sudo x").replace(screen.UNBROKEN, " ") == wanted


def test_the_series_of_a_fix_are_those_of_the_queues() -> None:
    places = patch_places(ADVISE.parent)
    for defect in KNOWN_DEFECTS:
        queues = {re.sub(r"linux-([\d.]+).*", r"\1", place) for place in places.get(defect.patch, [])}
        assert set(defect.series) == queues, defect.title


def test_vendor_and_model_of_a_disk_are_read(tmp_path: Path) -> None:
    device = "==> /sys/block/sda/device/vendor <==\nATA     \n==> /sys/block/sda/device/model <==\nVBOX HARDDISK\n"
    assert disks.read_disk(load(device, tmp_path), "sda").virtual


def test_the_generated_documents_are_current() -> None:
    for path, content in generated_files(ADVISE.parent).items():
        assert path.read_text() == content, "python3 -m dmcrypt_advise.defects REPOSITORY"
