/* SPDX-License-Identifier: Apache-2.0 */
/* walk_devices.c: compares a scaler on a device with the model after every call of random sequences of calls.
 *
 *     PROGRAM [COUNT [SEED]]        0: no difference, 1: the first one, 2: wrong usage */
#include <stdlib.h>

#include "../enumerate.h"
#include "devices.h"

enum { LENGTH = 100, COUNT = 300 };

int main(int argc, char **argv)
{
    char *end = "";
    const uint64_t count = argc > 1 ? strtoull(argv[1], &end, 10) : COUNT;
    const uint64_t seed = argc > 2 && *end == '\0' ? strtoull(argv[2], &end, 10) : 1;
    if (argc > 3 || *end != '\0' || count == 0) {
        fprintf(stderr, "usage: %s [COUNT [SEED]]\n", argv[0]);
        return 2;
    }
    const subject_place place = device_place();
    subject_set_place(&place);
    walk_at_random(seed, count, LENGTH, 1, true);
    printf("%llu random sequences of %d calls on a device, seed %llu: no difference\n", (unsigned long long)count,
           LENGTH, (unsigned long long)seed);
    return 0;
}
