"""`strata pageutil`: which part of the pages that a program touches it uses."""
