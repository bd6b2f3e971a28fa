"""Patches and cover letters as mails."""

from __future__ import annotations

import pytest

from dmcrypt_inline.trees.mails import cover_problems, parse_mail, patch_problems

PREFIXES = ("dm crypt: ", "selftests: ")
AUTHOR = "A Long Name Of Some Maintainers <maintainers@users.noreply.host.example>"
PATCH = """\
From 04f48b416a8c7028223090cb1e78afcbddb47666 Mon Sep 17 00:00:00 2001
From: A Long Name Of Some Maintainers
 <maintainers@users.noreply.host.example>
Date: Mon, 22 Jun 2020 00:00:00 +0000
Subject: [PATCH 1/2] dm crypt: keep the place of a request in a structure that
 outlives it

Why.
---
 drivers/md/dm-crypt.c | 2 +-

diff --git a/drivers/md/dm-crypt.c b/drivers/md/dm-crypt.c
index 000ddfa..f7f0711 100644
"""
SHORT = PATCH.replace(" in a structure that\n outlives it", "")
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


def test_parse_mail_unfolds_its_headers() -> None:
    mail = parse_mail(PATCH)
    assert mail.author == AUTHOR
    assert mail.tag == "PATCH 1/2"
    assert mail.summary == "dm crypt: keep the place of a request in a structure that outlives it"
    assert mail.body.startswith("Why.\n")


@pytest.mark.parametrize("tag", ["PATCH", "PATCH 1/2", "PATCH v2 1/2", "RFC PATCH 1/2"])
def test_a_proper_patch_passes(tag: str) -> None:
    text = SHORT.replace("PATCH 1/2", tag).replace("---\n", "---\nChanges since v1: TODO\n\n")
    assert patch_problems(text, 1, 2, [AUTHOR], PREFIXES) == []
    assert patch_problems(text.replace("dm crypt: ", "Anything "), 1, 2, [AUTHOR], ()) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("maintainers@", "other@", "From: is"),
        ("Why.\n", "Why.\n\nSigned-off-by: A <a@b.example>\n", "Signed-off-by"),
        ("dm crypt: keep", "dm-crypt: keep", "starts with none of"),
        ("of a request", "of a request that goes on and on and on and on", "characters, more than 70"),
        ("PATCH 1/2", "PATCH 2/2", "the subject's tag is"),
        ("[PATCH 1/2] ", "", "the subject's tag is"),
        ("place of a request", "place.", "the subject ends with a full stop"),
        ("Why.\n", "", "no text that says why"),
        ("Why.\n", 'Fixes: 000ddfab5ba0 ("x")\nReported-and-tested-by: A <a@b.example>\n', "no text that says why"),
        ("Why.\n", "Why. TODO: tell.\n", "it is not finished: TODO"),
        ("Why.\n", "Why.\n\nChanges since v1:\n- all\n", "below ---: Changes since v1:"),
        ("Why.\n", "Why.\n\n* Changes in this series from v1\n", "below ---: * Changes in"),
        ("Why.\n", "Why.\n\n[v2: rebased]\n", "below ---: [v2: rebased]"),
        ("Why.\n", "Why.\n\nChangelog:\n", "below ---: Changelog:"),
        ("crypt: keep the", "crypt: WIP the", "it is not finished: WIP"),
    ],
)
def test_each_defect_of_a_patch_is_found(old: str, new: str, expected: str) -> None:
    assert old in SHORT
    (problem,) = patch_problems(SHORT.replace(old, new), 1, 2, [AUTHOR], PREFIXES)
    assert expected in problem


def test_a_proper_cover_letter_passes() -> None:
    assert cover_problems(COVER, ["dm crypt: keep the place of a request", "dm crypt: add"]) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  dm crypt: add\n", "", "it does not list: dm crypt: add"),
        ("0/2", "0/3", "the subject's tag is"),
        ("dm crypt: inline", "dm crypt: inline.", "full stop"),
        ("dm crypt: inline", f"dm crypt: {'in' * 31}", "characters, more than 70"),
        ("dm crypt: inline", "*** SUBJECT HERE ***", "it is not finished: *** SUBJECT HERE ***"),
        ("A (2)", "*** BLURB HERE ***\n\nA (2)", "it is not finished: *** BLURB HERE ***"),
        ("Not\ntested", "Tested", "what was not tested"),
        ("\nA (2)", "\nSigned-off-by: A <a@b.example>\nA (2)", "Signed-off-by"),
    ],
)
def test_each_defect_of_a_cover_letter_is_found(old: str, new: str, expected: str) -> None:
    (problem,) = cover_problems(COVER.replace(old, new), ["dm crypt: keep the place of a request", "dm crypt: add"])
    assert expected in problem
