import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from dmcrypt_advise import applying, judge, looking
from dmcrypt_advise.applying import User
from dmcrypt_advise.errors import AdviseError
from dmcrypt_advise.judge import Verdict
from dmcrypt_advise.mappings import OPTIONS
from dmcrypt_advise.system import System
from machines import LAPTOP, NAME, ONE_QUEUE, UUID, archive, machine, write

TABLE = "dmsetup table --target crypt"
LUKS1 = "ubuntu-22.04-raid"
DUMP = "cryptsetup luksDump /dev/nvme0n1p3"
READ, WRITE = "--perf-no_read_workqueue", "--perf-no_write_workqueue"
UNSAFE = {"6.1.119-1": "6.1.50-1"}  # no_read_workqueue is unsafe on NVMe


class Cryptsetup:
    """A machine whose `cryptsetup refresh` changes table and header as the real one does."""

    def __init__(self, system: System) -> None:
        self.output: dict[str, str] = dict(system.recorded or {})
        self.system = replace(system, recorded=self.output)
        self.calls: list[list[str]] = []
        self.messages: list[str] = []
        self.user = User(self.messages.append, lambda _: "yes", call=self.call)

    def call(self, argv: Sequence[str]) -> int:
        """Set the given options and, without --persistent, those of the header."""
        self.calls.append(list(argv))
        given = [option for option, (name, _, _) in OPTIONS.items() if name in argv]
        if "--persistent" in argv:
            self.output[DUMP] = f"UUID: {UUID}\nFlags: " + " ".join(OPTIONS[option][1] for option in given)
        options = sorted({*given, *self.header})
        base = self.output[TABLE].split()[:9]
        self.output[TABLE] = " ".join([*base, str(len(options)), *options]) + "\n"
        return 0

    @property
    def active(self) -> list[str]:
        return self.output[TABLE].split()[10:]

    @property
    def header(self) -> list[str]:
        return [option for option, (_, name, _) in OPTIONS.items() if name in self.output.get(DUMP, "")]

    @property
    def verdict(self) -> Verdict:
        [verdict] = judge.judge(looking.look(self.system))
        return verdict


def laptop(place: Path, **changed: str) -> Cryptsetup:
    """A laptop with discards that only its crypttab stores."""
    return Cryptsetup(machine(LAPTOP, place, changed))


@pytest.fixture
def luks2(tmp_path: Path) -> Cryptsetup:
    """The laptop with a disk for both flags."""
    return laptop(tmp_path, **ONE_QUEUE)


@pytest.fixture
def luks1(tmp_path: Path) -> Cryptsetup:
    """A RAID whose flags only crypttab can store."""
    return Cryptsetup(machine(LUKS1, tmp_path))


def test_apply_keeps_every_option_where_it_was_and_undo_removes_both_flags(luks2: Cryptsetup) -> None:
    applying.apply(luks2.system, NAME, replace(luks2.user, key_file="/etc/keys/data"))
    key = ["--key-file", "/etc/keys/data"]
    assert luks2.calls == [
        ["cryptsetup", "refresh", NAME, "--persistent", READ, WRITE, *key],
        ["cryptsetup", "refresh", NAME, "--allow-discards", READ, WRITE, *key],
    ]
    assert luks2.verdict.advice == judge.DONE
    with pytest.raises(AdviseError, match="nothing was changed"):
        applying.apply(luks2.system, NAME, luks2.user)
    applying.undo(luks2.system, NAME, luks2.user)
    assert (luks2.active, luks2.header) == (["allow_discards"], [])
    with pytest.raises(AdviseError, match="can change nothing"):
        applying.undo(luks2.system, NAME, luks2.user)


def test_an_unsafe_flag_in_the_header_is_removed(tmp_path: Path) -> None:
    made = laptop(tmp_path, **UNSAFE, **{"(no flags)": "no-read-workqueue"})
    assert (made.verdict.advice, set(made.verdict.flags)) == (judge.TAKE_BACK, {"no_read_workqueue"})
    applying.apply(made.system, NAME, made.user)
    assert [call[3:] for call in made.calls] == [["--persistent"], ["--allow-discards"]]
    assert (made.active, made.header) == (["allow_discards"], [])


