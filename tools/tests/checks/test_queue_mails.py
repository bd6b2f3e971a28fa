"""checks/queues.py and checks/posting.py: mails by nobody known, and mails that git would not send."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import applied, make_target

from dmcrypt_inline.checks import posting, queues
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped
from dmcrypt_inline.common.run import Completed, run


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    target = replace(make_target(tmp_path), fragments={}, lists=("list@host.example",))
    target.cover.write_text(
        "From: A <a@host.example>\nSubject: [PATCH 0/1] dm crypt: x\n\ndm crypt: bump the version\n"
    )
    return applied(target, tmp_path)


def test_authors_that_nobody_knows_are_a_skip(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "known_authors", lambda _: [])
    with pytest.raises(Skipped, match="no git repository"):
        queues._mails(queue)
    (patch,) = queue.patches()
    patch.write_text(patch.read_text().replace("Because.\n", ""))
    with pytest.raises(Failed, match=r"0001-dm-crypt-bump-the-version\.patch: it has no text that says why"):
        queues._mails(queue)


def test_a_mail_that_git_would_not_send_fails(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def sends_one(argv: list[str | Path], *, log: Path, timeout: float, cwd: Path, env: dict[str, str]) -> Completed:
        done = run(argv, log=log, timeout=timeout, cwd=cwd, env=env)
        return replace(done, output=done.output.replace("Dry-OK", "Dry-no", 1)) if "send-email" in argv else done

    monkeypatch.setattr(posting, "run", sends_one)
    with pytest.raises(Failed, match="git send-email would not send 2 mails"):
        posting._outbox(queue)
