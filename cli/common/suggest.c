/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c: compares names by the smallest number of typing errors. */
#include "common/suggest.h"

#include <ctype.h>
#include <string.h>

void suggest_normalize(char out[SUGGEST_SIZE], const char *text)
{
    text += strspn(text, "-");
    const size_t length = strcspn(text, "=");
    out[0] = '\0';
    if (length >= SUGGEST_SIZE)
        return;
    for (size_t i = 0; i < length; i++)
        out[i] = text[i] == '_' ? '-' : (char)tolower((unsigned char)text[i]);
    out[length] = '\0';
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* rows[i % 3][k]: the distance of the first i characters of a to the first k of b, which has m and may be longer. */
static size_t distance(const char *a, const char *b, size_t m)
{
    size_t rows[3][SUGGEST_SIZE];
    const size_t n = strlen(a);
    for (size_t k = 0; k <= m; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            row[k] = least(least(above[k], row[k - 1]) + 1, above[k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = least(row[k], two_above[k - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* The next word of a list, of *length characters; NULL: there is none. Moves *list behind it. */
static const char *next_word(const char **list, size_t *length)
{
    const char *word = *list ? *list + strspn(*list, " ") : "";
    *length = strcspn(word, " ");
    *list = word + *length;
    return *length > 0 ? word : NULL;
}

size_t suggest_distance_to(const char *given, const char *name, const char *aliases)
{
    size_t best = distance(given, name, strlen(name)), length;
    for (const char *word; (word = next_word(&aliases, &length));)
        best = least(best, distance(given, word, length));
    return best;
}

bool suggest_is_near(const char *given, size_t errors)
{
    enum { LETTERS_PER_ERROR = 3 };
    return errors <= strlen(given) / LETTERS_PER_ERROR;
}

bool suggest_is_listed(const char *given, const char *aliases)
{
    size_t length;
    for (const char *word; (word = next_word(&aliases, &length));)
        if (length == strlen(given) && memcmp(word, given, length) == 0)
            return true;
    return false;
}
