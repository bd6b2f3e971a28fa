"""What needs no guest: the repository's own files, and each queue."""
