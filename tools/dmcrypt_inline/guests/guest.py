"""Boot a kernel with the host's own user space, or that of `foreign_root`, and run one script in it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from ..common import host
from ..common.errors import UserError
from ..common.paths import TOOLS
from ..common.run import CommandError, run
from ..kernels.build import USER_MODE, Arch, Kernel
from .foreign_root import foreign_root
from .kernel_log import KernelWarning, find_warnings

GUEST_SCRIPTS = TOOLS / "guest"
INIT = GUEST_SCRIPTS / "init.sh"
SHELL = "shell.sh"  # the only script that uses the console for input and output; enter.sh knows its name
SHARE = "run/guest"  # where the guest finds the shared directory; init.sh and enter.sh have the path too
SHARE_TAG = "virtme.initmount0"  # virtme-run's name for the first --rwdir
# The emulator runs the string instructions of "erms" byte by byte, which makes every copy look far too expensive.
CPU = "max,-erms"
# In place of an accelerator: TCG with one CPU and a clock that counts a nanosecond per instruction, and follows the
# host's clock only while the CPU is idle. Work on the CPU takes the same time however busy the host is.
COUNTED = "icount"
COUNTED_ARGS = ("-icount", "shift=0")
MEMORY = "3G"
GRACE = 20.0  # seconds that a guest may go on after its kernel's first warning
POLL = 0.1  # seconds between two looks at the files that the guest writes
TAIL_LINES = 25

# An oops or a panic ends the guest: with panic=-1 under virtme-run; User-Mode Linux ends anyway.
KERNEL_ARGS = ("loglevel=7", "oops=panic")
# The root never changes under the guest, so the guest may cache all of it; the shared directory is not cached.
QEMU_ARGS = (
    *("panic=-1", "ro", "rootfstype=9p"),
    "rootflags=version=9p2000.L,trans=virtio,access=any,msize=524288,cache=loose",
)
# HPET, the default clock under TCG, costs more than the I/O under test.
X86_ARGS = (
    *("console=ttyS0", "earlyprintk=serial,ttyS0,115200", "clocksource=tsc", "tsc=reliable"),
    # While they identify the boot CPU, late kernels forget for a moment that it has five levels of page tables.
    # KASAN then reports an interrupt's accesses as wild (reproduced on 7.3.4).
    "no5lvl",
)

# The consoles of User-Mode Linux. "stderr" is used during the boot only; then the first of the others takes over.
MESSAGES = ("stderr=1", "con=null", "con0=null,fd:2")  # to standard error
TERMINAL = ("con=null", "con0=fd:0,fd:1")  # the caller's terminal is the console
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class GuestResult:
    """How one guest run ended.

    `status` is the script's exit status, or None when the guest ended before the script; `why` is the reason then.
    `seconds` is the time of the complete run. `console` is the kernel's log, `output` what the script printed,
    `results` the directory with the files that the script wrote.
    """

    name: str
    status: int | None
    why: str
    seconds: float
    console: Path
    output: Path
    results: Path
    warnings: tuple[KernelWarning, ...]

    def require_success(self) -> None:
        """Raise UserError unless the script succeeded and the kernel printed no warning."""
        if self.status == 0 and not self.warnings:
            return
        if self.warnings:
            first = self.warnings[0]
            shown, what = first.excerpt, f"the kernel printed {len(self.warnings)} warnings, first: {first.first}"
        elif self.status is None:
            shown, what = tail(self.console), self.why
        else:
            shown, what = tail(self.output), f"the script ended with exit status {self.status}"
        raise UserError(
            f"guest {self.name}: {what}\n  console: {self.console}\n  output: {self.output}\n{indent(shown, '    ')}"
        )


def tail(path: Path) -> str:
    """The last lines of a log, "" when there is none."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-TAIL_LINES:])
    except OSError:
        return ""


