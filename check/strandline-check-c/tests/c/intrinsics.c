// A list that flushes, fences and streams with intrinsics, and knows nothing of the checker: intrinsics BUG run|check POOL.
//
// Its elements are stored and flushed, its checksums streamed.
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct List {
  uint64_t length;
  uint64_t padding[7];
  uint64_t elements[64];
  long long sums[64];
};

static void append(struct List *list, uint64_t element, const char *bug) {
  uint64_t length = list->length;
  list->elements[length] = element;
  if (strcmp(bug, "missing-flush") != 0) _mm_clflush(&list->elements[length]);
  if (strcmp(bug, "stored-sum") != 0)
    _mm_stream_si64(&list->sums[length], (long long)~element);
  else
    list->sums[length] = (long long)~element;
  if (strcmp(bug, "missing-fence") != 0) _mm_sfence();
  list->length = length + 1;
  __builtin_ia32_clflush(&list->length);
  _mm_mfence();
}

static int check(const struct List *list) {
  for (uint64_t i = 0; i < list->length; i++) {
    if (list->elements[i] != 101 + i || list->sums[i] != (long long)~(101 + i)) {
      fprintf(stderr, "element %d of %d is lost\n", (int)i, (int)list->length);
      return 1;
    }
  }
  return 0;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  int file = open(arguments[3], O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct List)) != 0) return 3;
  int sharing = strcmp(arguments[1], "private") == 0 ? MAP_PRIVATE : MAP_SHARED;
  struct List *list = (struct List *)mmap(NULL, sizeof *list, PROT_READ | PROT_WRITE, sharing, file, 0);
  if (list == MAP_FAILED) return 3;
  if (strcmp(arguments[2], "check") == 0) return check(list);
  if (strcmp(arguments[1], "idle") == 0) return 0;
  for (uint64_t element = 101; element <= 103; element++) append(list, element, arguments[1]);
  // A flush of what is not the pool is none of the checker's business.
  _mm_clflush(arguments);
  return 0;
}
