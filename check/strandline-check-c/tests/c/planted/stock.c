// A stock in libpmemobj: orders are taken off it in a transaction, and what arrives is noted first and added by recovery or later.
//
// 23: an order is taken off the stock in one transaction and counted in another
// 24: what has arrived is added in one transaction, and the note of it is erased in another
#include "planted.h"
#include <libpmemobj.h>

enum { AT_FIRST = 50, ARRIVES = 7, ORDERED = 3 };

struct Root {
  LINE uint64_t stock;
  LINE uint64_t ordered;
  LINE uint64_t arriving;
  LINE uint64_t arrived;
};

static void set(uint64_t *place, uint64_t value) {
  pmemobj_tx_add_range_direct(place, sizeof *place);
  *place = value;
}

static void order(PMEMobjpool *pool, struct Root *root, uint64_t items) {
  TX_BEGIN(pool) {
    set(&root->stock, root->stock - items);
    if (BUG != 23) set(&root->ordered, root->ordered + items);
  }
  TX_END
  if (BUG == 23) {
    TX_BEGIN(pool) { set(&root->ordered, root->ordered + items); }
    TX_END
  }
}

static void store_away(PMEMobjpool *pool, struct Root *root) {
  if (root->arriving == 0) return;
  if (BUG == 24) {
    TX_BEGIN(pool) { set(&root->stock, root->stock + root->arriving); }
    TX_END
  }
  TX_BEGIN(pool) {
    if (BUG != 24) set(&root->stock, root->stock + root->arriving);
    set(&root->arrived, root->arrived + root->arriving);
    set(&root->arriving, 0);
  }
  TX_END
}

static void check(const struct Root *root) {
  uint64_t expected = AT_FIRST + root->arrived - root->ordered, done = acknowledged();
  if (root->stock != expected) refuse("%d items are in stock, not %d", (int)root->stock, (int)expected);
  if (done > 0 && root->ordered != ORDERED) refuse("the order is lost");
  if (done > 1 && root->arrived != ARRIVES) refuse("what arrived is lost");
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  const char *what = arguments[1], *path = arguments[2];
  int is_new = strcmp(what, "make") == 0;
  PMEMobjpool *pool = is_new ? pmemobj_create(path, "stock", PMEMOBJ_MIN_POOL, 0600) : pmemobj_open(path, "stock");
  if (!pool) refuse("cannot open the pool: %s", pmemobj_errormsg());
  struct Root *root = (struct Root *)pmemobj_direct(pmemobj_root(pool, sizeof *root));
  if (is_new) {
    root->stock = AT_FIRST;
    pmemobj_persist(pool, &root->stock, sizeof root->stock);
  }
  if (strcmp(what, "recover") == 0) store_away(pool, root);
  if (strcmp(what, "check") == 0) check(root);
  if (strcmp(what, "run") == 0) {
    order(pool, root, ORDERED);
    strandline_acknowledge(1);
    root->arriving = ARRIVES;
    pmemobj_persist(pool, &root->arriving, sizeof root->arriving);
    strandline_acknowledge(2);
    store_away(pool, root);
  }
  pmemobj_close(pool);
  return 0;
}
