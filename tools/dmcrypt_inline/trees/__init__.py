"""From a target to its tree: the base, the queue applied, and the queue on its way out again."""
