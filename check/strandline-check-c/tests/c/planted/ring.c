// A log of records without a length: a record counts if it has the next number and, since it is several words, the right checksum. Recovery
// sums up the records.
//
// 17: the checksum is not looked at          18: recovery adds records to the sum, and notes later how many it has added
#define LIBPMEM
#include "planted.h"

enum { RECORDS = 3, WORDS = 3 };

struct Record {
  uint64_t number, words[WORDS], checksum;
};

struct Pool {
  LINE uint64_t sum;
  LINE uint64_t summed;
  struct {
    LINE struct Record record;
  } ring[RECORDS + 1];
};

static uint64_t checksum(const struct Record *record) {
  uint64_t sum = 0x9e3779b97f4a7c15 * record->number;
  for (int i = 0; i < WORDS; i++) sum = (sum << 7 | sum >> 57) ^ record->words[i];
  return sum;
}

static struct Record make(uint64_t number) {
  struct Record record = {.number = number, .words = {10 * number, 10 * number + 1, 10 * number + 2}};
  record.checksum = checksum(&record);
  return record;
}

static uint64_t valid(const struct Pool *pool) {
  uint64_t count = 0;
  for (; pool->ring[count].record.number == count + 1; count++) {
    const struct Record *record = &pool->ring[count].record;
    if (BUG != 17 && record->checksum != checksum(record)) break;
  }
  return count;
}

static void append(struct Pool *pool, uint64_t number) {
  struct Record record = make(number);
  pmem_memcpy_persist(&pool->ring[number - 1].record, &record, sizeof record);
}

static void recover(struct Pool *pool) {
  uint64_t records = valid(pool);
  if (BUG == 18) {
    for (uint64_t i = pool->summed; i < records; i++) {
      pool->sum += pool->ring[i].record.words[0];
      pmem_persist(&pool->sum, sizeof pool->sum);
      pool->summed = i + 1;
      pmem_persist(&pool->summed, sizeof pool->summed);
    }
    return;
  }
  uint64_t sum = 0;
  for (uint64_t i = 0; i < records; i++) sum += pool->ring[i].record.words[0];
  if (sum == pool->sum) return;
  pool->sum = sum;
  pmem_persist(&pool->sum, sizeof pool->sum);
}

static void check(const struct Pool *pool) {
  uint64_t records = valid(pool), sum = 0;
  if (records < acknowledged()) refuse("record %d was acknowledged and is lost", (int)acknowledged());
  for (uint64_t i = 0; i < records; i++) {
    struct Record made = make(i + 1);
    if (memcmp(&made, &pool->ring[i].record, sizeof made - sizeof made.checksum)) refuse("record %d is damaged", (int)i + 1);
    sum += made.words[0];
  }
  if (pool->sum != sum) refuse("the sum is %d, not %d", (int)pool->sum, (int)sum);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  struct Pool *pool = map_pmem(arguments[2], sizeof *pool);
  const char *what = arguments[1];
  if (strcmp(what, "recover") == 0) recover(pool);
  if (strcmp(what, "check") == 0) check(pool);
  if (strcmp(what, "run") == 0) {
    for (uint64_t number = 1; number <= RECORDS; number++) {
      append(pool, number);
      strandline_acknowledge(number);
    }
  }
  return 0;
}
