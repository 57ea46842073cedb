// The crash checker for C and C++: macros by which a program says what it does to persistent memory.
// docs/checking-c-programs.md introduces it.
//
// Compiled with STRANDLINE_CHECK defined, and run by `strandline-check program`, a program is recorded. Run without it, it does what it
// always does. Without STRANDLINE_CHECK nothing is left but the stores, flushes and fences themselves. There is no library to link (with a
// C library older than glibc 2.34: -ldl).
//
// A program that flushes and fences with intrinsics (_mm_clwb, _mm_sfence and the like) need not be changed: compiled with
// `-include strandline_check.h -DSTRANDLINE_CHECK`, its intrinsics are recorded.
//
// C11 or C++11 with the extensions of GCC and Clang, Linux.
#ifndef STRANDLINE_CHECK_H
#define STRANDLINE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifdef STRANDLINE_CHECK
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef STRANDLINE_CHECK
// What the checker's library offers.
struct StrandlineCheckHooks {
  void (*before_store)(const void *place, size_t bytes);
  void (*stored)(const void *place, size_t bytes, const char *file, uint32_t line);
  void (*flushed)(const void *place, size_t bytes, const char *file, uint32_t line);
  void (*fenced)(const char *file, uint32_t line);
  void (*acknowledged)(uint64_t number, const char *file, uint32_t line);
  void (*step)(const char *name);
  void (*label)(const void *place, size_t bytes, const char *name);
  void (*streamed)(const void *place, size_t bytes, const char *file, uint32_t line);
  void (*flushed_if_pool)(const void *place, size_t bytes, const char *file, uint32_t line);
};

// They, or NULL outside the checker.
static inline const struct StrandlineCheckHooks *strandline_check_hooks(void) {
  static const struct StrandlineCheckHooks *hooks;
  static int is_known;
  if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
    void *program = dlopen(NULL, RTLD_LAZY);
    const void *found = program ? dlsym(program, "strandline_check_hooks_2") : NULL;
    __atomic_store_n(&hooks, (const struct StrandlineCheckHooks *)found, __ATOMIC_RELAXED);
    __atomic_store_n(&is_known, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&hooks, __ATOMIC_RELAXED);
}

#define STRANDLINE_CHECK_TELL(what, ...)                                                                                       \
  do {                                                                                                                         \
    const struct StrandlineCheckHooks *strandline_hooks_ = strandline_check_hooks();                                           \
    if (strandline_hooks_) strandline_hooks_->what(__VA_ARGS__);                                                               \
  } while (0)
#else
#define STRANDLINE_CHECK_TELL(what, ...) ((void)0)
#endif

#if defined(STRANDLINE_CHECK) && defined(__x86_64__)
// A no-op behind each flush and fence of this header, by which the checker tells them from those that are not recorded.
#define STRANDLINE_CHECK_SEEN ".byte 0x0f, 0x1f, 0x80, 0x53, 0x54, 0x52, 0x43"
#define STRANDLINE_CHECK_FLUSH(instruction, place)                                                                             \
  __asm__ volatile(instruction " %0\n\t" STRANDLINE_CHECK_SEEN : : "m"(*(const volatile char *)(place)) : "memory")
#define STRANDLINE_CHECK_FENCE(instruction) __asm__ volatile(instruction "\n\t" STRANDLINE_CHECK_SEEN : : : "memory")
#endif

// Writes the lines of these bytes back to memory. Durable after a fence.
static inline void strandline_flush_lines(const void *place, size_t bytes) {
#if defined(__x86_64__)
  uintptr_t end = (uintptr_t)place + bytes;
  for (uintptr_t line = (uintptr_t)place & ~(uintptr_t)63; line < end; line += 64) {
#if defined(STRANDLINE_CHECK) && defined(__CLWB__)
    STRANDLINE_CHECK_FLUSH("clwb", line);
#elif defined(STRANDLINE_CHECK) && defined(__CLFLUSHOPT__)
    STRANDLINE_CHECK_FLUSH("clflushopt", line);
#elif defined(STRANDLINE_CHECK)
    STRANDLINE_CHECK_FLUSH("clflush", line);
#elif defined(__CLWB__)
    _mm_clwb((void *)line);
#elif defined(__CLFLUSHOPT__)
    _mm_clflushopt((void *)line);
#else
    _mm_clflush((const void *)line);
#endif
  }
#else
  (void)place;
  (void)bytes;
#endif
}

