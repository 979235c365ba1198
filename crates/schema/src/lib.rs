//! Structural schemas: prune, default, validate; CRD checks; printer columns.
