/* SPDX-License-Identifier: Apache-2.0 */
/* sanitizer_options.h: for tests that make allocations fail or fork with threads, both of which sanitizers otherwise
 * take for errors. They ask the program by these names; without a sanitizer these functions are not called. */
#ifndef GSC_TESTS_SANITIZER_OPTIONS_H
#define GSC_TESTS_SANITIZER_OPTIONS_H

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#endif
#endif
#ifndef UNDER_THREAD_SANITIZER
#define UNDER_THREAD_SANITIZER 0
#endif

const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1:die_after_fork=0"; }

#endif
