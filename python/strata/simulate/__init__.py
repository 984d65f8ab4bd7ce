"""`strata simulate`: what packing policies would hold of recorded or made-up items."""
