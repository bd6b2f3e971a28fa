from pathlib import Path

import pytest

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.kernels.kconfig import configure, requested

DROPPED = """\
Value requested for {0} not in final .config
Requested value:  {1}
Actual value:     {2}

"""


def configured(place: Path, *dropped: str) -> None:
    """Run `configure` with a merge_config.sh that says it dropped an option."""
    script = place / "scripts/kconfig/merge_config.sh"
    script.parent.mkdir(parents=True)
    script.write_text(f"cat <<'END'\nMerging a\n{DROPPED.format(*dropped) if dropped else ''}END\n")
    configure(place, place, [], [], place / "log")


@pytest.mark.parametrize(
    "dropped",
    [
        ("CONFIG_DM_CRYPT", "CONFIG_DM_CRYPT=y", "CONFIG_DM_CRYPT=m"),
        ("CONFIG_TYPO", "CONFIG_TYPO=y", ""),
        ("CONFIG_SMP", "# CONFIG_SMP is not set", "CONFIG_SMP=y"),
    ],
)
def test_a_dropped_option_is_an_error(tmp_path: Path, dropped: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=dropped[1]):
        configured(tmp_path, *dropped)


def test_an_option_that_is_missing_is_not_set(tmp_path: Path) -> None:
    configured(tmp_path, "CONFIG_EMBEDDED", "# CONFIG_EMBEDDED is not set", "")


def test_comments_are_not_requested(tmp_path: Path) -> None:
    fragment = tmp_path / "a.config"
    fragment.write_text("# For limits on writers\nCONFIG_A=y\n\n# CONFIG_B is not set\n")
    assert requested([fragment]) == ["CONFIG_A=y", "# CONFIG_B is not set"]
