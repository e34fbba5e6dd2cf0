/* SPDX-License-Identifier: Apache-2.0 */
/* value.c: numbers, words and texts. The command never calls setlocale, so strtod and printf use the C locale. */
#include "common/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_choice(const value_range *range, const char *text, void *field)
{
    for (int32_t i = 0; range->choices[i]; i++) {
        if (strcmp(range->choices[i], text) == 0) {
            *(int32_t *)field = i;
            return true;
        }
    }
    return false;
}

static void print_choice(const value_range *range, const void *field, char *out, size_t size)
{
    snprintf(out, size, "%s", range->choices[*(const int32_t *)field]);
}

static void append(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s", text);
}

static void describe_choice(const value_range *range, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; range->choices[i]; i++) {
        if (i > 0)
            append(out, size, range->choices[i + 1] ? ", " : " or ");
        append(out, size, range->choices[i]);
    }
}

/* strtod and strtoll would skip white space. */
static bool begins_like_a_number(const char *text) { return *text != '\0' && !isspace((unsigned char)*text); }

static bool parse_real(const value_range *range, const char *text, void *field)
{
    if (!begins_like_a_number(text))
        return false;
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (*end != '\0' || errno == ERANGE || !isfinite(value))
        return false;
    if (value < range->low || value > range->high || (range->open && (value == range->low || value == range->high)))
        return false;
    *(double *)field = value;
    return true;
}

void value_print_real(double value, char out[VALUE_REAL_SIZE])
{
    enum { MIN_DIGITS = 6, MAX_DIGITS = 17 };
    for (int digits = MIN_DIGITS; digits <= MAX_DIGITS; digits++) {
        snprintf(out, VALUE_REAL_SIZE, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

static void print_real(const value_range *range, const void *field, char *out, size_t size)
{
    (void)range;
    char text[VALUE_REAL_SIZE];
    value_print_real(*(const double *)field, text);
    snprintf(out, size, "%s", text);
}

static void describe_real(const value_range *range, char *out, size_t size)
{
    if (!range->open)
        snprintf(out, size, "a number from %.8g to %.8g", range->low, range->high);
    else if (isinf(range->high))
        snprintf(out, size, "a finite number greater than %.8g", range->low);
    else
        snprintf(out, size, "a number between %.8g and %.8g, both excluded", range->low, range->high);
}

static bool parse_integer(const value_range *range, const char *text, void *field)
{
    if (!begins_like_a_number(text))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end != '\0' || errno == ERANGE || value < range->least || value > range->most)
        return false;
    *(int64_t *)field = value;
    return true;
}

static void print_integer(const value_range *range, const void *field, char *out, size_t size)
{
    (void)range;
    snprintf(out, size, "%" PRId64, *(const int64_t *)field);
}

static void describe_integer(const value_range *range, char *out, size_t size)
{
    snprintf(out, size, "a whole number from %" PRId64 " to %" PRId64, range->least, range->most);
}

static bool parse_text(const value_range *range, const char *text, void *field)
{
    (void)range;
    if (*text == '\0')
        return false;
    *(const char **)field = text;
    return true;
}

static void print_text(const value_range *range, const void *field, char *out, size_t size)
{
    (void)range;
    snprintf(out, size, "%s", *(const char *const *)field);
}

static void describe_text(const value_range *range, char *out, size_t size)
{
    (void)range;
    snprintf(out, size, "a text that is not empty");
}

const value_kind value_choice = {parse_choice, print_choice, describe_choice};
const value_kind value_real = {parse_real, print_real, describe_real};
const value_kind value_integer = {parse_integer, print_integer, describe_integer};
const value_kind value_text = {parse_text, print_text, describe_text};
