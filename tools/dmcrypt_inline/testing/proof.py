"""The kinds of proof that make prove knows, and the table of docs/proof.md."""

import time
from dataclasses import astuple, dataclass

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.gitrepo import resolve
from ..common.paths import REPO, log_dir
from ..guests.machine import Machine
from ..trees.targets import KCSAN, NATIVE_DEBUG, PROCESSORS, RT, Target

TABLE = REPO / "docs" / "proof.md"
DEBUG = "debug"


@dataclass(frozen=True)
class Proof:
    """Tests (none: all) on a kernel of this flavour, in guests with so many CPUs.

    `quick`: in their short form. `soaks`: for the minutes that the user gives.
    """

    flavour: str
    tests: tuple[str, ...] = ()
    cpus: int = 2
    quick: bool = True
    soaks: bool = False

    def flavour_for(self, target: Target) -> str:
        """The flavour for a target: with one CPU its debug kernel for User-Mode Linux, if it has one."""
        native = self.flavour == DEBUG and self.cpus == 1 and NATIVE_DEBUG in target.fragments
        return NATIVE_DEBUG if native else self.flavour


RACES = (  # tests with several requests at a time
    *("bad_tags_are_refused", "bad_tags_fail_before_audit", "full_crypto_queue_delays"),
    *("flags_and_keys_change_under_io", "late_completions", "reads_go_on_in_kcryptd", "removed_under_load", "soak"),
)
PROOF_KINDS = {
    "rt": Proof(RT),
    "kcsan": Proof(KCSAN, RACES, soaks=True),
    **{name: Proof(name) for name in PROCESSORS},
    "soak": Proof(DEBUG, ("soak",), cpus=1, quick=False, soaks=True),
    "hotplug": Proof(DEBUG, ("soak",), cpus=4, quick=False, soaks=True),
    "fail-nth": Proof(DEBUG, ("allocations_fail_one_by_one",), cpus=1, quick=False),
    "fuzz": Proof(DEBUG, ("random_tables_and_messages",), cpus=1, quick=False, soaks=True),
}


def record(what: str, machine: Machine, counts: Counts, seconds: float) -> None:
    """Write the row of a proof into TABLE, in place of its last one, with the id of the tree of the series.

    Raises UserError when no test ran.
    """
    if not counts.passed:
        raise UserError("no test passed: docs/proof.md stays as it is")
    tree, log = machine.tree, log_dir(machine.tree.target.name) / "proof.log"
    name = f"| {tree.target.name} | {what} |"
    files = (resolve(tree.path, f"{tree.series}^{{tree}}", log) or "")[:12]
    facts = (time.strftime("%Y-%m-%d"), machine.kernel.release, files, f"{seconds / 60:.0f}")
    row = f"{name} {' | '.join([*facts, *(str(count) for count in astuple(counts))])} |"
    lines = TABLE.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| linux-") and not line.startswith(name)]
    others = [line for line in lines if not line.startswith("| linux-")]
    top = max(number for number, line in enumerate(others, 1) if line.startswith("|---"))
    TABLE.write_text("\n".join([*others[:top], *sorted([*rows, row]), *others[top:]]) + "\n")
