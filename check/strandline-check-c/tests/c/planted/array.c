// An array in libpmemobj that is replaced by a larger one, by allocations that are atomic without a transaction: libpmemobj stores the reference
// to a new object in the pool when the object is complete.
//
// 21: the reference is kept in a variable, and stored in the pool by the program          22: the array is filled after it is allocated
#include "planted.h"
#include <libpmemobj.h>

enum { LENGTHS = 2 };

static const uint64_t lengths[LENGTHS] = {4, 8};

struct Array {
  uint64_t length, values[8];
};

struct Root {
  PMEMoid present, next;
};

static void fill(PMEMobjpool *pool, struct Array *array, uint64_t length) {
  array->length = length;
  for (uint64_t i = 0; i < length; i++) array->values[i] = 100 * length + i;
  if (BUG != 22) pmemobj_persist(pool, array, sizeof *array);
}

static int construct(PMEMobjpool *pool, void *array, void *length) {
  fill(pool, (struct Array *)array, *(uint64_t *)length);
  return 0;
}

// Frees what was replaced, or never came into use.
static void free_next(struct Root *root) {
  if (!OID_IS_NULL(root->next)) pmemobj_free(&root->next);
}

static void replace(PMEMobjpool *pool, struct Root *root, uint64_t length) {
  if (BUG == 21) {
    PMEMoid made;
    pmemobj_alloc(pool, &made, sizeof(struct Array), 1, construct, &length);
    root->next = made;
    pmemobj_persist(pool, &root->next, sizeof root->next);
  } else if (BUG == 22) {
    pmemobj_zalloc(pool, &root->next, sizeof(struct Array), 1);
    fill(pool, (struct Array *)pmemobj_direct(root->next), length);
  } else {
    pmemobj_alloc(pool, &root->next, sizeof(struct Array), 1, construct, &length);
  }
  // The two change places.
  TX_BEGIN(pool) {
    pmemobj_tx_add_range_direct(root, sizeof *root);
    PMEMoid present = root->present;
    root->present = root->next;
    root->next = present;
  }
  TX_END
  free_next(root);
}

static void check(PMEMobjpool *pool, const struct Root *root) {
  uint64_t done = acknowledged();
  PMEMoid object;
  POBJ_FOREACH(pool, object) {
    if (pmemobj_type_num(object) != 1) continue;
    if (!OID_EQUALS(object, root->present) && !OID_EQUALS(object, root->next)) refuse("leaked: an array that nothing refers to");
  }
  if (OID_IS_NULL(root->present)) {
    if (done) refuse("array %d was acknowledged and is lost", (int)done);
    return;
  }
  const struct Array *array = (const struct Array *)pmemobj_direct(root->present);
  if (done && array->length < lengths[done - 1]) refuse("array %d was acknowledged and is lost", (int)done);
  for (uint64_t i = 0; i < array->length; i++)
    if (array->values[i] != 100 * array->length + i) refuse("value %d of %d is lost", (int)i, (int)array->length);
  if (array->length == 0) refuse("the array has no length");
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  const char *what = arguments[1], *path = arguments[2];
  int is_new = strcmp(what, "make") == 0;
  PMEMobjpool *pool = is_new ? pmemobj_create(path, "array", PMEMOBJ_MIN_POOL, 0600) : pmemobj_open(path, "array");
  if (!pool) refuse("cannot open the pool: %s", pmemobj_errormsg());
  struct Root *root = (struct Root *)pmemobj_direct(pmemobj_root(pool, sizeof *root));
  if (strcmp(what, "recover") == 0) free_next(root);
  if (strcmp(what, "check") == 0) check(pool, root);
  if (strcmp(what, "run") == 0) {
    for (int i = 0; i < LENGTHS; i++) {
      replace(pool, root, lengths[i]);
      strandline_acknowledge(i + 1);
    }
  }
  pmemobj_close(pool);
  return 0;
}
