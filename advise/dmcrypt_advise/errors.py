"""The one exception that is meant for the person at the terminal."""

from __future__ import annotations


class AdviseError(Exception):
    """Something the administrator can act on; the program prints its text without a traceback and exits with 2."""
