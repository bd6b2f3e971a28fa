"""The guest tests on the debug kernel, and the proofs that they can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import accel as accelerator
from . import ktap
from .build import Kernel, Module
from .build_cryptsetup import Cryptsetup
from .complaints import Complaint
from .errors import UserError
from .guest import GRACE, GuestResult, run_guest
from .paths import build_dir
from .progress import say
from .results import Counts, environment, write
from .series import Tree
from .targets import TOOLS

TESTS = TOOLS / "tests" / "guest"
WRONG = TOOLS / "tests" / "wrong"
HELPERS = ("dm_crypt", "ktap", "regions")  # sourced, not run
MARK = "guest test: "  # tests.sh writes it to the kernel log before each test
ALL_SECONDS = 2100.0  # against a guest that hangs: on 2 cores all take 800, the longest 220
ONE_SECONDS = 900.0
PROOF_GRACE = 2.0  # seconds: one complaint proves it

# A crypto queue this short is always full: what the recipes need, and the other tests may as well have.
KERNEL_ARGS = ("cryptd.cryptd_max_cpu_qlen=4",)


@dataclass(frozen=True)
class TestResult:
    """One test file in one guest: what it said, its exit status (None: it never ended), the kernel's complaints."""

    name: str
    report: ktap.Report
    status: int | None
    complaints: tuple[Complaint, ...]

    @property
    def counts(self) -> Counts:
        """Claims passed, failed and skipped; one failure more for each way in which the run itself went wrong."""
        claims = self.report.claims
        passed = sum(claim.ok and not claim.skip for claim in claims)
        failed = sum(not claim.ok for claim in claims) + len(self.faults)
        skipped = sum(claim.ok and bool(claim.skip) for claim in claims) + bool(self.report.skip)
        return Counts(passed, failed, skipped)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong besides the claims that failed."""
        faults = [*self.report.problems]
        if self.complaints:
            faults.append(f"the kernel complained: {self.complaints[0].first}")
        if self.status is None:
            faults.append("the guest ended before the test did")
        elif self.status != self.report.exit_status:
            faults.append(f"exit status {self.status}, where what it said means {self.report.exit_status}")
        return tuple(faults)

    @property
    def tripped(self) -> bool:
        """Whether the test found something: a claim that is not ok, or a complaint. A broken setup is no find."""
        return bool(self.complaints) or not all(claim.ok for claim in self.report.claims)


@dataclass(frozen=True)
class Proof:
    """A wrong variant against the test that must find it wrong; `found` is what that test, or the kernel, said."""

    variant: str
    test: str
    proved: bool
    found: str


def names() -> list[str]:
    """The guest tests, in the order in which they run."""
    return sorted(path.stem for path in TESTS.glob("*.sh") if path.stem not in HELPERS)


def run(tree: Tree, kernel: Kernel, modules: Mapping[str, Module], cryptsetup: Cryptsetup, accel: str | None) -> Counts:
    """Run all tests against modules['series'], then each wrong variant against the test that must trip over it.

    Writes build/<target>/test/results.json. Raises UserError when a guest cannot be started.
    """
    out = build_dir(kernel.target) / "test"
    chosen = accelerator.choose(kernel, accel)
    proofs = {name: must_trip(WRONG / f"{name}.patch") for name in modules if name not in ("base", "series")}
    say(f"guest tests on Linux {kernel.release} ({kernel.flavour}, {chosen}); consoles: {out}")
    guests = Guests(kernel, cryptsetup, chosen, out, on_line=lambda line: say(f"    {line}"))
    quiet = replace(guests, on_line=None, grace=PROOF_GRACE, fail_fast=True)
    with ThreadPoolExecutor(1) as pool:  # one guest beside ours: it mostly keeps one CPU busy
        proving = [pool.submit(_prove, quiet, modules[name], test) for name, test in proofs.items()]
        try:
            results = guests.run(modules["series"], names(), ALL_SECONDS)
            for result in results:
                for fault in result.faults:
                    say(f"not ok {result.name}: {fault}")
            proved = [future.result() for future in proving]
        finally:
            pool.shutdown(cancel_futures=True)
    counts = [
        *(result.counts for result in results),
        *(Counts(int(proof.proved), int(not proof.proved), 0) for proof in proved),
    ]
    total = Counts(*(sum(column) for column in zip(*((c.passed, c.failed, c.skipped) for c in counts))))
    where = environment(tree, kernel, modules, cryptsetup, chosen)
    path = write(
        out / "results.json",
        where,
        {
            "counts": asdict(total),
            "series": [asdict(result) for result in results],
            "proofs": [asdict(proof) for proof in proved],
        },
    )
    say(f"guest tests: {total.passed} passed, {total.failed} failed, {total.skipped} skipped; results: {path}")
    return total


def must_trip(patch: Path) -> str:
    """The test that has to fail with a wrong variant: the line "Trips: <test>" above its diff.

    Raises UserError when it is missing or names no test.
    """
    for line in patch.read_text().splitlines():
        word, _, name = line.partition(":")
        if word == "Trips" and name.strip() in names():
            return name.strip()
    raise UserError(
        f"{patch} does not say which test must fail\n  it needs a line: Trips: <one of {', '.join(names())}>"
    )


def _prove(guests: Guests, module: Module, test: str) -> Proof:
    try:
        [result] = guests.run(module, [test], ONE_SECONDS)
    except UserError as error:
        proof = Proof(module.name, test, False, str(error))
    else:
        wrong = [claim.name for claim in result.report.claims if not claim.ok]
        found = [*(complaint.first for complaint in result.complaints[:1]), *wrong[:1]]
        proof = Proof(module.name, test, result.tripped, found[0] if found else "nothing")
    say(f"{'ok' if proof.proved else 'not ok'} {test} finds {module.name} wrong: {proof.found}")
    return proof


@dataclass(frozen=True)
class Guests:
    """Where test files run: a kernel, its accelerator, the directory of the runs; `on_line` gets what they print.

    They find `cryptsetup` under $CRYPTSETUP_PREFIX, its own tests in $CRYPTSETUP_TESTS.
    """

    kernel: Kernel
    cryptsetup: Cryptsetup
    accel: str
    out: Path
    on_line: Callable[[str], None] | None
    grace: float = GRACE
    fail_fast: bool = False

    def run(self, module: Module, tests: Sequence[str], timeout: float) -> list[TestResult]:
        """Run the tests against a module; each guest has `timeout` seconds.

        A guest that ends too early costs only the test that did it: the rest run
        in another one. Raises UserError when a guest does not get to its first test.
        """
        results: list[TestResult] = []
        left = list(tests)
        while left:
            out = self.out / (module.name if left == list(tests) else f"{module.name}-from-{left[0]}")
            batch = self._boot(module, left, out, timeout)
            ended = [result for result in batch if result.status is not None]
            if len(ended) < len(batch):
                cut = batch[len(ended)]
                # Innocent when an earlier test provoked the complaint that stopped the guest.
                if cut.complaints or not any(result.complaints for result in ended):
                    ended.append(cut)
            results += ended
            left = left[len(ended) :]
        return results

    def _boot(self, module: Module, tests: Sequence[str], out: Path, timeout: float) -> list[TestResult]:
        guest = run_guest(
            self.kernel,
            "tests.sh",
            name=module.name,
            out=out,
            accel=self.accel,
            timeout=timeout,
            inputs={"tests": TESTS, "modules/dm-crypt.ko": module.path},
            env={
                "TESTS": " ".join(tests),
                "LIMIT": f"{ONE_SECONDS:.0f}",
                "CRYPTSETUP_PREFIX": str(self.cryptsetup.prefix),
                "CRYPTSETUP_TESTS": str(self.cryptsetup.tests),
                "KTAP_FAIL_FAST": "1" if self.fail_fast else "",
            },
            kernel_args=KERNEL_ARGS,
            grace=self.grace,
            on_line=self.on_line,
        )
        if guest.status is None and self.on_line:
            self.on_line(f"{guest.why}; console: {guest.console}")
        blamed = blame(guest.console.read_text(errors="replace"), guest.complaints, tests)
        if blamed[""] or not (guest.results / f"{tests[0]}.ktap").exists():
            guest.require_success()
        return [_read(guest, name, blamed[name]) for name in tests]


def blame(console: str, complaints: Sequence[Complaint], tests: Sequence[str]) -> dict[str, tuple[Complaint, ...]]:
    """Complaints by the test that ran when they came ("" for those before the first)."""
    running = ""
    at_line = [""]
    for line in console.replace("\r", "").splitlines():  # as complaints.scan counts them
        name = line.partition(MARK)[2].strip()
        running = name if name in tests else running
        at_line.append(running)
    return {name: tuple(c for c in complaints if at_line[c.line] == name) for name in ("", *tests)}


def _read(guest: GuestResult, name: str, complaints: tuple[Complaint, ...]) -> TestResult:
    said, status = guest.results / f"{name}.ktap", guest.results / f"{name}.status"
    return TestResult(
        name=name,
        report=ktap.parse(said.read_text(errors="replace") if said.exists() else ""),
        status=int(status.read_text()) if status.exists() else None,
        complaints=complaints,
    )
