"""Traces of allocations: recording (`strata trace`), reading, and replaying (`strata replay`)."""
