//! How objects look to clients.
