import json
from pathlib import Path

import pytest
from dmcrypt_advise import command, judge, looking, recording
from dmcrypt_advise.errors import AdviseError
from dmcrypt_advise.recording import load, replay
from machines import LAPTOP, MACHINES, UUID, machine

PLACES = sorted([*MACHINES.glob("*.txt"), *(Path(__file__).parent / "cases").glob("*.txt")])
PRIVATE = {
    "vg-root ro": f"vg-root rd.iscsi.password=sesame rd.luks.uuid={UUID} root=UUID=12AB-34CD",
    "(kernel@debian.example)": "(jane@home.example)",
    "/dev/nvme0n1p2 /boot": "nas.example:/export /nas nfs rw 0 0\n/dev/mapper/x /home/jane",
    f"{UUID} none luks": f"{UUID} sesame luks,keyscript=/bin/echo",
    "==> /sys/block/dm-0/dev": "# Jane's disk\nmusic /dev/disk/by-id/nvme-Brand_S7DNNJ0X123456-part3 /keys/jane\n"
    "films /dev/disk/by-id/nvme-Brand_S7DNNJ0X123456-part4 none\n==> /sys/block/dm-0/dev",
    "(no label)": "jane-laptop",
    f":64:logon:cryptsetup:{UUID}-d0": "ab" * 64,
}


def recorded(text: str, place: Path, people: set[str]) -> str:
    system = load(text, place)
    looking.look(system)
    return recording.recording(system, people)


def summary(text: str) -> list[object]:
    """The facts and the advice about a recorded machine, without names."""
    facts = replay(text)
    return [
        (
            (it.advice, it.flags, it.doubted.keys(), it.status, len(it.reasons), len(it.conflicts), len(it.do)),
            (found.disks, found.driver, found.stored.next_boot, found.stored.header, found.stored.opening.opener),
        )
        for found, it in zip(facts.mappings, judge.judge(facts), strict=True)
    ]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.stem)
def test_a_recording_leads_to_the_same_advice(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    copy = recorded(text, tmp_path / "a", set())
    assert recorded(copy, tmp_path / "b", set()) == copy
    before, after = map(summary, (text, copy))
    assert before == after


def test_a_recording_has_no_keys_serial_numbers_and_names(tmp_path: Path) -> None:
    system = machine(LAPTOP, tmp_path, PRIVATE)
    looking.look(system)
    text = recording.recording(system, {"laptop", "jane", "root"})
    secrets = "jane Jane laptop sesame abab S7DNNJ0X123456 1111-2222 11112222 12AB nas.example"
    assert [secret for secret in secrets.split() if secret in text] == []
    assert text.count("by-id/serial1-part") == 2
    assert "name1--vg-root / ext4" in text or "name2--vg-root / ext4" in text
    [found] = replay(text).mappings
    assert found.mapping.uuid == "00000001-0000-4000-8000-000000000001"
    assert found.stored.line
    assert found.mapping.segments[0].key_bits == 512


def test_names_that_every_machine_has_stay(tmp_path: Path) -> None:
    system = machine(LAPTOP, tmp_path)
    before = looking.look(system)
    people = {"debian", "dev", "block", "max", "Linux", "laptop"}
    text = recording.recording(system, people)
    assert "name1--vg-root" in text
    assert "name2" not in text
    assert replay(text).kernel == before.kernel


def test_facts_that_could_not_be_read_stay_unread(tmp_path: Path) -> None:
    system = machine(LAPTOP, tmp_path, {"$ dmsetup table": "$ other"})
    (tmp_path / "etc/crypttab").unlink()
    (tmp_path / "etc/crypttab").mkdir()  # not even root can read it
    facts = looking.look(system)
    assert len(facts.unseen) == 3
    assert replay(recording.recording(system, set())).unseen == facts.unseen


@pytest.mark.parametrize(
    "text",
    ["", "other", "==> /../x <==\n", "==> x <==\n", "==> /a <==\n==> /a/b <==\n", "==> cpio ../x crypttab <==\n"],
)
def test_a_text_that_is_no_recording(tmp_path: Path, text: str) -> None:
    with pytest.raises(AdviseError, match="record"):
        load(text, tmp_path / "inner")
    assert not (tmp_path / "x").exists()


def test_record_and_from(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    system, file = machine(LAPTOP, tmp_path / "machine"), tmp_path / "file"
    monkeypatch.setattr(command, "System", lambda: system)
    assert command.main(["--record", str(file)]) == 0
    assert recording.INTRODUCTION in capsys.readouterr().out
    assert command.main(["--record", str(file)]) == 2
    assert "exists" in capsys.readouterr().err
    assert command.main(["--from", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["kernel"]["version"] == "6.1.119"
    assert command.main(["--from", str(tmp_path / "none")]) == 2
    with pytest.raises(SystemExit):
        command.main(["--from", str(file), "--apply", "x"])
