"""What every room uses: running programs, paths, the cache, the host's packages."""
