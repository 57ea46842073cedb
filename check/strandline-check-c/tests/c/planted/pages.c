// A file in the manner of LMDB: a transaction copies the pages that it changes, and a meta page refers to the root. Of the two meta pages the
// one with the greater number counts, if it is whole. The file is ordinary and mapped; msync makes it durable.
//
// 25: the pages are not synced before the meta page          27: a page is reused to which the last meta page still refers
// 26: that the meta page is whole is not checked
#include "planted.h"

enum { PAGE = 4096, PAGES = 8, LEAVES = 2, TRANSACTIONS = 2 };

struct Meta {
  uint64_t number, root, checksum;
};

// The root refers to leaves; a leaf has values.
struct Page {
  uint64_t words[4];
};

union Slot {
  char bytes[PAGE];
  struct Meta meta;
  struct Page page;
};

struct File {
  union Slot slots[PAGES];
};

static uint64_t checksum(const struct Meta *meta) { return meta->number * 0x9e3779b97f4a7c15 ^ meta->root * 0xc2b2ae3d27d4eb4f; }

static const struct Meta *newest(const struct File *file) {
  const struct Meta *found = NULL;
  for (int i = 0; i < 2; i++) {
    const struct Meta *meta = &file->slots[i].meta;
    if (BUG != 26 && meta->checksum != checksum(meta)) continue;
    if (!found || meta->number > found->number) found = meta;
  }
  if (!found || found->root < 2 || found->root >= PAGES) refuse("no meta page refers to a root");
  return found;
}

// A page that the last transaction does not refer to, other than `taken`.
static uint64_t allocate(const struct File *file, uint64_t taken) {
  uint64_t root = newest(file)->root;
  const struct Page *used = &file->slots[root].page;
  for (uint64_t page = 2; page < PAGES; page++) {
    int is_used = page == taken || page == root || page == used->words[0] || page == used->words[1];
    if (!is_used) return page;
  }
  refuse("the file is full");
}

static void write_page(union Slot *slot, const uint64_t *words) {
  memcpy(slot->page.words, words, sizeof slot->page.words);
  if (BUG != 25) msync(slot, PAGE, MS_SYNC);
}

// Sets the second leaf's values: both are the number of the transaction.
static void commit(struct File *file, uint64_t number) {
  const struct Meta *meta = newest(file);
  struct Page root = file->slots[meta->root].page;
  // The old leaf is free once the transaction has committed.
  uint64_t leaf = BUG == 27 ? root.words[1] : allocate(file, 0);
  write_page(&file->slots[leaf], (uint64_t[4]){number, number, 0, 0});
  root.words[1] = leaf;
  uint64_t next_root = allocate(file, leaf);
  write_page(&file->slots[next_root], root.words);
  struct Meta next = {.number = number, .root = next_root};
  next.checksum = checksum(&next);
  union Slot *slot = &file->slots[number % 2];
  memcpy(&slot->meta, &next, sizeof next);
  msync(slot, PAGE, MS_SYNC);
}

static void check(const struct File *file) {
  const struct Meta *meta = newest(file);
  if (meta->number < acknowledged()) refuse("transaction %d was acknowledged and is lost", (int)acknowledged());
  const struct Page *root = &file->slots[meta->root].page;
  for (int i = 0; i < LEAVES; i++) {
    uint64_t leaf = root->words[i];
    if (leaf < 2 || leaf >= PAGES) refuse("the root of transaction %d is damaged", (int)meta->number);
    uint64_t expected = i == 0 ? 0 : meta->number;
    const struct Page *page = &file->slots[leaf].page;
    if (page->words[0] != expected || page->words[1] != expected) refuse("a leaf of transaction %d is damaged", (int)meta->number);
  }
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  struct File *file = map_file(arguments[2], sizeof *file);
  const char *what = arguments[1];
  if (strcmp(what, "make") == 0) {
    file->slots[2].page = (struct Page){{3, 4, 0, 0}};
    file->slots[0].meta = (struct Meta){.number = 0, .root = 2};
    file->slots[0].meta.checksum = checksum(&file->slots[0].meta);
    file->slots[1].meta.checksum = 1;
  }
  if (strcmp(what, "check") == 0) check(file);
  if (strcmp(what, "run") == 0) {
    for (uint64_t number = 1; number <= TRANSACTIONS; number++) {
      commit(file, number);
      strandline_acknowledge(number);
    }
  }
  return 0;
}
