"""Read the KTAP lines that the guest tests print."""

import re
from dataclasses import dataclass

_PLAN = re.compile(r"^1\.\.(\d+)(?:\s+#\s*SKIP\s*(.*))?$")
_TEST = re.compile(r"^(not )?ok (\d+)(?: (?!# SKIP)(.*?))?(?:\s*# SKIP\s*(.*))?$")


@dataclass(frozen=True)
class Case:
    """One test line; `skip` is the reason or ""."""

    ok: bool
    name: str
    skip: str


@dataclass(frozen=True)
class Report:
    """The KTAP of one test file, and its violations of the format.

    `skip` is the reason when the file skipped all its cases. A report with problems has failed, whatever its cases say.
    """

    skip: str
    cases: tuple[Case, ...]
    problems: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """The exit status that fits the report: 0 passed, 1 failed, 4 all skipped."""
        if self.problems or not all(case.ok for case in self.cases):
            return 1
        return 4 if all(case.skip for case in self.cases) else 0


def parse(text: str) -> Report:
    """Read one test file's output; other lines than KTAP are ignored."""
    plan: int | None = None
    skip = ""
    cases: list[Case] = []
    problems: list[str] = []
    for line in text.splitlines():
        if planned := _PLAN.match(line):
            if plan is not None:
                problems.append(f"a second plan: {line}")
            plan, skip = int(planned[1]), planned[2] or ""
        elif test := _TEST.match(line):
            if int(test[2]) != len(cases) + 1:
                problems.append(f"expected test {len(cases) + 1}, got: {line}")
            reason = "no reason given" if test[4] == "" else test[4] or ""
            cases.append(Case(test[1] is None, test[3] or "", reason))
        elif line.startswith("Bail out!"):
            problems.append(line)
    if text and not text.endswith("\n"):
        problems.append("the output ends in the middle of a line")
    if plan is None:
        problems.append("no plan")
    elif plan != len(cases):
        problems.append(f"{plan} tests planned, {len(cases)} seen")
    elif plan == 0 and not skip:
        problems.append("nothing planned, and no reason given")
    return Report(skip, tuple(cases), tuple(problems))
