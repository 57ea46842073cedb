//! One program, so that the library is linked once. What starts processes is in `tests/processes`.

mod attacks;
mod backup;
mod beside;
mod closing;
mod damage;
mod database;
mod deadlocks;
mod described;
mod directions;
mod durability;
mod dynamic_tables;
mod iteration;
mod large;
mod leases;
mod lent;
mod nested;
mod protection;
mod repair;
mod robustness;
mod savepoints;
mod snapshots;
mod typed;
mod types;
mod values;
mod walks;
