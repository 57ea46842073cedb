// A pool with a list that is appended to and two accounts with an undo journal, correct or with a planted bug:
//
//   bank BUG run|recover|check POOL
//
// Compiled with the header's macros for everything (-DMARKED), with them for flushes and fences alone, or with libpmem (-DLIBPMEM).
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef LIBPMEM
#include <libpmem.h>
#define STORE(place, value) (*(place) = (value))
#define COPY(to, from, bytes) memcpy((to), (from), (bytes))
#define FLUSH(place, bytes) pmem_flush((place), (bytes))
#define FENCE() pmem_drain()
#define ACKNOWLEDGE(number) ((void)(number))
#else
#include <strandline_check.h>
#ifdef MARKED
#define STORE(place, value) strandline_store((place), (value))
#define COPY(to, from, bytes) strandline_copy((to), (from), (bytes))
#else
#define STORE(place, value) (*(place) = (value))
#define COPY(to, from, bytes) memcpy((to), (from), (bytes))
#endif
#define FLUSH(place, bytes) strandline_flush((place), (bytes))
#define FENCE() strandline_fence()
#define ACKNOWLEDGE(number) strandline_acknowledge(number)
#endif
#define PERSIST(place, bytes)                                                                                                  \
  do {                                                                                                                         \
    FLUSH((place), (bytes));                                                                                                   \
    FENCE();                                                                                                                   \
  } while (0)

#define LINE __attribute__((aligned(64)))

// Two lines.
struct Record {
  uint64_t words[16];
};

struct Pool {
  LINE uint64_t length;
  LINE struct Record records[4];
  LINE uint64_t first; // Together they are SUM.
  LINE uint64_t second;
  LINE struct {
    uint64_t is_valid, first, second;
  } journal;
  LINE struct {
    uint64_t low, high; // Equal.
  } pair;
};

enum { SUM = 100, RECORDS = 2 };

static const char *bug;

static int has(const char *name) { return strcmp(bug, name) == 0; }

static struct Pool *map(const char *path) {
#ifdef LIBPMEM
  size_t bytes;
  int is_pmem;
  void *pool = pmem_map_file(path, sizeof(struct Pool), PMEM_FILE_CREATE, 0600, &bytes, &is_pmem);
  if (!pool) {
    fprintf(stderr, "%s\n", pmem_errormsg());
    exit(3);
  }
  return pool;
#else
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct Pool)) != 0) {
    perror(path);
    exit(3);
  }
  void *pool = mmap(NULL, sizeof(struct Pool), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (pool == MAP_FAILED) {
    perror("mmap");
    exit(3);
  }
  return (struct Pool *)pool;
#endif
}

static struct Record record(uint64_t number) {
  struct Record record;
  for (int i = 0; i < 16; i++) record.words[i] = 1000 * number + i + 1;
  return record;
}

static void append(struct Pool *pool) {
  uint64_t length = pool->length;
  struct Record *place = &pool->records[length];
  struct Record made = record(length);
  if (has("wrong-order")) {
    STORE(&pool->length, length + 1);
    PERSIST(&pool->length, 8);
  }
  if (has("flush-before-store")) FLUSH(place, sizeof *place);
  COPY(place, &made, sizeof *place);
  if (has("missing-line"))
    FLUSH(place, 64);
  else if (has("wrong-line"))
    FLUSH(&pool->first, 8);
  else if (!has("missing-flush") && !has("flush-before-store"))
    FLUSH(place, sizeof *place);
  if (has("redundant-flush")) FLUSH(place, sizeof *place);
  if (!has("missing-fence")) FENCE();
  if (has("clean-flush")) FLUSH(place, sizeof *place);
  if (has("idle-fence")) FENCE();
  if (!has("wrong-order")) STORE(&pool->length, length + 1);
  if (!has("early-acknowledgement")) PERSIST(&pool->length, 8);
  ACKNOWLEDGE(length + 1);
  if (has("early-acknowledgement")) PERSIST(&pool->length, 8);
}