// A store fence.
static inline void strandline_fence_stores(void) {
#if defined(STRANDLINE_CHECK) && defined(__x86_64__)
  STRANDLINE_CHECK_FENCE("sfence");
#elif defined(__x86_64__)
  _mm_sfence();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// For stores, flushes and fences of a program's own: the first one before its stores, the others behind what they tell of.
#define strandline_note_before_store(place, bytes) STRANDLINE_CHECK_TELL(before_store, (place), (bytes))
#define strandline_note_store(place, bytes) STRANDLINE_CHECK_TELL(stored, (place), (bytes), __FILE__, __LINE__)
#define strandline_note_flush(place, bytes) STRANDLINE_CHECK_TELL(flushed, (place), (bytes), __FILE__, __LINE__)
#define strandline_note_fence() STRANDLINE_CHECK_TELL(fenced, __FILE__, __LINE__)

// *place = value.
#define strandline_store(place, value)                                                                                         \
  do {                                                                                                                         \
    __typeof__(&*(place)) strandline_place_ = (place);                                                                         \
    __typeof__(*(place)) strandline_value_ = (value);                                                                          \
    strandline_note_before_store(strandline_place_, sizeof *strandline_place_);                                                \
    *strandline_place_ = strandline_value_;                                                                                    \
    strandline_note_store(strandline_place_, sizeof *strandline_place_);                                                       \
  } while (0)

// memmove(to, from, bytes), and memset(to, byte, bytes).
#define strandline_copy(to, from, bytes)                                                                                       \
  do {                                                                                                                         \
    void *strandline_place_ = (to);                                                                                            \
    size_t strandline_bytes_ = (bytes);                                                                                        \
    strandline_note_before_store(strandline_place_, strandline_bytes_);                                                        \
    memmove(strandline_place_, (from), strandline_bytes_);                                                                     \
    strandline_note_store(strandline_place_, strandline_bytes_);                                                               \
  } while (0)
#define strandline_fill(to, byte, bytes)                                                                                       \
  do {                                                                                                                         \
    void *strandline_place_ = (to);                                                                                            \
    size_t strandline_bytes_ = (bytes);                                                                                        \
    strandline_note_before_store(strandline_place_, strandline_bytes_);                                                        \
    memset(strandline_place_, (byte), strandline_bytes_);                                                                      \
    strandline_note_store(strandline_place_, strandline_bytes_);                                                               \
  } while (0)

// Flushes the lines of these bytes.
#define strandline_flush(place, bytes)                                                                                         \
  do {                                                                                                                         \
    const void *strandline_place_ = (place);                                                                                   \
    size_t strandline_bytes_ = (bytes);                                                                                        \
    strandline_flush_lines(strandline_place_, strandline_bytes_);                                                              \
    strandline_note_flush(strandline_place_, strandline_bytes_);                                                               \
  } while (0)

// Waits for what this thread has flushed.
#define strandline_fence()                                                                                                     \
  do {                                                                                                                         \
    strandline_fence_stores();                                                                                                 \
    strandline_note_fence();                                                                                                   \
  } while (0)

// Both.
#define strandline_persist(place, bytes)                                                                                       \
  do {                                                                                                                         \
    strandline_flush((place), (bytes));                                                                                        \
    strandline_fence();                                                                                                        \
  } while (0)

// The program says to the world outside that `number` is done, and must not be lost.
#define strandline_acknowledge(number) STRANDLINE_CHECK_TELL(acknowledged, (uint64_t)(number), __FILE__, __LINE__)

// For reports: the step that begins here on this thread, and what these bytes are called.
#define strandline_step(name) STRANDLINE_CHECK_TELL(step, (name))
#define strandline_label(place, bytes, name) STRANDLINE_CHECK_TELL(label, (place), (bytes), (name))

// Intrinsics, recorded. They need not be applied to the pool.
#if defined(STRANDLINE_CHECK) && defined(__x86_64__)
#define STRANDLINE_CHECK_INTRINSIC_FLUSH(instruction, place)                                                                   \
  __extension__({                                                                                                              \
    const volatile void *strandline_place_ = (place);                                                                          \
    STRANDLINE_CHECK_FLUSH(instruction, strandline_place_);                                                                    \
    STRANDLINE_CHECK_TELL(flushed_if_pool, (const void *)strandline_place_, 1, __FILE__, __LINE__);                            \
    (void)0;                                                                                                                   \
  })
#define STRANDLINE_CHECK_INTRINSIC_FENCE(instruction)                                                                          \
  __extension__({                                                                                                              \
    STRANDLINE_CHECK_FENCE(instruction);                                                                                       \
    STRANDLINE_CHECK_TELL(fenced, __FILE__, __LINE__);                                                                         \
    (void)0;                                                                                                                   \
  })
#define STRANDLINE_CHECK_INTRINSIC_STREAM(intrinsic, bytes, place, ...)                                                        \
  __extension__({                                                                                                              \
    __typeof__(&*(place)) strandline_place_ = (place);                                                                         \
    strandline_note_before_store(strandline_place_, (bytes));                                                                  \
    (intrinsic)(strandline_place_, __VA_ARGS__);                                                                               \
    STRANDLINE_CHECK_TELL(streamed, strandline_place_, (bytes), __FILE__, __LINE__);                                           \
    (void)0;                                                                                                                   \
  })

#define _mm_clflush(place) STRANDLINE_CHECK_INTRINSIC_FLUSH("clflush", place)
#define _mm_clflushopt(place) STRANDLINE_CHECK_INTRINSIC_FLUSH("clflushopt", place)
#define _mm_clwb(place) STRANDLINE_CHECK_INTRINSIC_FLUSH("clwb", place)
#define _mm_sfence() STRANDLINE_CHECK_INTRINSIC_FENCE("sfence")
#define _mm_mfence() STRANDLINE_CHECK_INTRINSIC_FENCE("mfence")
#define __builtin_ia32_clflush(place) STRANDLINE_CHECK_INTRINSIC_FLUSH("clflush", place)
#define __builtin_ia32_clflushopt(place) STRANDLINE_CHECK_INTRINSIC_FLUSH("clflushopt", place)
#define __builtin_ia32_clwb(place) STRANDLINE_CHECK_INTRINSIC_FLUSH("clwb", place)
#define __builtin_ia32_sfence() STRANDLINE_CHECK_INTRINSIC_FENCE("sfence")
#define __builtin_ia32_mfence() STRANDLINE_CHECK_INTRINSIC_FENCE("mfence")
#define _mm_stream_si32(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm_stream_si32, 4, place, __VA_ARGS__)
#define _mm_stream_si64(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm_stream_si64, 8, place, __VA_ARGS__)
#define _mm_stream_pd(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm_stream_pd, 16, place, __VA_ARGS__)
#define _mm_stream_ps(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm_stream_ps, 16, place, __VA_ARGS__)
#define _mm_stream_si128(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm_stream_si128, 16, place, __VA_ARGS__)
#define _mm256_stream_pd(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm256_stream_pd, 32, place, __VA_ARGS__)
#define _mm256_stream_ps(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm256_stream_ps, 32, place, __VA_ARGS__)
#define _mm256_stream_si256(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm256_stream_si256, 32, place, __VA_ARGS__)
#define _mm512_stream_pd(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm512_stream_pd, 64, place, __VA_ARGS__)
#define _mm512_stream_ps(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm512_stream_ps, 64, place, __VA_ARGS__)
#define _mm512_stream_si512(place, ...) STRANDLINE_CHECK_INTRINSIC_STREAM(_mm512_stream_si512, 64, place, __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

#endif
