//! Durable revisioned store: log with group commit, snapshot, recovery, watch hub.
