"""`strata compare`: an A/B experiment over allocators or settings, with honest error bars."""
