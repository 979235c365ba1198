//! What the server says about itself.
