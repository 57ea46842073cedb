// Functions that the programs of this folder share. Each program is called as PROGRAM make|run|recover|check POOL. The macro BUG is the number of the bug
// that the program is compiled with; 0 compiles it without one.
#ifndef PLANTED_H
#define PLANTED_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "strandline_check.h"

#ifndef BUG
#define BUG 0
#endif

#define LINE __attribute__((aligned(64)))

// The last number that was acknowledged before power failed; 0: none.
static inline uint64_t acknowledged(void) {
  const char *all = getenv("STRANDLINE_ACKNOWLEDGED");
  const char *last = all ? strrchr(all, ' ') : NULL;
  return all ? strtoull(last ? last : all, NULL, 10) : 0;
}

// Ends the check: the pool is wrong, and this is why.
static inline __attribute__((noreturn, format(printf, 1, 2))) void refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

// An ordinary file, mapped.
static inline __attribute__((unused)) void *map_file(const char *path, size_t bytes) {
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) refuse("cannot open %s", path);
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) refuse("cannot map %s", path);
  close(file);
  return mapped;
}

#ifdef LIBPMEM
#include <libpmem.h>

// A file of persistent memory, mapped by libpmem.
static inline void *map_pmem(const char *path, size_t bytes) {
  void *mapped = pmem_map_file(path, bytes, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (!mapped) refuse("cannot map %s: %s", path, pmem_errormsg());
  return mapped;
}
#endif

#endif
