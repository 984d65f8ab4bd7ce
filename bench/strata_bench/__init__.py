"""The benchmark runner: builds the programs and the peers, measures in turn, reports."""
