// A file of pages with a rollback journal, in the manner of SQLite: the old page goes to the journal, the new one is written in place, and then
// the journal is emptied. Recovery puts back what the journal has. The file is ordinary and mapped; msync makes it durable.
//
// 28: the journal is not synced before the page is overwritten          29: recovery does not sync the page before it empties the journal
#include "planted.h"

enum { PAGE = 4096, PAGES = 2, WORDS = 3, TRANSACTIONS = 2 };

union Page {
  char bytes[PAGE];
  uint64_t words[WORDS];
};

struct File {
  union Page pages[PAGES];
  union Page old;      // Of the journal.
  union Page journal;  // Its head: which page it has, from 1; 0: none.
};

static void sync_page(union Page *page) { msync(page, PAGE, MS_SYNC); }

static void set_journal(struct File *file, uint64_t page) {
  file->journal.words[0] = page;
  sync_page(&file->journal);
}

static void copy(union Page *to, const union Page *from) {
  for (int i = 0; i < WORDS; i++) to->words[i] = from->words[i];
}

static void write_page(struct File *file, uint64_t page, uint64_t value) {
  copy(&file->old, &file->pages[page]);
  if (BUG != 28) sync_page(&file->old);
  set_journal(file, page + 1);
  for (int i = 0; i < WORDS; i++) file->pages[page].words[i] = value;
  sync_page(&file->pages[page]);
  set_journal(file, 0);
}

static void recover(struct File *file) {
  uint64_t page = file->journal.words[0];
  if (page == 0) return;
  copy(&file->pages[page - 1], &file->old);
  if (BUG != 29) sync_page(&file->pages[page - 1]);
  set_journal(file, 0);
}

static void check(const struct File *file) {
  for (int page = 0; page < PAGES; page++) {
    const uint64_t *words = file->pages[page].words;
    if (words[0] != words[1] || words[0] != words[2])
      refuse("page %d holds parts of two transactions: %d, %d, %d", page, (int)words[0], (int)words[1], (int)words[2]);
  }
  uint64_t done = acknowledged();
  if (done && file->pages[done % PAGES].words[0] < 100 * done) refuse("transaction %d is lost", (int)done);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  struct File *file = map_file(arguments[2], sizeof *file);
  const char *what = arguments[1];
  if (strcmp(what, "make") == 0)
    for (int i = 0; i < PAGES * WORDS; i++) file->pages[i / WORDS].words[i % WORDS] = 7;
  if (strcmp(what, "recover") == 0) recover(file);
  if (strcmp(what, "check") == 0) check(file);
  if (strcmp(what, "run") == 0) {
    for (uint64_t number = 1; number <= TRANSACTIONS; number++) {
      write_page(file, number % PAGES, 100 * number);
      strandline_acknowledge(number);
    }
  }
  return 0;
}