def test_an_unsafe_flag_that_only_crypttab_stores_is_removed_by_hand(tmp_path: Path) -> None:
    made = laptop(tmp_path, **UNSAFE, **{"luks,discard": "luks,no-read-workqueue,discard"})
    assert (made.verdict.advice, made.verdict.status) == (judge.TAKE_BACK, 1)
    with pytest.raises(AdviseError, match=f"{NAME} UUID={UUID} none luks,discard$"):
        applying.apply(made.system, NAME, made.user)
    assert made.calls == []


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (f"rd.luks.options={UUID}=no-read-workqueue", f"by:\nrd.luks.options={UUID}="),
        (f"cryptdevice=UUID={UUID}:x:no-read-workqueue,discard", f"by:\ncryptdevice=UUID={UUID}:x:discard"),
    ],
)
def test_a_flag_that_the_next_boot_would_set_again_is_a_manual_step(tmp_path: Path, line: str, step: str) -> None:
    made = laptop(tmp_path, **UNSAFE, **{"1 allow_discards": "1 no_read_workqueue", " quiet": f" {line}"})
    applying.apply(made.system, NAME, made.user)
    assert made.messages[-1].endswith(step)
    assert made.active == []
    assert made.verdict.advice == judge.TAKE_BACK
    assert [each.endswith(step) for each in made.verdict.do] == [True]


def test_an_argument_to_type_has_no_word_that_its_reader_ignores(luks1: Cryptsetup, tmp_path: Path) -> None:
    argument = "rd.luks.options=99999999-2222-3333-4444-555555555555="
    write(tmp_path, {"proc/cmdline": f"{argument}discard,no_write_workqueue,perf-no_read_workqueue".encode()})
    assert luks1.verdict.do[-1].endswith(f"by:\n{argument}discard,no-write-workqueue")


@pytest.mark.parametrize(
    ("image", "step"),
    [
        ("initrd.img-5.15.0-91-generic", "dracut --force /boot/initrd.img-5.15.0-91-generic"),
        ("initramfs-5.15.0-91-generic.img", "dracut --force"),
        ("initramfs-linux-lts.img", "mkinitcpio -P"),
        ("efi/suse/5.15.0-91-generic/initrd-abc123", "sdbootutil mkinitrd"),
        ("efi/x/5.15.0-91-generic/initrd", "/usr/lib/modules/5.15.0-91-generic/vmlinuz"),
    ],
)
def test_an_initramfs_with_a_copy_of_crypttab_must_be_built_again(
    luks1: Cryptsetup, tmp_path: Path, image: str, step: str
) -> None:
    packed = archive({"etc/crypttab": "data /dev/md0 none luks\n"})
    write(tmp_path, {"usr/lib/modules/5.15.0-91-generic/pkgbase": b"linux-lts", f"boot/{image}": packed})
    assert luks1.verdict.do[-1].endswith(step)


def test_mkinitcpio_reads_its_own_crypttab(luks1: Cryptsetup, tmp_path: Path) -> None:
    line = "data /dev/md0 none luks"
    packed = archive({"etc/crypttab": f"{line},discard\n"})
    write(tmp_path, {"usr/lib/modules/5.15.0-91-generic/pkgbase": b"linux", "boot/initramfs-linux.img": packed})
    write(tmp_path, {"etc/crypttab.initramfs": f"{line}\n".encode()})
    assert any("/etc/crypttab.initramfs" in text and "mkinitcpio -P" in text for text in luks1.verdict.conflicts)
    assert f"/etc/crypttab.initramfs by:\n{line},no-write-workqueue" in luks1.verdict.do[1]


def test_a_key_outside_the_keyring_stays_outside(tmp_path: Path) -> None:
    made = laptop(tmp_path, **{f":64:logon:cryptsetup:{UUID}-d0": "0" * 128})
    applying.apply(made.system, NAME, made.user)
    assert all("--disable-keyring" in call for call in made.calls)


@pytest.mark.parametrize("active", [" 1 allow_discards", ""])
def test_options_of_the_header_stay_in_it_and_become_active(tmp_path: Path, active: str) -> None:
    made = laptop(tmp_path, **ONE_QUEUE, **{"(no flags)": "allow-discards", " 1 allow_discards": active})
    applying.apply(made.system, NAME, made.user)
    assert made.calls == [["cryptsetup", "refresh", NAME, "--persistent", "--allow-discards", READ, WRITE]]
    assert made.active == ["allow_discards", "no_read_workqueue", "no_write_workqueue"]
    assert ("activates" in made.messages[0]) is not bool(active)
    applying.undo(made.system, NAME, made.user)
    assert (made.active, made.header) == (["allow_discards"], ["allow_discards"])


