// Counters in a mapped file, with a log of what is still to be counted: the program logs an event, acknowledges it and counts it later. Recovery
// counts what is logged.
//
// 30: the log has by how much a counter changes, and recovery adds that whether or not it has been added
#include "planted.h"

enum { PAGE = 4096, COUNTERS = 2, EVENTS = 3 };

struct Event {
  uint64_t counter, value;
};

union Page {
  char bytes[PAGE];
  uint64_t counters[COUNTERS];
  struct {
    uint64_t length;
    LINE struct Event events[EVENTS];
  } log;
};

struct File {
  union Page pages[2];
};

static void sync_page(union Page *page) { msync(page, PAGE, MS_SYNC); }

// By as much as its number.
static uint64_t counter_of(uint64_t event) { return event % COUNTERS; }

static void append(union Page *log, struct Event event) {
  uint64_t length = log->log.length;
  log->log.events[length] = event;
  sync_page(log);
  log->log.length = length + 1;
  sync_page(log);
}

static void count(union Page *page, union Page *log) {
  if (log->log.length == 0) return;
  for (uint64_t i = 0; i < log->log.length; i++) {
    struct Event event = log->log.events[i];
    if (BUG == 30)
      page->counters[event.counter] += event.value;
    else
      page->counters[event.counter] = event.value;
  }
  sync_page(page);
  log->log.length = 0;
  sync_page(log);
}

static void check(const struct File *file) {
  uint64_t done = acknowledged();
  const uint64_t *found = file->pages[0].counters;
  for (uint64_t upto = done; upto <= EVENTS; upto++) {
    uint64_t expected[COUNTERS] = {0};
    for (uint64_t event = 1; event <= upto; event++) expected[counter_of(event)] += event;
    if (memcmp(expected, found, sizeof expected) == 0) return;
  }
  refuse("after %d events the counters are %d and %d", (int)done, (int)found[0], (int)found[1]);
}

int main(int arguments_count, char **arguments) {
  if (arguments_count != 3) return 2;
  struct File *file = map_file(arguments[2], sizeof *file);
  union Page *page = &file->pages[0], *log = &file->pages[1];
  const char *what = arguments[1];
  if (strcmp(what, "recover") == 0) count(page, log);
  if (strcmp(what, "check") == 0) check(file);
  if (strcmp(what, "run") == 0) {
    uint64_t sums[COUNTERS] = {0};
    for (uint64_t event = 1; event <= EVENTS; event++) {
      uint64_t counter = counter_of(event);
      sums[counter] += event;
      append(log, (struct Event){counter, BUG == 30 ? event : sums[counter]});
      strandline_acknowledge(event);
      if (event == 2) count(page, log);
    }
  }
  return 0;
}
