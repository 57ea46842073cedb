# The commands that a contributor needs. CONTRIBUTING.md explains them.

_default:
    @just --list

# Compiles the commands.
build:
    cargo build --release -p strandline-cli -p strandline-check-cli -p strandline-lab-cli

# Tests one part, by its crate's name without the prefix, or those of its tests whose names contain FILTER.
test part filter="":
    cargo test -p {{ if part == "strandline" { part } else { "strandline-" + part } }} {{filter}}
    {{ if part == "core" { "cargo test -p strandline --test core " + filter } else { "" } }}

# Runs the crash checker under one scheme.
checker scheme="bppm":
    cargo run --release -p strandline-lab-cli -- check --scheme {{scheme}} --samples 50

# Checks formatting, lints and the subjects of commits, as CI does.
lint:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    .ci/subjects

# Checks everything that must hold on main.
ci:
    .ci/run