def run_guest(
    kernel: Kernel,
    script: str,
    *,
    name: str,
    out: Path,
    accel: str,
    timeout: float,
    inputs: Mapping[str, Path] | None = None,
    env: Mapping[str, str] | None = None,
    cpus: int = 2,
    memory: str = MEMORY,
    kernel_args: Sequence[str] = (),
    qemu_args: Sequence[str] = (),
    expected: Sequence[str] = (),
    grace: float = GRACE,
    on_line: Callable[[str], None] | None = None,
) -> GuestResult:
    """Run `script` (a file of tools/guest) as root in a guest.

    out: a directory for this guest alone, below the run's own (see runs.py); it must not hold another guest.
    inputs: host files and directories by their names below $INPUT; modules/*.ko can be loaded with modprobe.
    accel: "kvm", "tcg" or COUNTED (see machine.py), "native" for User-Mode Linux.
    timeout: seconds for the run. grace: seconds that it may go on after the kernel's first warning or its script.
    cpus: User-Mode Linux (MEASURED apart) and COUNTED have one. qemu_args: more devices, not for User-Mode Linux.
    expected: see find_warnings. on_line: receives each line that the script prints.

    Raises UserError when the guest cannot be started.
    """
    share = _prepare(kernel, out, {**(inputs or {}), "guest": GUEST_SCRIPTS}, env or {})
    console, output = out / "console.log", share / "output"
    kernel_args = (*KERNEL_ARGS, *kernel_args)
    if kernel.arch == USER_MODE:
        pidfile = out / "uml" / "guest" / "pid"
        argv = _user_mode(kernel, script, out, memory, (*MESSAGES, *kernel_args))
    else:
        pidfile = out / "qemu.pid"
        counted = accel == COUNTED
        argv = _virtme_run(kernel, share, accel=accel, cpus=1 if counted else cpus, memory=memory)
        argv += ["--show-boot-console", "--script-sh", "true"]  # so it needs no terminal; _append says what to run
        argv += ["--qemu-opts", "-name", "guest", "-pidfile", pidfile, *_append(kernel, script, kernel_args)]
        argv += _cpu(kernel.arch, accel)
        argv += COUNTED_ARGS if counted else ()
        argv += qemu_args
    why = "the guest ended before its script did"
    start = time.monotonic()
    with ExitStack() as stack:
        if kernel.arch == USER_MODE and cpus == 1:
            argv = [*stack.enter_context(_on_one_cpu()), *argv]
        watched = _watched(console, output, pidfile, expected=expected, grace=grace, on_line=on_line)
        stopped = stack.enter_context(watched)
        try:
            # The kernel's console is the program's standard error.
            run(argv, log=console, timeout=timeout, env={"TMPDIR": _for_memory(out, memory)}, check=False)
        except CommandError as error:
            if error.completed.seconds < timeout:
                raise
            why = f"the guest did not end within {timeout:.0f} s"
    for copy in (share / "input.tar", *(share / "input" / "modules").iterdir()):
        copy.unlink()  # nobody reads them after the guest has ended
    return GuestResult(
        name=name,
        status=_status(share / "status"),
        why=stopped[0] if stopped else why,
        seconds=time.monotonic() - start,
        console=console,
        output=output,
        results=share / "results",
        warnings=find_warnings(console.read_text(errors="replace"), expected),
    )


def open_shell(kernel: Kernel, *, out: Path, accel: str, inputs: Mapping[str, Path], env: Mapping[str, str]) -> None:
    """Run shell.sh of tools/guest in a guest whose console is the caller's terminal, without a time limit.

    The other parameters are those of `run_guest`. Raises UserError when there is no terminal, and when the guest
    ended before its shell.
    """
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UserError("make shell needs a terminal; make selftest TEST=NAME runs one test without a terminal")
    columns, lines = os.get_terminal_size()
    terminal = {"TERM": os.environ.get("TERM", "dumb"), "COLUMNS": str(columns), "LINES": str(lines)}
    share = _prepare(kernel, out, {**inputs, "guest": GUEST_SCRIPTS}, {**env, **terminal})
    kernel_args = ("loglevel=4",)  # dmesg shows the other messages
    if kernel.arch == USER_MODE:
        argv = _user_mode(kernel, SHELL, out, MEMORY, (*TERMINAL, *kernel_args))
    else:
        argv = _virtme_run(kernel, share, accel=accel, cpus=2, memory=MEMORY)
        argv += ["--qemu-opts", *_append(kernel, SHELL, kernel_args), *_cpu(kernel.arch, accel)]
    subprocess.run(argv, env={**os.environ, "TMPDIR": _for_memory(out, MEMORY)}, check=False)
    if _status(share / "status") is None:
        raise UserError("the guest ended before its shell did")


def _virtme_run(kernel: Kernel, share: Path, *, accel: str, cpus: int, memory: str) -> list[str | Path]:
    argv: list[str | Path] = [host.python_env() / "bin" / "virtme-run", "--kimg", kernel.image, "--mods", "none"]
    machine = kernel.arch.machine
    argv += ["--arch", machine, "--root", foreign_root(machine, INIT.parent)] if machine else ["--root", "/"]
    argv += ["--force-9p", "--disable-microvm", "--rwdir", f"{SHARE}={share}", "--memory", memory, "--cpus", str(cpus)]
    return argv if accel == "kvm" else [*argv, "--disable-kvm"]


def _cpu(arch: Arch, accel: str) -> tuple[str, ...]:
    """QEMU's option for the CPU; virtme-run chooses one for other processors."""
    return () if accel == "kvm" or arch.machine else ("-cpu", CPU)


def _user_mode(kernel: Kernel, script: str, out: Path, memory: str, arguments: Sequence[str]) -> list[str | Path]:
    """The command that boots User-Mode Linux: processes of the host, at the host's speed."""
    return [
        kernel.image,
        f"mem={memory}",
        *("root=none", "rootfstype=hostfs", "rootflags=/", "ro"),
        "seccomp=auto",  # faster than ptrace, where kernel and host have it
        *(f"uml_dir={out}/uml/", "umid=guest"),  # so the pid file is uml/guest/pid
        f'init="{INIT}"',
        # The kernel puts each unknown NAME=VALUE into the environment of init.
        f'guest_share="{out}/share"',
        f"guest_script={script}",
        *arguments,
    ]


