"""Every test has a cache and a build directory of its own."""

from pathlib import Path

import pytest
from guests import make_kernel

from dmcrypt_inline.kernels.build import Kernel


@pytest.fixture(autouse=True)
def own_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    place: Path = tmp_path_factory.mktemp("places")
    monkeypatch.setenv("DMCRYPT_INLINE_CACHE", str(place / "cache"))
    for module in ("common.paths", "common.host", "checks.sources", "commands.testing"):
        monkeypatch.setattr(f"dmcrypt_inline.{module}.BUILD", place / "build")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return make_kernel(tmp_path)
