/* Marks in a program whose memory accesses valgrind's lackey records, for `strandline-lab simulate --trace`.
 *
 *   valgrind --tool=lackey --trace-mem=yes --log-file=mine.trace ./mine
 *   strandline-lab simulate --machine wrap --hardware wrap --trace mine.trace
 *
 * Each is a line in the trace, at its place among the accesses. Outside valgrind, or where its header is not installed, they do nothing.
 * docs/machines.md says what a trace can have in it, and what not. */
#ifndef STRANDLINE_TRACE_H
#define STRANDLINE_TRACE_H

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define STRANDLINE_TELL(...) ((void)VALGRIND_PRINTF(__VA_ARGS__))
#endif
#endif
#ifndef STRANDLINE_TELL
#define STRANDLINE_TELL(...) ((void)0)
#endif

/* These bytes are in persistent memory; once there is such a mark, all others are not. */
#define STRANDLINE_PERSISTENT(address, bytes) \
    STRANDLINE_TELL("strandline persistent 0x%lx,%lu\n", (unsigned long)(address), (unsigned long)(bytes))
/* What came before is no part of the trace. */
#define STRANDLINE_START() STRANDLINE_TELL("strandline start\n")
/* A transaction begins. */
#define STRANDLINE_BEGIN() STRANDLINE_TELL("strandline begin\n")
/* It commits. */
#define STRANDLINE_COMMIT() STRANDLINE_TELL("strandline commit\n")
/* It ends; the program has taken its stores back. */
#define STRANDLINE_ABORT() STRANDLINE_TELL("strandline abort\n")

#endif
