// A hash table that is resized: a new table is filled beside the old one, and one store switches to it. Keys are inserted by linear
// probing; a slot counts when its key is stored, which is after its value.
//
// 11: the new table is not flushed before the switch          13: an update takes the old slot away and fills another one
// 12: the switch comes before the new table is filled
#define LIBPMEM
#include "planted.h"

enum { SLOTS = 8, KEYS = 3, UPDATED = 2 };

struct Slot {
  uint64_t key, value;
};

struct Table {
  LINE uint64_t size;
  LINE struct Slot slots[SLOTS];
};

struct Pool {
  LINE uint64_t current;
  struct Table tables[2];
};

static struct Slot *find(struct Table *table, uint64_t key) {
  for (uint64_t i = 0; i < table->size; i++) {
    struct Slot *slot = &table->slots[(key + i) % table->size];
    if (slot->key == key) return slot;
  }
  return NULL;
}

static void fill(struct Slot *slot, uint64_t key, uint64_t value, int is_durable) {
  slot->value = value;
  if (is_durable) pmem_persist(&slot->value, sizeof slot->value);
  slot->key = key;
  if (is_durable) pmem_persist(&slot->key, sizeof slot->key);
}

static struct Slot *empty(struct Table *table, uint64_t key) {
  for (uint64_t i = 0; i < table->size; i++) {
    struct Slot *slot = &table->slots[(key + i) % table->size];
    if (slot->key == 0) return slot;
  }
  return NULL;
}

static void switch_to(struct Pool *pool, uint64_t table) {
  pool->current = table;
  pmem_persist(&pool->current, sizeof pool->current);
}

// Doubles the table.
static void resize(struct Pool *pool) {
  struct Table *from = &pool->tables[pool->current];
  uint64_t next = 1 - pool->current;
  struct Table *to = &pool->tables[next];
  to->size = 2 * from->size;
  if (BUG == 12) {
    pmem_persist(&to->size, sizeof to->size);
    switch_to(pool, next);
  }
  for (uint64_t i = 0; i < from->size; i++) {
    struct Slot *slot = &from->slots[i];
    if (slot->key) fill(empty(to, slot->key), slot->key, slot->value, 0);
  }
  if (BUG != 11) {
    pmem_flush(to->slots, to->size * sizeof *to->slots);
    pmem_persist(&to->size, sizeof to->size);
  } else {
    pmem_persist(&to->size, sizeof to->size);
  }
  if (BUG != 12) switch_to(pool, next);
}

static void insert(struct Pool *pool, uint64_t key) {
  struct Table *table = &pool->tables[pool->current];
  struct Slot *slot = empty(table, key);
  if (!slot) {
    resize(pool);
    table = &pool->tables[pool->current];
    slot = empty(table, key);
  }
  fill(slot, key, 10 * key, 1);
}

static void update(struct Pool *pool, uint64_t key, uint64_t value) {
  struct Table *table = &pool->tables[pool->current];
  struct Slot *slot = find(table, key);
  if (BUG == 13) {
    slot->key = 0;
    pmem_persist(&slot->key, sizeof slot->key);
    fill(&table->slots[(key + 2) % table->size], key, value, 1);
  } else {
    slot->value = value; // A word: the old value, or the new one.
    pmem_persist(&slot->value, sizeof slot->value);
  }
}

static void check(struct Pool *pool) {
  uint64_t done = acknowledged();
  struct Table *table = &pool->tables[pool->current];
  for (uint64_t key = 1; key <= KEYS; key++) {
    uint64_t found = 0;
    struct Slot *slot = NULL;
    for (uint64_t i = 0; i < table->size; i++) {
      if (table->slots[i].key == key) {
        slot = &table->slots[i];
        found++;
      }
    }
    if (found > 1) refuse("key %d is there twice", (int)key);
    if (!slot && key <= done) refuse("key %d was acknowledged and is lost", (int)key);
    if (!slot) continue;
    int is_new = key == UPDATED && slot->value == 21 && done >= KEYS;
    if (slot->value != 10 * key && !is_new) refuse("the value of key %d is %d", (int)key, (int)slot->value);
    if (key == UPDATED && done > KEYS && !is_new) refuse("the update of key %d is lost", (int)key);
  }
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  struct Pool *pool = map_pmem(arguments[2], sizeof *pool);
  const char *what = arguments[1];
  if (strcmp(what, "make") == 0) pool->tables[0].size = 2;
  if (strcmp(what, "check") == 0) check(pool);
  if (strcmp(what, "run") == 0) {
    for (uint64_t key = 1; key <= KEYS; key++) {
      insert(pool, key);
      strandline_acknowledge(key);
    }
    update(pool, UPDATED, 21);
    strandline_acknowledge(KEYS + 1);
  }
  return 0;
}
