"""The base of all packages: running programs, paths, the cache, the host's programs."""
