/* Copies an entry of an array N times with loads and stores of WIDTH bytes, for examples/instructions.rs: copy WIDTH BYTES N. */
#include <stdint.h>
#include <stdlib.h>

#define LARGEST 4096

#define COPY(name, type)                                                        \
    static __attribute__((noinline)) void name(void *to, const void *from, int bytes) \
    {                                                                           \
        type *t = to;                                                           \
        const type *f = from;                                                   \
        int parts = bytes / (int)sizeof(type);                                  \
        for (int i = 0; i < parts; i++)                                         \
            t[i] = f[i];                                                        \
    }

COPY(copy_1, uint8_t)
COPY(copy_2, uint16_t)
COPY(copy_4, uint32_t)
COPY(copy_8, uint64_t)

int main(int count, char **arguments)
{
    static uint64_t from[LARGEST / 8], to[LARGEST / 8];
    if (count != 4)
        return 2;
    int width = atoi(arguments[1]), bytes = atoi(arguments[2]);
    long times = atol(arguments[3]);
    if (bytes < 0 || bytes > LARGEST)
        return 2;
    for (long i = 0; i < times; i++) {
        switch (width) {
        case 1: copy_1(to, from, bytes); break;
        case 2: copy_2(to, from, bytes); break;
        case 4: copy_4(to, from, bytes); break;
        case 8: copy_8(to, from, bytes); break;
        default: return 2;
        }
    }
    return 0;
}
