import json
import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from multiprocessing.pool import Pool
from pathlib import Path

import pytest
from dmcrypt_advise import command, looking, measuring
from dmcrypt_advise.errors import AdviseError
from dmcrypt_advise.mappings import FLAGS, READ, WRITE
from dmcrypt_advise.measuring import BOTH, DEFAULT, LOADS, RAW, ROUNDS, Load, Sample, Target
from dmcrypt_advise.system import System
from machines import NAME, machine

EBOIV = {"aes-xts-plain64": "aes-cbc-eboiv"}
CREATED = 4  # mappings
SAMPLES = ROUNDS * len(LOADS) * (CREATED + 1)


@pytest.mark.parametrize(
    ("ratios", "sign"),
    [
        ([1.2] * 8 + [0.5], 1),
        ([1.2] * 7 + [0.9] * 2, 0),
        ([0.8] * 8 + [1.5], -1),
        ([1.01] * 9, 0),
        ([1.0] * 9, 0),
    ],
)
def test_a_difference_counts_outside_of_the_noise(ratios: list[float], sign: int) -> None:
    assert len(ratios) == ROUNDS
    assert measuring.compare(rounds(ratios), BOTH).sign == sign


def rounds(ratios: list[float]) -> dict[str, list[Sample]]:
    return {
        RAW: [Sample(200, 0.5)] * ROUNDS,
        DEFAULT: [Sample(100, 1.0)] * ROUNDS,
        BOTH: [Sample(100 * ratio, 0.5) for ratio in ratios],
    }


@pytest.mark.parametrize(
    ("fast", "slow", "words"),
    [
        (3, 0, "set the flags."),
        (0, 0, "the flags gain nothing"),
        (1, 1, "the flags gain nothing"),
        (0, 2, "do not set the flags"),
        (2, 1, "if your loads are like the faster ones"),
    ],
)
def test_the_verdict_is_a_sentence(fast: int, slow: int, words: str) -> None:
    ratios = [1.2] * fast + [0.8] * slow + [1.0] * (len(LOADS) - fast - slow)
    results = {load: rounds([ratio] * ROUNDS) for load, ratio in zip(LOADS, ratios, strict=True)}
    text = measuring.verdict(results)
    assert words in text
    assert f"faster in {fast} and slower in {slow} of 12 loads" in text
    assert "0.50 times the CPU time" in text
    assert "wide" not in text
    assert "wide" in measuring.verdict({load: rounds([0.5, 0.5, 1, 1, 1, 1, 1, 1.5, 1.5]) for load in LOADS})
    assert all(len(line) <= 80 for load in LOADS for line in (measuring.row(load, results[load]),))


DMSETUP = """#!/bin/sh
echo "$* $(cat)" >>{log}
[ "$(wc -l <{log})" != "$STEP" ] || kill -INT $PPID
"""
TABLE = re.compile(r"create (--readonly )?(\S+) 0 \d+ crypt aes-xts-plain64 (\w+) 0 (\S+) \d+ \d+ ?(.*)")


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], int]:
    """A measurement with a stand-in for dmsetup; it is interrupted at a call of dmsetup, or at a sample."""
    program = tmp_path / "dmsetup"
    program.write_text(DMSETUP.format(log=tmp_path / "log"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    system = machine("debian-12-laptop", tmp_path / "machine", {"6.1.119-1": "6.17.1-1"})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(step: int, sample: int) -> int:
        count = 0

        def sampled(readers: Pool, target: Target, load: Load, seconds: float) -> Sample:
            nonlocal count
            count += 1
            if count == sample:
                os.kill(os.getpid(), signal.SIGINT)
            return Sample(1, 1)

        def work() -> None:
            os.environ["STEP"] = str(step)
            monkeypatch.setattr(measuring, "_sample", sampled)  # in this process only
            monkeypatch.setattr(command, "System", lambda: system)
            os._exit(command.main(["--measure", NAME, "--seconds", "1"]))

        # A process of its own, as pytest's may have other threads, which get the signal that the main one blocks.
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        return process.exitcode or 0

    return run


STEPS = [(step, 0) for step in range(1, 2 * CREATED + 1)] + [(0, sample) for sample in (1, 2, 50, SAMPLES)]


@pytest.mark.parametrize(("step", "sample"), [*STEPS, (0, 0)])
def test_an_interrupt_at_any_step_leaves_nothing_behind(
    tmp_path: Path, run: Callable[[int, int], int], step: int, sample: int
) -> None:
    assert run(step, sample) == (130 if step or sample else 0)
    calls = (tmp_path / "log").read_text()
    created = TABLE.findall(calls)
    assert set(re.findall(r"remove --retry (\S+)", calls)) == {name for _, name, _, _, _ in created}
    assert {(read_only, device) for read_only, _, _, device, _ in created} == {("--readonly ", "259:3")}
    assert len({key for _, _, key, _, _ in created}) == 1
    written = list((tmp_path / "here").iterdir())
    assert len(written) == (not (step or sample))
    if written:
        assert [flags for *_, flags in created] == ["", READ, WRITE, " ".join(FLAGS)]
        document = json.loads(written[0].read_text())
        assert document["cipher"]["driver"]["name"] == "xts-aes-aesni"
        assert [len(load["variants"][BOTH]["rate"]) for load in document["results"]] == [ROUNDS] * len(LOADS)
        assert "11111111-2222" not in written[0].read_text()


def test_the_readers_end_with_an_interrupt(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    path.write_bytes(bytes(1 << 20))

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    with pytest.raises(KeyboardInterrupt), measuring._readers() as readers:
        with pytest.raises(AdviseError, match="No such file"):
            measuring._sample(readers, Target(str(tmp_path / "none"), 0, 1 << 20), LOADS[0], 0.01)
        for load in (Load("random", 4096, 2), Load("sequential", 65536, 1)):
            try:
                sample = measuring._sample(readers, Target(str(path), 4096, (1 << 20) - 4096), load, 0.02)
            except AdviseError:
                pytest.skip("this file system has no direct I/O")
            assert sample.rate > 0
        signal.setitimer(signal.ITIMER_REAL, 1)
        measuring._sample(readers, Target(str(path), 0, 1 << 20), LOADS[1], 60)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"1 allow_discards": "1 integrity:32:aead"}, "integrity tags"),
        ({**EBOIV, "driver       : xts-aes-aesni": "driver : x", "6.1.119-1": "5.9.1-1"}, "unsafe on this kernel"),
        ({"v1.24.0": "v1.21.0"}, "cannot be measured"),
        ({NAME: "other"}, "no open dm-crypt mapping"),
    ],
)
def test_unsafe_flags_are_not_measured(tmp_path: Path, changed: dict[str, str], why: str) -> None:
    system = machine("debian-12-laptop", tmp_path, changed)
    with pytest.raises(AdviseError, match=why):
        measuring.measure(system, NAME, 1, lambda _: None)


def test_the_variants_without_an_unsafe_flag_are_measured(tmp_path: Path) -> None:
    system: System = machine("debian-12-laptop", tmp_path, {"6.1.119-1": "6.1.50-1"})
    _, variants = measuring._to_measure(looking.look(system), NAME)
    assert variants == [DEFAULT, WRITE]
