"""checks/linux.py: the messages of the tree's own checkpatch fail, except those about missing sign-offs."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import make_queue

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed

# It reports the type of message that it is given in the patch, unless that is ignored.
SCRIPT = r"""
open(my $patch, "<", $ARGV[-1]);
my ($type) = join("", <$patch>) =~ /^TYPE: (\w+)/m or exit 0;
exit 0 if "@ARGV" =~ /--ignore \S*$type/;
print "WARNING:$type\n";
exit 1;
"""


@pytest.mark.parametrize(
    ("message", "fails"), [("MISSING_SIGN_OFF", False), ("UNKNOWN_COMMIT_ID", False), ("LONG_LINE", True)]
)
def test_messages_of_checkpatch_fail(tmp_path: Path, message: str, fails: bool) -> None:
    queue = make_queue(tmp_path)
    script = queue.applied().path / "scripts" / "checkpatch.pl"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    [patch] = queue.patches()
    patch.write_text(patch.read_text().replace("Because.", f"TYPE: {message}"))
    check = linux.style_check(queue)
    if fails:
        with pytest.raises(Failed, match=f"^{patch.name}:\nWARNING:{message}$"):
            check.call()
    else:
        check.call()
