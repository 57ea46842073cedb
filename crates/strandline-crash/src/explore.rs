//! Exploration of schemes.
