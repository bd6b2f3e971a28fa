import re
from dataclasses import replace
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from small import AFTER, SOURCE, git, git_tree, make_target

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import outbox
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.outbox import Posting
from dmcrypt_inline.trees.series import Tree, apply_series

SENDER = "A Sender <sender@host.example>"
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
    target = replace(make_target(tmp_path), lists=("list@host.example",))
    target.cover.write_text(COVER)
    return apply_series(target, prepare_base(target, git_tree(tmp_path / "linux", None)))


def edited(tree: Tree, old: str, new: str) -> Tree:
    [patch] = tree.target.patches.iterdir()
    patch.write_text(re.sub(old, new, patch.read_text(), flags=re.M))
    return apply_series(tree.target, prepare_base(tree.target, tree.target.queue / "linux"))


def written(tree: Tree, out: Path, posting: Posting) -> list[Message]:
    mails = outbox.write_mails(tree, outbox.threads(tree)[0], posting, out)
    assert mails == sorted(mails)
    return [message_from_string(path.read_text().partition("\n")[2]) for path in mails]


def text_of(mail: Message) -> str:
    return str(mail.get_payload())


def test_the_mails_are_a_thread_of_the_sender(tree: Tree, tmp_path: Path) -> None:
    known = replace(tree, target=replace(tree.target, commit=COMMIT))
    cover, patch = written(known, tmp_path / "out", Posting(SENDER))
    assert re.search(rf"^Why\.\n[^$]* {SOURCE} \| 2 \+-\n 1 file changed.*\n\nbase-commit: {COMMIT}\n$", text_of(cover))
    assert cover["Subject"] == "[PATCH 0/1] dm crypt: a version that is greater"
    assert patch["Subject"] == "[PATCH 1/1] dm crypt: bump the version"
    assert patch["In-Reply-To"] == patch["References"] == cover["Message-Id"] != patch["Message-Id"]
    assert cover["In-Reply-To"] is None
    for mail in (cover, patch):
        assert mail["From"] == SENDER
        assert mail["To"] == "list@host.example"
    long_term = replace(tree, target=replace(tree.target, long_term=True, tag="v6.12"))
    tags = [str(mail["Subject"]).split("]")[0] for mail in written(long_term, tmp_path / "out", Posting(SENDER, (), 2))]
    assert tags == ["[PATCH 6.12.y v2 0/1", "[PATCH 6.12.y v2 1/1"]


def test_trailers_join_those_of_the_patch_and_the_sign_off_comes_last(tree: Tree, tmp_path: Path) -> None:
    fixes = 'Fixes: 0123456789ab ("a: b")'
    trailers = ("Assisted-by: A Tool", "Tested-by: T <t@host.example>")
    for message, before in (("Because.", []), (f"Because.\n\n{fixes}", [fixes])):
        _, patch = written(edited(tree, "^Because.", message), tmp_path / "out", Posting(SENDER, trailers))
        block = "\n".join([*before, *trailers, f"Signed-off-by: {SENDER}"])
        assert text_of(patch).startswith(f"Because.\n\n{block}\n---\n")


def test_the_project_s_patches_become_the_sender_s_and_no_others(tree: Tree, tmp_path: Path) -> None:
    other = "Somebody <else@host.example>"
    assert text_of(written(tree, tmp_path / "1", Posting(SENDER))[1]).startswith("Because.\n")
    tree = edited(tree, "^From: .*", f"From: {other}")
    assert text_of(written(tree, tmp_path / "2", Posting(SENDER))[1]).startswith(f"From: {other}\n\nBecause.\n")


def test_git_am_takes_the_mails(tree: Tree, tmp_path: Path) -> None:
    sender = "Ünal Ö'Brien, Jr <sender@host.example>"
    _, patch = outbox.write_mails(tree, outbox.threads(tree)[0], Posting(sender), tmp_path / "outbox")
    repo = git_tree(tmp_path / "other", None)
    git(repo, "am", "-q", str(patch))
    assert (repo / SOURCE).read_text() == AFTER
    said = git(repo, "log", "-1", "--format=%an <%ae>%n%b")
    assert said.strip() == f"{sender}\nBecause.\n\nSigned-off-by: {sender}"


