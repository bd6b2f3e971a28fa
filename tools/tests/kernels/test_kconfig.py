from contextlib import nullcontext
from pathlib import Path

import pytest

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.kernels.kconfig import configure, requested

# What merge_config.sh says of an option that it dropped.
SCRIPT = r"""printf 'Merging a
Value requested for X not in final .config
Requested value:  %s
Actual value:     %s\n\n' '{}' '{}'"""


@pytest.mark.parametrize(
    ("wanted", "got", "is_error"),
    [
        ("CONFIG_DM_CRYPT=y", "CONFIG_DM_CRYPT=m", True),
        ("CONFIG_TYPO=y", "", True),
        ("# CONFIG_SMP is not set", "CONFIG_SMP=y", True),
        ("# CONFIG_EMBEDDED is not set", "", False),
    ],
)
def test_a_dropped_option_is_an_error(tmp_path: Path, wanted: str, got: str, is_error: bool) -> None:
    script = tmp_path / "scripts/kconfig/merge_config.sh"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT.format(wanted, got))
    with pytest.raises(UserError, match=wanted) if is_error else nullcontext():
        configure(tmp_path, tmp_path, [], [], tmp_path / "log")


def test_comments_are_not_requested(tmp_path: Path) -> None:
    fragment = tmp_path / "a.config"
    fragment.write_text("# For limits on writers\nCONFIG_A=y\n\n# CONFIG_B is not set\n")
    assert requested([fragment]) == ["CONFIG_A=y", "# CONFIG_B is not set"]
