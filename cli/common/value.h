/* SPDX-License-Identifier: Apache-2.0 */
/* value.h: the kinds of value that an option takes: parsing, printing, and the allowed values in words. */
#ifndef CLI_COMMON_VALUE_H
#define CLI_COMMON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The allowed values; each kind uses its own fields. */
typedef struct value_range {
    const char *const *choices; /* the allowed words, ends in NULL */
    double low, high;           /* real numbers */
    bool open;                  /* low and high themselves are excluded */
    int64_t least, most;        /* whole numbers */
} value_range;

typedef struct value_kind {
    /* Parses the whole text into *field. false, *field unchanged: not an allowed value. */
    bool (*parse)(const value_range *range, const char *text, void *field);
    /* Prints the value as it would be typed; parsing it gives the same bits. */
    void (*print)(const value_range *range, const void *field, char *out, size_t size);
    /* Prints the allowed values in words. */
    void (*describe)(const value_range *range, char *out, size_t size);
} value_kind;

extern const value_kind value_choice;  /* int32_t: index of the word */
extern const value_kind value_real;    /* double */
extern const value_kind value_integer; /* int64_t */
extern const value_kind value_text;    /* const char *, not empty */

#define VALUE_REAL_SIZE 32
/* Prints a finite number with the fewest digits, at least 6, from which it is read back exactly. */
void value_print_real(double value, char out[VALUE_REAL_SIZE]);

#endif
