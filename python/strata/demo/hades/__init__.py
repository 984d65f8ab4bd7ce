"""`make hades`: CrestDB with values that stay and with values that move."""
