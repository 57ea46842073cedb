//! The header is the one that the source gives. C and C++ programs compile against it without a warning, do what they should, leave nothing behind
//! under valgrind, and find what they had committed when they were killed. An installed library is found by pkg-config, CMake and Meson.

mod classes;
mod header;
mod installation;
mod programs;
mod tools;
