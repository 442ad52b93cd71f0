/* What lies beneath a program that has a malloc of its own: the C library's allocator, or a
 * sanitizer's, so that whoever counts or fails allocations does so in a sanitizer build too. GCC. */
#ifndef MDNN_TEST_ALLOCATOR_H
#define MDNN_TEST_ALLOCATOR_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATOR(function) __interceptor_##function
#else
#define ALLOCATOR(function) __libc_##function
#endif

extern void *ALLOCATOR(malloc)(size_t bytes);
extern void *ALLOCATOR(calloc)(size_t count, size_t bytes);
extern void *ALLOCATOR(realloc)(void *block, size_t bytes);

/* For malloc and what it calls: the loader allocates before a sanitizer's shadow memory exists. */
#define UNWATCHED __attribute__((no_sanitize("address", "thread")))

#endif
