"""The modules of dmcrypt_advise under the name that they had here: scripts of others import them."""

from ..common.paths import REPO

__path__ = [str(REPO / "advise" / "dmcrypt_advise")]