static void transfer(struct Pool *pool, uint64_t amount) {
  STORE(&pool->journal.first, pool->first);
  STORE(&pool->journal.second, pool->second);
  if (!has("unordered-journal")) PERSIST(&pool->journal, sizeof pool->journal);
  STORE(&pool->journal.is_valid, 1);
  if (!has("unflushed-journal")) FLUSH(&pool->journal, sizeof pool->journal);
  FENCE();
  STORE(&pool->first, pool->first - amount);
  STORE(&pool->second, pool->second + amount);
  FLUSH(&pool->first, 8);
  if (!has("half-transfer")) FLUSH(&pool->second, 8);
  FENCE();
  STORE(&pool->journal.is_valid, 0);
  PERSIST(&pool->journal, sizeof pool->journal);
}

static void recover(struct Pool *pool) {
  if (has("refusing-recovery") && pool->length == RECORDS) exit(5);
  if (!pool->journal.is_valid) return;
  if (has("failing-recovery")) abort();
  if (has("endless-recovery"))
    for (;;) usleep(1000);
  if (has("recovery-order")) {
    STORE(&pool->journal.is_valid, 0);
    PERSIST(&pool->journal, sizeof pool->journal);
  }
  STORE(&pool->first, pool->journal.first);
  STORE(&pool->second, pool->journal.second);
  if (!has("recovery-flush")) {
    FLUSH(&pool->first, 8);
    FLUSH(&pool->second, 8);
    FENCE();
  }
  STORE(&pool->journal.is_valid, 0);
  PERSIST(&pool->journal, sizeof pool->journal);
}

static int wrong(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

static int check(const struct Pool *pool) {
  const char *acknowledged = getenv("STRANDLINE_ACKNOWLEDGED");
  uint64_t least = 0;
  for (char *next; acknowledged && *acknowledged; acknowledged = next) {
    least = strtoull(acknowledged, &next, 10);
    if (next == acknowledged) break;
  }
  if (pool->length < least) return wrong("an acknowledged record is lost");
  for (uint64_t i = 0; i < pool->length; i++) {
    struct Record expected = record(i);
    if (memcmp(&pool->records[i], &expected, sizeof expected) != 0) return wrong("a record is damaged");
  }
  if (has("blind-check")) return 0;
  if (has("refusing-check") && pool->length > 0) return wrong("there are records");
  uint64_t sum = pool->first + pool->second;
  if (sum != SUM) return wrong("the sum is wrong");
  if (pool->pair.low != pool->pair.high) return wrong("the pair is torn");
  return 0;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  bug = arguments[1];
  struct Pool *pool = map(arguments[3]);
  if (strcmp(arguments[2], "make") == 0) {
    pool->first = SUM;
    return 0;
  }
  if (strcmp(arguments[2], "recover") == 0) {
    recover(pool);
    return 0;
  }
  if (strcmp(arguments[2], "check") == 0) return check(pool);
#ifndef LIBPMEM
  strandline_label(&pool->length, 8, "length");
  strandline_label(pool->records, sizeof pool->records, "records");
  strandline_label(&pool->first, 8, "first");
  strandline_label(&pool->second, 8, "second");
  strandline_label(&pool->journal, sizeof pool->journal, "journal");
  strandline_label(&pool->pair, sizeof pool->pair, "pair");
#endif
  for (int i = 0; i < RECORDS; i++) append(pool);
  transfer(pool, 30);
  if (has("torn-store")) {
    uint64_t pair[2] = {7, 7};
    COPY(&pool->pair, pair, sizeof pair);
    PERSIST(&pool->pair, sizeof pair);
  }
  if (has("store-outside")) {
    uint64_t *behind = (uint64_t *)((char *)pool + 4096);
    STORE(behind, 1);
  }
  if (has("flush-outside")) {
    uint64_t copy = pool->first;
    PERSIST(&copy, 8);
  }
  if (has("unmarked-store")) pool->pair.low = pool->pair.high = 7;
  if (has("null")) *(volatile uint64_t *)NULL = 1;
  if (has("endless"))
    for (;;) usleep(1000);
  if (has("exit")) return 4;
  return 0;
}
