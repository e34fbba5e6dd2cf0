/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: aligned and disjoint memory, marks, and no growth in a loop that repeats itself. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "asserts.h"
#include "gradscaler/status.h"
#include "train/tensor/arena.h"

static void allocations_are_aligned_and_disjoint(void **state)
{
    (void)state;
    gsc__arena arena = {NULL, 0, 0};
    unsigned char *memory[200];
    for (size_t i = 0; i < 200; i++) {
        memory[i] = gsc__arena_alloc(&arena, i * 97);
        assert_non_null(memory[i]);
        assert_int_equal((uintptr_t)memory[i] % GSC_ARENA_ALIGNMENT, 0);
        memset(memory[i], (int)i, i * 97);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i * 97; k++)
            assert_int_equal(memory[i][k], i);
    gsc__arena_free(&arena);
    assert_int_equal(arena.total, 0);
}

static void use(gsc__arena *arena)
{
    for (size_t size = 1; size < 3000000; size *= 3) {
        assert_non_null(gsc__arena_alloc(arena, size));
        gsc__arena_mark mark = gsc__arena_get_mark(arena);
        assert_non_null(gsc__arena_alloc(arena, 2 * size));
        assert_non_null(gsc__arena_alloc(arena, 5 * size));
        gsc__arena_rewind(arena, mark);
    }
}

static void a_loop_stops_growing_after_its_first_round(void **state)
{
    (void)state;
    gsc__arena arena = {NULL, 0, 0};
    use(&arena);
    gsc__arena_clear(&arena);
    use(&arena);
    const gsc__arena_chunk *chunk = arena.last;
    size_t total = arena.total;
    for (int round = 0; round < 5; round++) {
        gsc__arena_clear(&arena);
        assert_ptr_equal(arena.last, chunk); /* one chunk, which is kept */
        use(&arena);
        assert_ptr_equal(arena.last, chunk);
        assert_int_equal(arena.total, total);
    }
    gsc__arena_free(&arena);
}

static void rewinding_gives_the_same_memory_again(void **state)
{
    (void)state;
    gsc__arena arena = {NULL, 0, 0};
    assert_non_null(gsc__arena_alloc(&arena, 10));
    gsc__arena_mark mark = gsc__arena_get_mark(&arena);
    const void *first = gsc__arena_alloc(&arena, 100);
    gsc__arena_rewind(&arena, mark);
    assert_ptr_equal(gsc__arena_alloc(&arena, 200), first);
    gsc__arena_free(&arena);
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    gsc__arena arena = {NULL, 0, 0};
    assert_null(gsc__arena_alloc(&arena, SIZE_MAX));
    assert_message("bytes");
    assert_non_null(gsc__arena_alloc(&arena, 1));
    gsc__arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_disjoint),
        cmocka_unit_test(a_loop_stops_growing_after_its_first_round),
        cmocka_unit_test(rewinding_gives_the_same_memory_again),
        cmocka_unit_test(absurd_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
