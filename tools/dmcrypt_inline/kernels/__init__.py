"""From a tree to what is built of it: kernels, modules, cryptsetup."""
