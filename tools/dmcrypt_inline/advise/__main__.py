"""python -m dmcrypt_inline.advise: the installed program, where nothing is installed."""

import sys

from .command import main

sys.exit(main(["advise", *sys.argv[1:]]))
