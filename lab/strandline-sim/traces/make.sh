#!/bin/sh
# Makes set.trace, multiset.trace and btree.trace, binary traces of set.cpp: 100 operations, each a transaction (trace::Operations
# makes transactions of any size of them). Needs g++, valgrind with its headers, Abseil (Debian's libabsl-dev), and strandline-lab as
# the first argument. The ones here are of g++ 12.2 with its C++ library and Abseil 20220623, x86-64.
set -eu
strandline=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
g++ -O2 -o "$work/set" "$here/set.cpp"
ln "$work/set" "$work/multiset"
g++ -O2 -DWITH_ABSEIL -o "$work/btree" "$here/set.cpp" -labsl_throw_delegate
for container in set multiset btree; do
    valgrind --quiet --tool=lackey --trace-mem=yes --log-file="$work/lackey" "$work/$container" "$container" 100 1
    "$strandline" simulate --machine wrap --trace "$work/lackey" --record "$here/$container.trace"
done
