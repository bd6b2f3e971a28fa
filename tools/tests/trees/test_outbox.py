"""outbox.py: the queue as mails, on a repository of a few files."""

from __future__ import annotations

import re
from dataclasses import replace
from email import message_from_string
from email.utils import getaddresses
from pathlib import Path

import pytest
from small import AFTER, SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import outbox
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.outbox import Posting, Recipients
from dmcrypt_inline.trees.series import Tree, apply_series
from dmcrypt_inline.trees.targets import LINUX

SENDER = "A Sender <sender@host.example>"
WHOM = Recipients(("A Maintainer <m@host.example>",), ("dm-devel@host.example", "all@host.example"))
COMMIT = "0123456789" * 4
COVER = """\
From: dmcrypt-inline
 <dmcrypt-inline@localhost>
Subject: [PATCH 0/1] dm crypt: a version that is
 greater

Why.

 1  dm crypt: bump the version
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    target = replace(make_target(tmp_path), kind=replace(LINUX, lists=("list@host.example",)))
    target.cover.write_text(COVER)
    return apply_series(target, prepare_base(target, git_tree(tmp_path / "linux", None)))


def edited(tree: Tree, old: str, new: str) -> Tree:
    """The tree after a change of its one patch."""
    [patch] = tree.target.patches.iterdir()
    patch.write_text(re.sub(old, new, patch.read_text(), flags=re.M))
    return apply_series(tree.target, prepare_base(tree.target, tree.target.series.parent / "linux"))


def write(tree: Tree, posting: Posting, whom: Recipients, commit: str | None, out: Path) -> list[Path]:
    return outbox.write(tree, outbox.threads(tree)[0], posting, whom, base_commit=commit, out=out)


def written(tree: Tree, place: Path, posting: Posting, whom: Recipients = WHOM) -> list[str]:
    return [path.read_text() for path in write(tree, posting, whom, COMMIT, place / "outbox")]


def test_the_mails_are_a_thread_from_who_sends(tree: Tree, tmp_path: Path) -> None:
    cover, patch = [message_from_string(text.partition("\n")[2]) for text in written(tree, tmp_path, Posting(SENDER))]
    assert cover["Subject"] == "[PATCH 0/1] dm crypt: a version that is greater"
    assert patch["Subject"] == "[PATCH 1/1] dm crypt: bump the version"
    assert patch["In-Reply-To"] == patch["References"] == cover["Message-Id"] != patch["Message-Id"]
    assert cover["In-Reply-To"] is None
    for mail in (cover, patch):
        assert mail["From"] == SENDER
        assert getaddresses([mail["To"]]) == [("A Maintainer", "m@host.example")]
        assert [address for _, address in getaddresses([mail["Cc"]])] == ["dm-devel@host.example", "all@host.example"]


def test_the_cover_letter_has_diffstat_and_base(tree: Tree, tmp_path: Path) -> None:
    cover, _ = written(tree, tmp_path, Posting(SENDER))
    assert re.search(rf"\n\nWhy\.\n[^$]* {SOURCE} \| 2 \+-\n 1 file changed.*\n\nbase-commit: {COMMIT}\n$", cover)
    without = write(tree, Posting(SENDER), WHOM, None, tmp_path / "other")[0].read_text()
    assert "base-commit" not in without


def test_trailers_join_those_that_are_there_and_the_sign_off_comes_last(tree: Tree, tmp_path: Path) -> None:
    fixes = 'Fixes: 0123456789ab ("a: b")'
    trailers = ("Assisted-by: A Tool", "Tested-by: T <t@host.example>")
    for message, there in (("Because.", []), (f"Because.\n\n{fixes}", [fixes])):
        _, patch = written(edited(tree, "^Because.", message), tmp_path, Posting(SENDER, trailers))
        block = "\n".join([*there, *trailers, f"Signed-off-by: {SENDER}"])
        assert f"\n\nBecause.\n\n{block}\n---\n" in patch


def in_body_from(mail: str) -> str:
    """The author that the mail names beside its sender."""
    found = re.match(r"From: (.*)\n\nBecause\.\n", str(message_from_string(mail.partition("\n")[2]).get_payload()))
    return found[1] if found else ""


OTHER = "Somebody <else@host.example>"


def test_the_project_s_patches_become_the_sender_s_and_no_others(tree: Tree, tmp_path: Path) -> None:
    assert in_body_from(written(tree, tmp_path, Posting(SENDER))[1]) == ""
    tree = edited(tree, "^From: .*", f"From: {OTHER}")
    assert in_body_from(written(tree, tmp_path, Posting(SENDER))[1]) == OTHER
    assert in_body_from(written(tree, tmp_path, Posting(OTHER))[1]) == ""


def test_a_later_version_says_so(tree: Tree, tmp_path: Path) -> None:
    cover, patch = written(tree, tmp_path, Posting(SENDER, version=2))
    assert "Subject: [PATCH v2 0/1] " in cover
    assert "Subject: [PATCH v2 1/1] " in patch
    names = sorted(path.name for path in (tmp_path / "outbox").iterdir())
    assert names == [".written", "v2-0000-cover-letter.patch", "v2-0001-dm-crypt-bump-the-version.patch"]


def test_patches_for_a_long_term_kernel_say_which(tree: Tree, tmp_path: Path) -> None:
    long_term = replace(tree, target=replace(tree.target, long_term=True, tag="v6.12"))
    cover, first, *_ = written(long_term, tmp_path / "out", Posting(SENDER, version=2))
    assert "\nSubject: [PATCH 6.12.y v2 0/" in cover
    assert "\nSubject: [PATCH 6.12.y v2 1/" in first


def test_git_am_takes_the_mails(tree: Tree, tmp_path: Path) -> None:
    sender = "Ünal Ö'Brien, Jr <sender@host.example>"
    _, patch = write(tree, Posting(sender), WHOM, COMMIT, tmp_path / "outbox")
    repo = git_tree(tmp_path / "other", None)
    git(repo, "am", "-q", str(patch))
    assert (repo / SOURCE).read_text() == AFTER
    assert git(repo, "log", "-1", "--format=%an <%ae>%n%b").splitlines() == [
        sender,
        "Because.",
        "",
        f"Signed-off-by: {sender}",
        "",
    ]


def with_selftests(place: Path, order: str = "{queue}\n{tests}\n") -> Tree:
    """The queue with two patches of selftests after its own one; `order` is that of the series."""
    target = make_target(place)
    target.cover.write_text(COVER)
    work = place / "work"
    for number in (2, 3):
        (work / f"test-{number}").write_text("true\n")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", f"selftests: add {number}\n\nBecause.")
    made = git(work, "format-patch", "-2", "--start-number=2", "--no-signature", "-o", str(target.patches))
    tests = "\n".join(Path(path).name for path in made.splitlines())
    target.series.write_text(order.format(queue=target.series.read_text().strip(), tests=tests))
    return apply_series(target, prepare_base(target, git_tree(place / "linux", None)))


def test_the_selftests_are_a_posting_of_their_own(tmp_path: Path) -> None:
    tree = with_selftests(tmp_path)
    queue, tests = outbox.threads(tree)
    assert (queue.base, queue.tip, tests.base, tests.tip) == (tree.base, tree.commits[0], tree.commits[0], tree.series)
    mails = outbox.write(tree, queue, Posting(SENDER), WHOM, base_commit=COMMIT, out=tmp_path / queue.directory)
    cover = mails[0].read_text()
    assert "[PATCH 0/1]" in cover and "test-2" not in cover and len(mails) == 2
    mails = outbox.write(tree, tests, Posting(SENDER), WHOM, base_commit=COMMIT, out=tmp_path / tests.directory)
    assert [path.name for path in mails] == ["0001-selftests-add-2.patch", "0002-selftests-add-3.patch"]
    first, second = [message_from_string(path.read_text().partition("\n")[2]) for path in mails]
    assert [mail["Subject"] for mail in (first, second)] == [f"[PATCH {n}/2] selftests: add {n + 1}" for n in (1, 2)]
    assert first["In-Reply-To"] is None
    assert second["In-Reply-To"] == second["References"] == first["Message-Id"]
    one = replace(tests, patches=tests.patches[:1], tip=tree.commits[1])
    [mail] = outbox.write(tree, one, Posting(SENDER), WHOM, base_commit=COMMIT, out=tmp_path / "one")
    assert "Subject: [PATCH] selftests: add 2\n" in mail.read_text()


def test_selftests_before_the_end_are_refused(tmp_path: Path) -> None:
    tree = with_selftests(tmp_path, "{tests}\n{queue}\n")
    with pytest.raises(UserError, match="are not the last of small"):
        outbox.threads(tree)


@pytest.mark.parametrize(
    ("posting", "why"),
    [
        (Posting(""), "who sends, and signs off"),
        (Posting("sender@host.example"), "who sends, and signs off"),
        (Posting("A <a@host.example>, B <b@host.example>"), "who sends, and signs off"),
        (Posting("A\nBcc: evil <a@host.example>"), "who sends, and signs off"),
        (Posting("A\u2028B <a@host.example>"), "who sends, and signs off"),
        (Posting('A <"x@host.example>'), "who sends, and signs off"),
        (Posting("Ünal <ünal@host.example>"), "who sends, and signs off"),
        (Posting("A <a@bücher.example>"), "who sends, and signs off"),
        (Posting(SENDER, ("nonsense",)), "no trailer"),
        (Posting(SENDER, ("Word: x\nInjected: y",)), "no trailer"),
        (Posting(SENDER, ("Signed-off-by: B <b@host.example>",)), "give that as SIGN="),
        (Posting(SENDER, version=0), "the first version is 1"),
    ],
)
def test_what_no_mail_can_be_made_of_is_refused(tree: Tree, tmp_path: Path, posting: Posting, why: str) -> None:
    with pytest.raises(UserError, match=why):
        written(tree, tmp_path, posting)
    tree.target.cover.unlink()
    with pytest.raises(UserError, match="the queue of small has no cover letter"):
        written(tree, tmp_path, Posting(SENDER))
    assert not (tmp_path / "outbox").exists()


def test_an_edited_mail_is_not_lost(tree: Tree, tmp_path: Path) -> None:
    first = write(tree, Posting(SENDER), WHOM, COMMIT, tmp_path / "outbox")
    again = write(tree, Posting(SENDER, version=2), WHOM, COMMIT, tmp_path / "outbox")
    assert not any(path.exists() for path in first)
    again[0].write_text(again[0].read_text() + "Changes since v1: none\n")
    with pytest.raises(UserError, match="v2-0000-cover-letter"):
        write(tree, Posting(SENDER, version=2), WHOM, COMMIT, tmp_path / "outbox")
    assert "Changes since v1" in again[0].read_text()


@pytest.mark.parametrize(
    "script",
    [
        *("echo >.0001.patch.swp", "mkdir old", "ln -s user@host.1:2 .#0001.patch"),
        *("rm .written; mkdir .written", "echo nonsense >.written"),
    ],
)
def test_what_is_not_ours_is_not_lost(tree: Tree, tmp_path: Path, script: str) -> None:
    out = tmp_path / "outbox"
    write(tree, Posting(SENDER), WHOM, COMMIT, out)
    shell(out, script)
    before = sorted(out.iterdir())
    with pytest.raises(UserError, match="or files that are not ours"):
        write(tree, Posting(SENDER), WHOM, COMMIT, out)
    assert sorted(out.iterdir()) == before


def test_a_file_where_the_mails_belong_is_not_lost(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("work\n")
    with pytest.raises(UserError, match="outbox is no directory"):
        write(tree, Posting(SENDER), WHOM, COMMIT, tmp_path / "outbox")
    assert (tmp_path / "outbox").read_text() == "work\n"


def test_recipients_come_from_the_tree(tree: Tree) -> None:
    patches = sorted(tree.target.patches.glob("*.patch"))
    assert outbox.recipients(tree, patches) == Recipients(("list@host.example",), ())
    script = tree.path / "scripts" / "get_maintainer.pl"
    script.parent.mkdir()
    script.write_text(
        'print STDERR "fatal: a@b: unknown revision\\nUse git <command>\\n";'
        'my $lists = !grep { $_ eq "--no-l" } @ARGV;\n'
        'print $lists ? "list\\@host.example\\n" : "M <m\\@host.example>\\n", "R <r\\@host.example>\\n" x !$lists;\n'
    )
    assert outbox.recipients(tree, patches) == Recipients(
        ("M <m@host.example>", "R <r@host.example>"), ("list@host.example",)
    )
    long_term = replace(tree, target=replace(tree.target, long_term=True))
    assert outbox.recipients(long_term, patches) == Recipients(
        ("stable@vger.kernel.org",), ("M <m@host.example>", "R <r@host.example>", "list@host.example")
    )
    script.write_text('print "nobody\\n";\n')
    with pytest.raises(UserError, match="names nobody"):
        outbox.recipients(tree, patches)


def test_the_base_commit_is_that_of_the_tag(tree: Tree, tmp_path: Path) -> None:
    log = tmp_path / "log"
    own = git_tree(tmp_path / "own", None)
    head = git(own, "rev-parse", "HEAD").strip()
    known = replace(tree.target, commit=COMMIT)
    assert outbox.base_commit_of(replace(tree, target=known, taken=None), log) == COMMIT
    assert outbox.base_commit_of(replace(tree, target=known, taken=(own, "HEAD")), log) == COMMIT
    assert outbox.base_commit_of(replace(tree, target=known, taken=(own, "refs/tags/v0.1")), log) is None
    assert outbox.base_commit_of(replace(tree, taken=None), log) is None
    assert outbox.base_commit_of(replace(tree, taken=(own, "HEAD")), log) == head
    git(own, "tag", "-a", "-m", "x", "v0.1")
    assert outbox.base_commit_of(replace(tree, target=known, taken=(own, "refs/tags/v0.1")), log) == head
