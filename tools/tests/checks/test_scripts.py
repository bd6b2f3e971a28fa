from dataclasses import replace
from pathlib import Path

import pytest
from small import SOURCE, findings_of, git, make_queue, write_files

from dmcrypt_inline.checks.programs import program_checks
from dmcrypt_inline.trees.targets import OwnTest

OWN_TEST = "each_patch_passes_its_test_that_fails_without_it"


@pytest.mark.parametrize(
    ("script", "finding"),
    [
        (f'grep 22 {SOURCE} && touch "$TESTDIR/written"', ""),
        (f"grep 23 {SOURCE}", "its test fails"),
        (f"grep version {SOURCE}", "its test passes without the patch"),
    ],
)
def test_the_own_test_of_a_patch_is_judged(tmp_path: Path, script: str, finding: str) -> None:
    queue = make_queue(tmp_path)
    tree = queue.applied()
    write_files(tree.path, {"test/run.sh": f"{script}\n"})
    git(tree.path, "add", "-A")
    git(tree.path, "commit", "-q", "--amend", "--no-edit")
    head = git(tree.path, "rev-parse", "HEAD").strip()
    target = replace(queue.target, own_test=OwnTest(("sh", "test/run.sh"), "test"))
    made = replace(tree, series=head, commits=(head,))
    found = findings_of(OWN_TEST, program_checks(replace(queue, target=target, apply=lambda: made)))
    assert (finding in found) if finding else not found
