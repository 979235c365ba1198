//! The edge as clients see it.
