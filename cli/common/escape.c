/* SPDX-License-Identifier: Apache-2.0 */
/* escape.c: which bytes of a text may reach a terminal, and how the others are written. */
#include "common/escape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* By the first byte; 0: no character begins with it. */
static size_t utf8_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc0 || first >= 0xf8)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* The length in bytes of the UTF-8 character at `text`, and its number; 0: none begins here. */
static size_t decode(const unsigned char *text, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: a smaller one has a shorter form */
    const unsigned char first = text[0];
    const size_t length = utf8_length(first);
    uint32_t number = length == 1 ? first : first & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) /* the terminating zero, too */
            return 0;
        number = number << 6 | (text[i] & 0x3fu);
    }
    *out = number;
    const bool is_surrogate = number >= 0xd800 && number < 0xe000;
    return length == 0 || number < least[length] || is_surrogate || number > 0x10ffff ? 0 : length;
}

static bool is_harmless(uint32_t number)
{
    if (number < ' ' || (number >= 0x7f && number < 0xa0))
        return false;
    const bool is_line_end = number == 0x2028 || number == 0x2029;
    const bool is_direction = number == 0x61c || number == 0x200e || number == 0x200f ||
                              (number >= 0x202a && number <= 0x202e) || (number >= 0x2066 && number <= 0x2069);
    return !is_line_end && !is_direction;
}

/* The length of the harmless character at `text`; 0: its first byte must be escaped. */
static size_t harmless_length(const char *text)
{
    uint32_t number;
    const size_t length = decode((const unsigned char *)text, &number);
    return length > 0 && is_harmless(number) ? length : 0;
}

/* A text that is being written; what does not fit is left out. */
typedef struct writer {
    char *out, *end; /* end: for the terminating zero */
} writer;

/* false: there was no room. */
static bool add(writer *w, const char *text, size_t length)
{
    if (length > (size_t)(w->end - w->out))
        return false;
    memcpy(w->out, text, length);
    w->out += length;
    *w->out = '\0';
    return true;
}

static bool add_text(writer *w, const char *text) { return add(w, text, strlen(text)); }

static bool add_escape(writer *w, unsigned char byte)
{
    char escape[8];
    switch (byte) {
    case '\n': return add_text(w, "\\n");
    case '\t': return add_text(w, "\\t");
    case '\r': return add_text(w, "\\r");
    default: snprintf(escape, sizeof escape, "\\x%02x", byte); return add_text(w, escape);
    }
}

void escape_text(char *out, size_t size, const char *text)
{
    writer w = {out, out + size - 1};
    bool has_room = true;
    *out = '\0';
    while (*text && has_room) {
        const size_t harmless = harmless_length(text);
        has_room = harmless > 0 ? add(&w, text, harmless) : add_escape(&w, (unsigned char)*text);
        text += harmless > 0 ? harmless : 1;
    }
}

static bool is_plain(const char *path)
{
    return path[strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./,:=@%+-")] == '\0' &&
           path[0] != '\0';
}

static bool is_printable(const char *text)
{
    size_t length;
    while (*text && (length = harmless_length(text)) > 0)
        text += length;
    return *text == '\0';
}

/* What stands between '...': a quote ends them, and they begin anew behind it. */
static void add_printable(writer *w, const char *text)
{
    for (; *text; text++)
        *text == '\'' ? add_text(w, "'\\''") : add(w, text, 1);
}

/* What stands between $'...'. Octal numbers: a hexadecimal one would take a following digit for its own. */
static void add_escaped(writer *w, const char *text)
{
    while (*text) {
        char escape[8];
        const size_t harmless = harmless_length(text);
        snprintf(escape, sizeof escape, "\\%03o", (unsigned)(unsigned char)*text);
        if (harmless == 0)
            add_text(w, escape);
        else if (*text == '\'' || *text == '\\')
            add_text(w, "\\");
        add(w, text, harmless);
        text += harmless > 0 ? harmless : 1;
    }
}

quoted quote_path(const char *path)
{
    quoted made = {""};
    writer w = {made.text, made.text + sizeof made.text - 1};
    char name[PATH_SIZE + sizeof "./"]; /* a longer path cannot be opened */
    snprintf(name, sizeof name, "%s%s", path[0] == '-' ? "./" : "", path);
    if (is_plain(name)) {
        add_text(&w, name);
        return made;
    }
    const bool printable = is_printable(name);
    add_text(&w, printable ? "'" : "$'");
    printable ? add_printable(&w, name) : add_escaped(&w, name);
    add_text(&w, "'");
    return made;
}
