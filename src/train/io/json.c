/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: parsing, printing and checking texts with jansson. */
#define _POSIX_C_SOURCE 200809L /* uselocale */
#include "train/io/json.h"

#include <fenv.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>

/* strtod and snprintf depend on the rounding mode (on x86 also on that of the x87 unit, which fpenv.h leaves alone), on
 * traps of floating-point exceptions, and on the locale: jansson handles only decimal points of one byte. */
typedef struct environment {
    fenv_t saved_floats;
    locale_t saved_locale, c_locale;
} environment;

static environment enter_default_environment(void)
{
    environment e = {.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    e.saved_locale = uselocale(e.c_locale); /* changes nothing if newlocale had no memory */
    fegetenv(&e.saved_floats);
    fesetenv(FE_DFL_ENV);
    return e;
}

static void leave_default_environment(const environment *e)
{
    fesetenv(&e->saved_floats);
    uselocale(e->saved_locale);
    if (e->c_locale)
        freelocale(e->c_locale);
}

gsc_status gsc__json_parse(const char *who, const char *text, size_t size, json_t **out)
{
    json_error_t error;
    const environment e = enter_default_environment();
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    leave_default_environment(&e);
    if (!value && error.text[0] == '\0') /* jansson reports a lack of memory without a text */
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", who);
    if (!value)
        return gsc_fail(GSC_ERR_VALUE, "%s: line %d, column %d: %s", who, error.line, error.column, error.text);
    *out = value;
    return GSC_OK;
}

static char *print(const json_t *value, size_t flags, size_t *size)
{
    size_t needed = json_dumpb(value, NULL, 0, flags);
    char *text = needed > 0 ? malloc(needed + 1) : NULL;
    if (!text)
        return NULL;
    if (json_dumpb(value, text, needed, flags) != needed) {
        free(text);
        return NULL;
    }
    text[needed] = '\0';
    *size = needed;
    return text;
}

char *gsc__json_print(const json_t *value, size_t flags, size_t *size)
{
    const environment e = enter_default_environment();
    char *text = print(value, flags, size);
    leave_default_environment(&e);
    return text;
}

const char *gsc__json_type(const json_t *value)
{
    if (!value)
        return "missing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "of unknown type";
}

/* How many bytes of a code point follow its first one; -1: not a first byte. */
static int continuation_bytes(unsigned char first)
{
    if (first < 0x80)
        return 0;
    if (first >= 0xc2 && first <= 0xdf) /* 0xc0 and 0xc1 would begin overlong forms */
        return 1;
    if (first >= 0xe0 && first <= 0xef)
        return 2;
    return first >= 0xf0 && first <= 0xf4 ? 3 : -1;
}

/* Rejects overlong forms, surrogates and code points above U+10FFFF: the second byte shows each of them. */
static bool is_second_byte(unsigned char first, unsigned char second)
{
    unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char greatest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= greatest;
}

/* jansson has this check inside json_string, but its NULL does not tell bad text from a lack of memory. */
static bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        unsigned char first = *at++;
        int count = continuation_bytes(first);
        if (count < 0 || (count > 0 && !is_second_byte(first, *at)))
            return false;
        for (int i = 0; i < count; i++, at++) { /* stops at the NUL, which is no continuation byte */
            if ((*at & 0xc0) != 0x80)
                return false;
        }
    }
    return true;
}

gsc_status gsc__json_check_text(const char *who, const char *what, const char *text)
{
    if (!text)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", who, what);
    return is_utf8(text) ? GSC_OK : gsc_fail(GSC_ERR_VALUE, "%s: %s is not UTF-8", who, what);
}
