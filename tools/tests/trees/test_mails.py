import pytest

from dmcrypt_inline.trees.mails import cover_problems, parse_mail, patch_problems

AUTHOR = "A Long Name Of Some Maintainers <maintainers@users.noreply.host.example>"
PATCH = """\
From 04f48b416a8c7028223090cb1e78afcbddb47666 Mon Sep 17 00:00:00 2001
From: A Long Name Of Some Maintainers
 <maintainers@users.noreply.host.example>
Date: Mon, 22 Jun 2020 00:00:00 +0000
Subject: [PATCH 1/2] dm crypt: keep the place
 of a request

Why.
---
"""
COVER = """\
From: A <a@b.example>
Subject: [PATCH 0/2] dm crypt: inline

A (2):
  dm crypt: keep the place of a
    request
  dm crypt: add

Not
tested: anything.
"""
SUMMARIES = ["dm crypt: keep the place of a request", "dm crypt: add"]


def test_parse_mail_unfolds_its_headers() -> None:
    mail = parse_mail(PATCH)
    assert (mail.author, mail.tag, mail.summary) == (AUTHOR, "PATCH 1/2", "dm crypt: keep the place of a request")
    assert mail.body.startswith("Why.\n")


def test_proper_mails_pass() -> None:
    text = PATCH.replace("---\n", "---\nChanges since v1: TODO\n\n")
    assert patch_problems(text, [AUTHOR]) == []
    assert cover_problems(COVER, SUMMARIES) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("maintainers@", "other@"),
        ("Why.\n", "Why.\n\nSigned-off-by: A <a@b.example>\n"),
        ("of a request", "of a request that goes on and on and on and on"),
        ("of a request", "of a request."),
        ("Why.\n", "Why. TODO: tell.\n"),
        ("crypt: keep the", "crypt: WIP the"),
        # of the cover letter
        ("  dm crypt: add\n", ""),
        ("dm crypt: inline", "*** SUBJECT HERE ***"),
        ("Not\ntested", "Tested"),
        ("\nA (2)", "\nSigned-off-by: A <a@b.example>\nA (2)"),
    ],
)
def test_each_defect_is_found(old: str, new: str) -> None:
    if old in COVER and old not in PATCH:
        assert len(cover_problems(COVER.replace(old, new), SUMMARIES)) == 1
    else:
        assert len(patch_problems(PATCH.replace(old, new), [AUTHOR])) == 1
