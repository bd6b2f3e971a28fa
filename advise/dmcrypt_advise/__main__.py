"""Run the program: python3 -m dmcrypt_advise."""

import sys

from .command import main

sys.exit(main())
