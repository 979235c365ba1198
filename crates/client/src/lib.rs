//! Talk to an API server: connection, discovery, dynamic access, list and watch streams.
