//! Composition root: configuration in, a running Skopos out.
