"""The measuring program: what is copied into a guest, with standard library and a few modules of common alone."""
