"""series.py: what stands below a patch's message is found, and put into another form of the patch."""

from __future__ import annotations

import pytest

from dmcrypt_inline.trees.series import history_of, with_history

HEAD = "From: A <a@host.example>\nSubject: [PATCH] a: b\n\nBecause.\n---\n"
STAT = " a/b.c | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
DIFF = "\ndiff --git a/a/b.c b/a/b.c\n--- a/a/b.c\n+++ b/a/b.c\n@@ -1 +1 @@\n-1\n+2\n---\n"


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        (STAT, ""),
        ("", ""),
        (f"v2: c | d\n\n{STAT}", "v2: c | d"),
        (f"v2: c\n - d\n\nv1: e\n---\n{STAT}", "v2: c\n - d\n\nv1: e"),
        (f"v2: an image\n\n a.png | Bin 0 -> 9 bytes\n{STAT}", "v2: an image"),
        ("v2: no diffstat\n", "v2: no diffstat"),
    ],
)
def test_history_is_what_git_did_not_write(below: str, expected: str) -> None:
    assert history_of(HEAD + below + DIFF) == expected


def test_history_is_put_below_the_message_once() -> None:
    once = with_history(HEAD + STAT + DIFF, "v2: c")
    assert once == f"{HEAD}v2: c\n\n{STAT}{DIFF}"
    assert with_history(once, "v2: c") == once
    assert history_of(with_history(once, "v1: d")) == "v1: d\n\nv2: c"
    assert with_history(once, "") == once
