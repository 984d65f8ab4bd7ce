"""`make learn`: record, train, run, on a server of ours, and what it saved."""
