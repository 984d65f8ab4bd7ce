"""`strata report`: what a process does with its memory, on one page, and what to do about it."""
