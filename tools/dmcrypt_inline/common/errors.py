"""The one exception that is meant for the person at the terminal."""


class UserError(Exception):
    """An error that the user can act on; the command line prints its text without a traceback."""
