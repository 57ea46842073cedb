// A binary search tree in libpmemobj: a key is inserted in a transaction, which adds what it changes to its undo log.
//
// 19: the link is not added to the transaction          20: the number of keys is added to it as what the program flushes itself
#include "planted.h"
#include <libpmemobj.h>

enum { KEYS = 3 };

static const uint64_t keys[KEYS] = {20, 10, 30};

struct Node {
  uint64_t key;
  PMEMoid children[2];
};

struct Root {
  PMEMoid tree;
  LINE uint64_t length;
};

static struct Node *node(PMEMoid at) { return (struct Node *)pmemobj_direct(at); }

// The empty link at which a key belongs.
static PMEMoid *find(struct Root *root, uint64_t key) {
  PMEMoid *link = &root->tree;
  while (!OID_IS_NULL(*link)) link = &node(*link)->children[key > node(*link)->key];
  return link;
}

static void insert(PMEMobjpool *pool, struct Root *root, PMEMoid *link, uint64_t key) {
  TX_BEGIN(pool) {
    PMEMoid made = pmemobj_tx_zalloc(sizeof(struct Node), 1);
    node(made)->key = key;
    if (BUG != 19) pmemobj_tx_add_range_direct(link, sizeof *link);
    *link = made;
    pmemobj_tx_xadd_range_direct(&root->length, sizeof root->length, BUG == 20 ? POBJ_XADD_NO_FLUSH : 0);
    root->length++;
  }
  TX_END
}

static uint64_t count(PMEMoid at, uint64_t least, uint64_t greatest) {
  if (OID_IS_NULL(at)) return 0;
  const struct Node *found = node(at);
  if (!found || pmemobj_type_num(at) != 1) refuse("a link refers to no node");
  if (found->key <= least || found->key >= greatest) refuse("key %d is at a wrong place", (int)found->key);
  return 1 + count(found->children[0], least, found->key) + count(found->children[1], found->key, greatest);
}

static void check(const struct Root *root) {
  uint64_t found = count(root->tree, 0, 100);
  if (found < acknowledged()) refuse("%d keys were acknowledged, and %d are there", (int)acknowledged(), (int)found);
  if (found != root->length) refuse("%d keys are there, and the length is %d", (int)found, (int)root->length);
}

int main(int argument_count, char **arguments) {
  if (argument_count != 3) return 2;
  const char *what = arguments[1], *path = arguments[2];
  int is_new = strcmp(what, "make") == 0;
  PMEMobjpool *pool = is_new ? pmemobj_create(path, "tree", PMEMOBJ_MIN_POOL, 0600) : pmemobj_open(path, "tree");
  if (!pool) refuse("cannot open the pool: %s", pmemobj_errormsg());
  struct Root *root = (struct Root *)pmemobj_direct(pmemobj_root(pool, sizeof *root));
  if (strcmp(what, "check") == 0) check(root);
  if (strcmp(what, "run") == 0) {
    for (int i = 0; i < KEYS; i++) {
      insert(pool, root, find(root, keys[i]), keys[i]);
      strandline_acknowledge(i + 1);
    }
  }
  pmemobj_close(pool);
  return 0;
}
