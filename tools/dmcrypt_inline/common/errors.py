"""The one exception that is meant for the person at the terminal."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can act on.

    The text says what went wrong, what was expected and what to do. The command
    line prints it without a traceback and exits with status 1.
    """
