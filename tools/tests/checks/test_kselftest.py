"""checks/linux.py: the tree's own Makefiles install every selftest, or the check names the missing file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import git, make_queue

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed, Queue
from dmcrypt_inline.trees import selftests

# The rules of kselftest, for one directory.
INSTALLS = """\
gen_tar:
	mkdir -p $(INSTALL_PATH)/dm-crypt $(INSTALL_PATH)/kselftest-packages
	cp $(filter-out {left_out} dm-crypt/Makefile,$(wildcard dm-crypt/*)) $(INSTALL_PATH)/dm-crypt
	touch $(INSTALL_PATH)/kselftest-packages/{package}
	touch $(INSTALL_PATH)/run_kselftest.sh
	printf 'dm-crypt:%s\\n' {run} >$(INSTALL_PATH)/kselftest-list.txt
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose selftests are two tests, one that is run by hand, and files that they need."""
    monkeypatch.setattr(selftests, "SELFTESTS", tmp_path / "dm-crypt")
    (tmp_path / "dm-crypt").mkdir()
    for name in ("Makefile", "settings", "ktap.sh", "one.sh", "two.sh", "by_hand.sh"):
        path = tmp_path / "dm-crypt" / name
        path.write_text("TEST_PROGS_EXTENDED := \\\n\tby_hand.sh\n" if name == "Makefile" else "\n")
        path.chmod(0o755 if name in ("one.sh", "two.sh", "by_hand.sh") else 0o644)
    return make_queue(tmp_path)


def installing(
    queue: Queue, left_out: str = "", package: str = "kselftest.tar.gz", run: str = "one.sh two.sh"
) -> Queue:
    """The queue on a tree whose Makefile does this."""
    tree = queue.applied()
    directory = tree.path / "tools" / "testing" / "selftests"
    texts = {f"dm-crypt/{path.name}": path.read_text() for path in selftests.SELFTESTS.iterdir()}
    texts["Makefile"] = INSTALLS.format(left_out=left_out, package=package, run=run)
    texts["../../scripts/utilities.mak"] = texts["../../../scripts/subarch.include"] = "\n"
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    git(tree.path, "add", "-A")
    git(tree.path, "commit", "-q", "-m", "tests")
    return replace(queue, tree=replace(tree, series=git(tree.path, "rev-parse", "HEAD").strip()))


def test_a_complete_installation_passes(queue: Queue) -> None:
    linux._kselftest(installing(queue))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"left_out": "dm-crypt/ktap.sh"}, "ktap.sh"),
        ({"left_out": "dm-crypt/by_hand.sh"}, "by_hand.sh"),
        ({"left_out": "dm-crypt/settings"}, "settings"),
        ({"run": "one.sh"}, "two.sh"),
        ({"package": "other"}, "gen_tar"),
    ],
)
def test_an_incomplete_installation_fails(queue: Queue, wrong: dict[str, str], named: str) -> None:
    with pytest.raises(Failed) as caught:
        linux._kselftest(installing(queue, **wrong))
    [line] = str(caught.value).splitlines()
    assert line.split()[0] == named
