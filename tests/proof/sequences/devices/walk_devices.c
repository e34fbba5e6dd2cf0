/* SPDX-License-Identifier: Apache-2.0 */
/* walk_devices.c: compares a scaler on a device with the model after every call of random sequences of calls.
 *
 *     PROGRAM COUNT [SEED [LENGTH]]        0: no difference, 1: the first one, 2: wrong usage */
#include <stdlib.h>

#include "../enumerate.h"
#include "devices.h"

static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

int main(int argc, char **argv)
{
    uint64_t numbers[] = {0, 1, 100}; /* COUNT, SEED, LENGTH */
    bool good = argc >= 2 && argc <= 4;
    for (int i = 1; i < argc && good; i++)
        good = read_number(argv[i], &numbers[i - 1]);
    if (!good || numbers[0] == 0 || numbers[2] == 0 || numbers[2] > 10000) {
        fprintf(stderr, "usage: %s COUNT [SEED [LENGTH]]\n", argv[0]);
        return 2;
    }
    const subject_place place = device_place();
    subject_set_place(&place);
    walk_at_random(numbers[1], numbers[0], (int)numbers[2], 1, true);
    printf("%llu random sequences of %d calls on a device, seed %llu: no difference\n", (unsigned long long)numbers[0],
           (int)numbers[2], (unsigned long long)numbers[1]);
    return 0;
}
