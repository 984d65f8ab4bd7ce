"""`strata doctor`: what on this machine, or in a process, keeps Strata from doing its work."""
