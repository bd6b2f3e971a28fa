"""What the flags would do on this machine: read, judge, say, and on request set. Standard library only."""
