//! Empty: this package only pulls in the allocator's sources and builds its static library.
