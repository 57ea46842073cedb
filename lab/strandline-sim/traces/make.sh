#!/bin/sh
# Makes set.trace and multiset.trace, binary traces of set.cpp: 100 operations, each a transaction (trace::Operations makes
# transactions of any size of them). Needs g++, valgrind with its headers, and this project's command as the first argument.
# The ones here are of g++ 12.2 with its C++ library, x86-64.
set -eu
strandline=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
g++ -O2 -o "$work/set" "$here/set.cpp"
for container in set multiset; do
    valgrind --quiet --tool=lackey --trace-mem=yes --log-file="$work/lackey" "$work/set" "$container" 100 1
    "$strandline" simulate --machine wrap --trace "$work/lackey" --record "$here/$container.trace"
done
