"""`make check`: the checks that need no guest, of the repository's own files and of each queue."""
