//! Litmus tests.
