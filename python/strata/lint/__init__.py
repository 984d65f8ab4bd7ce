"""`strata lint`: reads a whole C or C++ program and says where memory, files, locks or format
strings are misused. The analysis is strata-lint-engine (lint/); docs/lint.md has the whole."""