def test_flags_that_the_kernel_sets_by_itself_are_no_wrong_result(tmp_path: Path) -> None:
    both = ["no_read_workqueue", "no_write_workqueue"]
    changed = {"6.1.0-28-amd64": "6.17.1-zen1-1-zen", "Debian 6.1.119-1": "Arch"}
    made = laptop(tmp_path, **changed, **{"(no flags)": "no-read-workqueue", "1 allow_discards": f"2 {' '.join(both)}"})
    call = made.call
    applying.undo(made.system, NAME, replace(made.user, call=lambda argv: call(argv) or call(["refresh", READ, WRITE])))
    assert (made.active, made.header) == (both, [])


@pytest.mark.parametrize(
    ("action", "name", "changed", "why"),
    [
        ("apply", NAME, {"aes-xts-plain64": "aes-cbc-eboiv"}, "the IV generator sleeps"),
        ("apply", NAME, {"v1.24.0": "v1.21.0"}, "does not have the flags"),
        ("apply", NAME, {**UNSAFE, "(no flags)": "no-journal"}, "no-journal"),
        ("apply", "data", {"\ndata\t": "\nother\t", "CRYPT-LUKS1-99": "CRYPT-BITLK-99"}, "can change nothing"),
        ("undo", NAME, {"(no flags)\n\nData": "no-read-workqueue\nRequirements:\tonline-reencrypt\n"}, "reencrypt"),
        ("undo", NAME, {"UUID:          \t1": "UUID:          \t9"}, "could not be read"),
        ("undo", "x", {}, NAME),
    ],
)
def test_a_change_that_is_refused(tmp_path: Path, action: str, name: str, changed: dict[str, str], why: str) -> None:
    made = Cryptsetup(machine(LUKS1 if name == "data" else LAPTOP, tmp_path, changed))
    with pytest.raises(AdviseError, match=why):
        getattr(applying, action)(made.system, name, made.user)
    assert made.calls == []


def test_nothing_is_changed_without_confirmation(luks2: Cryptsetup) -> None:
    with pytest.raises(AdviseError, match="not confirmed"):
        applying.apply(luks2.system, NAME, replace(luks2.user, confirm=lambda _: "y"))
    assert luks2.calls == []


@pytest.mark.parametrize("fails_at", [1, 2])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_failure_prints_the_commands_that_did_not_run(luks2: Cryptsetup, fails_at: int, interrupted: bool) -> None:
    def call(argv: Sequence[str]) -> int:
        if len(luks2.calls) + 1 < fails_at:
            return luks2.call(argv)
        if interrupted:
            raise KeyboardInterrupt
        return 2

    with pytest.raises(KeyboardInterrupt if interrupted else AdviseError) as failure:
        applying.apply(luks2.system, NAME, replace(luks2.user, call=call))
    message = luks2.messages[-1] if interrupted else str(failure.value)
    assert message.count("cryptsetup refresh") == 3 - fails_at
    assert message.endswith(f"--allow-discards {READ} {WRITE}")


def test_a_cryptsetup_that_does_not_know_the_flags_is_not_called(luks2: Cryptsetup) -> None:
    luks2.output |= {"cryptsetup --version": "cryptsetup 2.3.3", "cryptsetup --help": ""}
    with pytest.raises(AdviseError, match=r"install cryptsetup 2\.3\.4"):
        applying.apply(luks2.system, NAME, luks2.user)
    luks2.output["cryptsetup --help"] = "--perf-no_read_workqueue"  # a patched one
    applying.apply(luks2.system, NAME, luks2.user)


def test_a_wrong_result_is_an_error(luks2: Cryptsetup) -> None:
    with pytest.raises(AdviseError, match="wrong result"):
        applying.apply(luks2.system, NAME, replace(luks2.user, call=lambda argv: luks2.call(argv[:3])))


def test_an_interrupt_does_not_kill_cryptsetup(tmp_path: Path) -> None:
    before, interrupt = signal.getsignal(signal.SIGINT), threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        applying.call_on_terminal(["sh", "-c", f"sleep 0.8; : >{tmp_path}/complete"])
    assert (tmp_path / "complete").exists()
    assert signal.getsignal(signal.SIGINT) is before
