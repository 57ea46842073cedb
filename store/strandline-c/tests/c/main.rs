//! Checks that the header is the one that the source generates; that C and C++ programs compile with it without warnings, work, leave nothing behind
//! under valgrind, and find their committed data after they were killed; and that pkg-config, CMake and Meson find an installed library.

mod classes;
mod header;
mod installation;
mod programs;
mod tools;
