/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_options.c: the input is the arguments of `gradscaler train`, each ended by a NUL. A wrong command line is
 * reported in one line and sets nothing; a valid one prints nothing, and --name=value means the same as --name value.
 */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "train/command_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { MAX_ARGUMENTS = 64, TEXT = 1 << 16 };

/* What the command writes to stderr. The C library's stderr is a variable; sanitizers write to the descriptor itself.
 */
static char captured[TEXT];
static FILE *real_stderr;

static void capture_stderr(void)
{
    memset(captured, 0, sizeof captured);
    real_stderr = stderr;
    stderr = fmemopen(captured, sizeof captured - 1, "w");
    require(stderr, "a stream can be opened");
}

static void restore_stderr(void)
{
    fclose(stderr);
    stderr = real_stderr;
}

/* Nothing for a valid command line, else one line without control characters. */
static void check_captured(bool valid)
{
    size_t length = strlen(captured);
    if (valid) {
        require(length == 0, "a valid command line prints nothing, not: %s", captured);
        return;
    }
    require(strncmp(captured, "gradscaler: ", 12) == 0, "the line begins with the program's name: %s", captured);
    require(captured[length - 1] == '\n', "the line is complete: %s", captured);
    for (size_t i = 0; i + 1 < length; i++)
        require((unsigned char)captured[i] >= ' ' && captured[i] != 0x7f, "control character in: %s", captured);
}

static bool parse(int argc, char **argv, train_options *out)
{
    train_options untouched;
    memset(out, 0xa5, sizeof *out);
    memset(&untouched, 0xa5, sizeof untouched);
    capture_stderr();
    bool valid = command_line_parse(argc, argv, out);
    restore_stderr();
    check_captured(valid);
    require(valid || memcmp(out, &untouched, sizeof untouched) == 0, "a wrong command line sets nothing");
    return valid;
}

static void check_completion(const train_options *parsed, bool synthetic)
{
    train_options options = *parsed;
    capture_stderr();
    bool valid = command_line_complete(&options, synthetic);
    restore_stderr();
    check_captured(valid);
    if (!valid)
        return;
    require(options.min_scale > 0 && options.min_scale <= options.init_scale, "the scale's lower limit");
    require(options.init_scale <= options.max_scale && options.max_scale < 3.5e38, "the scale's upper limit");
    require(options.growth_factor > 1 && options.growth_factor < (double)INFINITY, "the growth factor");
    require(options.backoff_factor > 0 && options.backoff_factor < 1, "the backoff factor");
    require(options.growth_interval > 0 && options.hysteresis > 0 && options.max_consecutive_skips >= 0, "counts");
    require(options.skip_window == 0 || (options.skip_window >= 2 && options.skip_window <= 4096), "the skip window");
    require(options.skip_window == 0 || (options.max_skip_share > 0 && options.max_skip_share < 1), "the skip share");
    require(!options.hysteresis_until_growth || options.hysteresis > 1, "the hysteresis");
    require(options.lr >= 0 && options.lr <= 1e6, "the learning rate");
    require(options.clip_norm >= 0 && options.clip_norm < (double)INFINITY, "the clip norm");
    require(options.batch > 0 && options.epochs >= 0 && options.steps >= 0, "sizes");
    require(options.epochs > 0 || options.steps > 0, "the run ends");
    require(options.seed >= 0 && options.threads >= 0 && options.threads <= 4096, "seed and threads");
}

/* "--name=value" becomes "--name" "value", which means the same unless the value looks like an option. Values are not
 * copied, so that the pointers that options borrow are equal. */
static int split(int argc, char **argv, char *names, char **out)
{
    int count = 0;
    for (int i = 0; i < argc; i++) {
        char *value = strncmp(argv[i], "--", 2) == 0 ? strchr(argv[i], '=') : NULL;
        if (!value || strncmp(value + 1, "--", 2) == 0) {
            out[count++] = argv[i];
            continue;
        }
        size_t length = (size_t)(value - argv[i]);
        out[count++] = memcpy(names, argv[i], length);
        names[length] = '\0';
        names += length + 1;
        out[count++] = value + 1;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *names = malloc(size + 1);
    require(text && names, "there is memory");
    memcpy(text, data, size);
    text[size] = '\0';
    char *argv[MAX_ARGUMENTS + 1] = {0}, *parts[2 * MAX_ARGUMENTS + 1] = {0};
    int argc = 0;
    for (size_t at = 0; at < size && argc < MAX_ARGUMENTS; at += strlen(text + at) + 1)
        argv[argc++] = text + at;

    train_options options, again;
    bool valid = parse(argc, argv, &options);
    bool valid_again = parse(split(argc, argv, names, parts), parts, &again);
    if (valid && !options.help) {
        check_completion(&options, false);
        check_completion(&options, true);
        /* Flags take no value: --json= is refused, --json followed by an empty argument too. */
        require(valid_again && memcmp(&options, &again, sizeof options) == 0, "--name=value is --name value");
    }
    free(text);
    free(names);
    return 0;
}
