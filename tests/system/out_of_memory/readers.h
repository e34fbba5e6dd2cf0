/* SPDX-License-Identifier: Apache-2.0 */
/* readers.h: functions that make something of a file or text, whose allocations fail one at a time. */
#ifndef GSC_TESTS_OUT_OF_MEMORY_READERS_H
#define GSC_TESTS_OUT_OF_MEMORY_READERS_H

#include "failing.h"

#include "asserts.h"

typedef struct reader {
    const char *name;
    gsc_status (*read)(void **out);
    void (*check)(void *made); /* and free it */
    int least;                 /* allocations */
    bool writes_json;          /* jansson's allocations fail too */
} reader;

/* Whether the n-th allocation was reached. */
static inline bool read_failing(const reader *r, int n)
{
    static char sentinel;
    void *made = &sentinel;
    failing_start(n);
    gsc_status status = r->read(&made);
    bool failed = failing_stop();
    assert_int_equal(failed, status != GSC_OK);
    if (failed) {
        assert_out_of_memory(status);
        assert_ptr_equal(made, &sentinel);
        assert_ok(r->read(&made));
    }
    r->check(made);
    return failed;
}

/* Makes each allocation of each reader fail once. */
static inline void check_readers(const reader *readers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int n = 0;
        failing_include_json(readers[i].writes_json);
        while (read_failing(&readers[i], n))
            n++;
        print_message("%s: %d allocations failed, one at a time\n", readers[i].name, n);
        assert_true(n >= readers[i].least);
    }
}

#endif