_guests_on = Counter[int]()  # the guests of this process, by the host's CPU
_choosing_cpu = threading.Lock()


@contextmanager
def _on_one_cpu() -> Iterator[tuple[str, ...]]:
    """Words before a command that keep it on one CPU of the host: the CPU with the fewest guests.

    User-Mode Linux and its processes take turns. On two CPUs each turn would wake an idle CPU, which takes a third
    of the time where the host is itself a virtual machine.
    """
    with _choosing_cpu:
        cpu = min(os.sched_getaffinity(0), key=_guests_on.__getitem__)
        _guests_on[cpu] += 1
    try:
        yield ("taskset", "--cpu-list", str(cpu))
    finally:
        with _choosing_cpu:
            _guests_on[cpu] -= 1


def _for_memory(out: Path, memory: str) -> str:
    """The directory for the file that User-Mode Linux uses as its memory: a RAM disk where one has room."""
    size = int(memory[:-1]) << {"M": 20, "G": 30}[memory[-1]]
    usable = SHARED_MEMORY.is_dir() and not os.statvfs(SHARED_MEMORY).f_flag & os.ST_NOEXEC
    roomy = usable and shutil.disk_usage(SHARED_MEMORY).free >= 2 * size
    return str(SHARED_MEMORY if roomy else out / "tmp")


def _append(kernel: Kernel, script: str, kernel_args: Sequence[str]) -> list[str]:
    """QEMU's option for the kernel's command line. It replaces that of virtme-run, which names another init."""
    machine = (f"console={kernel.arch.console}",) if kernel.arch.machine else X86_ARGS
    init = f"/guest/{INIT.name}" if kernel.arch.machine else INIT
    started = (f'init="{init}"', f"guest_share={SHARE_TAG}", f"guest_script={script}")
    return ["-append", " ".join((*QEMU_ARGS, *machine, *kernel_args, *started))]


def _prepare(kernel: Kernel, out: Path, inputs: Mapping[str, Path], env: Mapping[str, str]) -> Path:
    """Create and fill the directory that the guest shares with the host, private to the user, and return it."""
    share = out / "share"
    if share.exists():
        raise UserError(f"another guest has used {out}")
    for directory in (out / "tmp", out / "uml", share / "input" / "modules", share / "results"):
        directory.mkdir(parents=True)
    out.chmod(0o700)
    for module in sorted(kernel.modules.glob("*.ko")):
        shutil.copy(module, share / "input" / "modules")
    for name, source in inputs.items():
        target = share / "input" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    lines = [f"export {key}={shlex.quote(value)}\n" for key, value in env.items()]
    (share / "input" / "environment").write_text("".join(lines))
    shutil.make_archive(f"{share}/input", "tar", share / "input")
    return share


def _status(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def growing(path: Path) -> Iterator[list[str]]:
    """Each time, the lines that another process has completed in a file meanwhile."""
    while not path.exists():
        yield []
    with path.open(errors="replace", newline="") as source:
        line = ""
        while True:
            *lines, line = (line + source.read()).replace("\r", "").split("\n")
            yield lines


@contextmanager
def _watched(
    console: Path,
    output: Path,
    pidfile: Path,
    *,
    expected: Sequence[str],
    grace: float,
    on_line: Callable[[str], None] | None,
) -> Iterator[list[str]]:
    """Follow a running guest: pass on its script's lines, and kill it some time after a kernel warning or the script.

    Yields a list that then contains the reason.
    """
    stopped: list[str] = []
    ended = threading.Event()
    messages, printed, status = growing(console), growing(output), output.with_name("status")

    def pass_on(lines: Sequence[str]) -> None:
        for line in lines:
            if on_line:
                on_line(line)

    def follow() -> None:
        kill_at: float | None = None
        reason = ""
        while not ended.wait(POLL):
            pass_on(next(printed))
            if kill_at is None:
                if find_warnings("\n".join(next(messages)), expected):
                    kill_at, reason = time.monotonic() + grace, "the kernel printed a warning"
                elif status.exists():  # User-Mode Linux can hang when it powers off
                    kill_at, reason = time.monotonic() + grace, "its script ended"
            elif time.monotonic() > kill_at and not stopped:
                stopped.append(f"{reason}; the guest was killed {grace:.0f} s later")
                with suppress(OSError, ValueError):  # the guest has ended by itself
                    # Not SIGTERM: on it User-Mode Linux cleans up wherever it is, and prints warnings about that.
                    os.killpg(os.getpgid(int(pidfile.read_text())), signal.SIGKILL)
        pass_on(next(printed))
        if output.exists():
            pass_on(list(filter(None, [output.read_text(errors="replace").rpartition("\n")[2]])))  # not completed

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield stopped
    finally:
        ended.set()
        thread.join()
