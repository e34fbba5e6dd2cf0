/* SPDX-License-Identifier: Apache-2.0 */
/* entries.c: reads and writes the entries of a text file, one fuzz input a line. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char short_escapes[] = "nrt0\\", short_bytes[] = "\n\r\t\0\\";

/* Returns the value of a lower-case hexadecimal digit, -1 for another character. */
static int digit_value(char c)
{
    const char *digits = "0123456789abcdef", *found = c == '\0' ? NULL : strchr(digits, c);
    return found ? (int)(found - digits) : -1;
}

/* Reads the escape behind a backslash. Returns how many characters it has, 0 if it is unknown. */
static size_t read_escape(const char *text, uint8_t *byte)
{
    if (text[0] == 'x') {
        int high = digit_value(text[1]), low = high < 0 ? -1 : digit_value(text[2]);
        *byte = (uint8_t)(high * 16 + low);
        return low < 0 ? 0 : 3;
    }
    const char *found = text[0] == '\0' ? NULL : strchr(short_escapes, text[0]);
    if (!found)
        return 0;
    *byte = (uint8_t)short_bytes[found - short_escapes];
    return 1;
}

/* Replaces the escapes of an entry, in place. *size: the number of bytes that the entry then has. Returns false for an
 * unknown escape. */
static bool decode(char *text, size_t length, size_t *size)
{
    *size = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (byte == '\\' && i + 1 == length)
            break; /* a final backslash stands for nothing */
        if (byte == '\\') {
            size_t escape = read_escape(text + i + 1, &byte);
            if (escape == 0)
                return false;
            i += escape;
        }
        text[(*size)++] = (char)byte;
    }
    return true;
}

static bool visit_entries(FILE *file, const char *path, entry_visitor *visit, void *ctx)
{
    char *text = NULL;
    size_t capacity = 0, size;
    ssize_t length;
    bool valid = true;
    for (int line = 1; valid && (length = getline(&text, &capacity, file)) > 0; line++) {
        if (text[length - 1] == '\n')
            text[--length] = '\0';
        if (length == 0 || text[0] == '#')
            continue;
        valid = decode(text, (size_t)length, &size);
        if (valid)
            visit(ctx, line, (const uint8_t *)text, size);
        else
            fprintf(stderr, "%s:%d: unknown escape; allowed are \\n \\r \\t \\0 \\\\ \\xhh (lower-case digits)\n", path,
                    line);
    }
    free(text);
    return valid && !ferror(file);
}

bool entries_visit(const char *path, entry_visitor *visit, void *ctx)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    bool valid = visit_entries(file, path, visit, ctx);
    fclose(file);
    return valid;
}

static void write_byte(FILE *file, uint8_t byte)
{
    const char *found = memchr(short_bytes, byte, sizeof short_bytes - 1);
    if (found)
        fprintf(file, "\\%c", short_escapes[found - short_bytes]);
    else if (byte >= ' ' && byte <= '~')
        fputc(byte, file);
    else
        fprintf(file, "\\x%02x", byte);
}

void entries_write(FILE *file, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (i == 0 && data[i] == '#')
            fputs("\\x23", file);
        else
            write_byte(file, data[i]);
    }
    /* A final backslash: without it an empty input would be an empty line, and editors would remove a final space. */
    fputs(size == 0 || data[size - 1] == ' ' ? "\\\n" : "\n", file);
}
