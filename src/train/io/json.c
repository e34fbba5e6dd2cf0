/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* uselocale */
#include "train/io/json.h"

#include <fenv.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>

/* What the C library's conversions of numbers go by: the rounding mode (on x86 that of the x87 unit, which fpenv.h
 * leaves alone), traps of the exceptions that they raise, and the locale, of whose decimal point jansson knows one
 * byte. */
typedef struct environment {
    fenv_t floats;
    locale_t own, callers;
} environment;

static environment enter_default_environment(void)
{
    environment e = {.own = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    e.callers = uselocale(e.own); /* without one of its own the thread keeps the caller's */
    fegetenv(&e.floats);
    fesetenv(FE_DFL_ENV);
    return e;
}

static void leave_default_environment(const environment *e)
{
    fesetenv(&e->floats);
    uselocale(e->callers);
    if (e->own)
        freelocale(e->own);
}

gsc_status gsc__json_parse(const char *who, const char *text, size_t size, json_t **out)
{
    json_error_t error;
    const environment e = enter_default_environment();
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    leave_default_environment(&e);
    if (!value && error.text[0] == '\0') /* how jansson's parser tells that it has no memory */
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

/* How many bytes of a code point follow this first one; -1: none begins so. */
static int continuation_bytes(unsigned char first)
{
    if (first < 0x80)
        return 0;
    if (first >= 0xc2 && first <= 0xdf) /* 0xc0 and 0xc1 would be longer than needed */
        return 1;
    if (first >= 0xe0 && first <= 0xef)
        return 2;
    return first >= 0xf0 && first <= 0xf4 ? 3 : -1;
}

/* The second byte has what else is not allowed: longer than needed, a surrogate, above U+10FFFF. */
static bool is_second_byte(unsigned char first, unsigned char second)
{
    unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char greatest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= greatest;
}

/* As jansson has it, which would tell a lack of memory in the same way. */
static bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        unsigned char first = *at++;
        int more = continuation_bytes(first);
        if (more < 0 || (more > 0 && !is_second_byte(first, *at)))
            return false;
        for (int i = 0; i < more; i++, at++) { /* the NUL at the end is no such byte */
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