@pytest.mark.parametrize(
    ("sender", "trailer"),
    [
        ("", "Tested-by: A"),
        ("A <a@host.example>, B <b@host.example>", "Tested-by: A"),
        ("A\nBcc: evil <a@host.example>", "Tested-by: A"),
        (SENDER, "nonsense"),
        (SENDER, "Signed-off-by: B <b@host.example>"),
    ],
)
def test_a_posting_that_no_mail_can_have_is_refused(sender: str, trailer: str) -> None:
    with pytest.raises(UserError):
        Posting(sender, (trailer,))


def test_an_edited_mail_is_not_lost(tree: Tree, tmp_path: Path) -> None:
    [thread] = outbox.threads(tree)
    for number in (1, 2):
        cover, _ = outbox.write_mails(tree, thread, Posting(SENDER), tmp_path / "outbox")
        cover.write_text(f"edited {number}\n")
    outbox.write_mails(tree, thread, Posting(SENDER), tmp_path / "outbox")
    assert [(tmp_path / f"outbox.{n}" / cover.name).read_text() for n in (1, 2)] == ["edited 1\n", "edited 2\n"]
    assert len(list((tmp_path / "outbox").iterdir())) == 2


def test_several_letters_make_several_postings(tree: Tree) -> None:
    target = tree.target
    for number in (2, 3):
        (target.patches / f"000{number}-x.patch").write_text(
            f"Subject: [PATCH] dm crypt: change {number}\n\nBecause.\n"
        )
    target.series.write_text("".join(f"{patch.name}\n" for patch in sorted(target.patches.iterdir())))
    grown = replace(tree, commits=(*tree.commits, "second", "third"))
    assert [thread.directory for thread in outbox.threads(grown)] == ["outbox"]
    target.cover.write_text(f"{COVER}\n{COVER.replace('0/1', '0/2')}")
    found = [(each.directory, len(each.patches), each.base, each.tip) for each in outbox.threads(grown)]
    assert found == [("outbox-1", 1, tree.base, tree.commits[0]), ("outbox-2", 2, tree.commits[0], "third")]
    target.cover.write_text(f"{COVER}\n{COVER}")
    with pytest.raises(UserError, match="leads other patches"):
        outbox.threads(grown)


def test_recipients_come_from_the_tree(tree: Tree) -> None:
    patches = sorted(tree.target.patches.glob("*.patch"))
    script = tree.path / "scripts" / "get_maintainer.pl"
    script.parent.mkdir()
    script.write_text(
        r'print STDERR "fatal: a@b: unknown revision\n"; print "M. X. <m\@host.example>\nlist\@host.example\n";'
    )
    assert outbox.recipients(tree, patches) == ['--to="M. X." <m@host.example>', "--to=list@host.example"]
    long_term = replace(tree, target=replace(tree.target, long_term=True))
    assert outbox.recipients(long_term, patches) == [
        *("--to=stable@vger.kernel.org", '--cc="M. X." <m@host.example>', "--cc=list@host.example")
    ]


def test_the_base_commit_is_that_of_the_tag(tree: Tree, tmp_path: Path) -> None:
    log = tmp_path / "log"
    own = git_tree(tmp_path / "own", None)
    git(own, "tag", "-a", "-m", "x", "v0.1")
    head = git(own, "rev-parse", "HEAD").strip()
    known = replace(tree.target, commit=COMMIT)
    assert outbox.base_commit_of(replace(tree, target=known, taken=(own, "HEAD")), log) == COMMIT
    assert outbox.base_commit_of(replace(tree, target=known, taken=(own, "refs/tags/v0.1")), log) == head
    assert outbox.base_commit_of(replace(tree, taken=(own, "HEAD")), log) == head
    assert outbox.base_commit_of(replace(tree, taken=None), log) is None
