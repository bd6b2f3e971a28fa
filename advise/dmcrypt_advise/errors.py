"""The exception whose text is meant for the user."""


class AdviseError(Exception):
    """An error that the user can act on: the program prints its text without a traceback and exits with status 2."""
