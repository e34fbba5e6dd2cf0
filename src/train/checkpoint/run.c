/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: run.json, which lists the files of a checkpoint with their checksums:
 *
 *     { "format": "gradscaler-checkpoint", "version": 1,
 *       "files": { "model.safetensors": { "bytes": 123, "crc32": "89abcdef" }, … },
 *       "run": { … the caller's object … },
 *       "crc32": "01234567" }
 *
 * The last checksum is of the object without it, printed compactly with sorted keys: the layout of the file does not
 * matter. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/try.h"
#include "train/checkpoint/run.h"
#include "train/io/files.h"

#define FORMAT "gradscaler-checkpoint"

#define KEY_FORMAT "format"
#define KEY_VERSION "version"
#define KEY_FILES "files"
#define KEY_RUN "run"
#define KEY_CRC "crc32"
#define KEY_BYTES "bytes"

enum { VERSION = 1, MAX_SIZE = 100000000, MAX_SIZE_OF_SUMS = 4096 };

typedef struct crc_text {
    char text[9];
} crc_text;

static crc_text print_crc(uint32_t crc)
{
    crc_text out;
    snprintf(out.text, sizeof out.text, "%08" PRIx32, crc);
    return out;
}

/* false: no memory. */
static bool checksum_object(const json_t *object, crc_text *out)
{
    size_t size;
    char *text = gsc__json_print(object, JSON_COMPACT | JSON_SORT_KEYS | GSC_JSON_REALS, &size);
    if (!text)
        return false;
    *out = print_crc((uint32_t)crc32_z(crc32_z(0, NULL, 0), (const Bytef *)text, size));
    free(text);
    return true;
}

static json_t *describe_files(const gsc__file_sum sums[GSC_FILES])
{
    json_t *files = json_object();
    for (size_t i = 0; files && i < GSC_FILES; i++) {
        if (!sums[i].present)
            continue;
        json_t *sum =
            json_pack("{s:I, s:s}", KEY_BYTES, (json_int_t)sums[i].size, KEY_CRC, print_crc(sums[i].crc).text);
        if (json_object_set_new(files, gsc__checkpoint_files[i], sum) != 0) {
            json_decref(files);
            return NULL;
        }
    }
    return files;
}

char *gsc__run_print(json_t *run, const gsc__file_sum sums[GSC_FILES], size_t *size)
{
    char *text = NULL;
    crc_text crc;
    json_t *root = json_object();
    if (root && json_object_set_new(root, KEY_FORMAT, json_string(FORMAT)) == 0 &&
        json_object_set_new(root, KEY_VERSION, json_integer(VERSION)) == 0 &&
        json_object_set_new(root, KEY_FILES, describe_files(sums)) == 0 && json_object_set(root, KEY_RUN, run) == 0 &&
        checksum_object(root, &crc) && json_object_set_new(root, KEY_CRC, json_string(crc.text)) == 0)
        text = gsc__json_print(root, JSON_INDENT(2) | GSC_JSON_REALS, size);
    json_decref(root);
    return text;
}

gsc_status gsc__run_check(const char *who, json_t *run)
{
    const gsc__file_sum none[GSC_FILES] = {0};
    size_t size;
    char *text = gsc__run_print(run, none, &size);
    if (!text)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", who);
    json_t *parsed = NULL;
    gsc_status status =
        size > MAX_SIZE - MAX_SIZE_OF_SUMS
            ? gsc_fail(GSC_ERR_VALUE, "%s: has %zu bytes, allowed are about %d", who, size, (int)MAX_SIZE)
            : gsc__json_parse(who, text, size, &parsed);
    json_decref(parsed);
    free(text);
    return status;
}

static gsc_status verify_crc(const char *path, json_t *root)
{
    json_t *stored = json_incref(json_object_get(root, KEY_CRC));
    json_object_del(root, KEY_CRC);
    crc_text crc;
    const bool has_memory = checksum_object(root, &crc);
    const bool is_equal = has_memory && json_is_string(stored) && strcmp(json_string_value(stored), crc.text) == 0;
    json_decref(stored);
    if (!has_memory)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    if (!is_equal)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: was damaged or edited: its content does not have the checksum \"" KEY_CRC "\"", path);
    return GSC_OK;
}

static gsc_status verify_format(const char *path, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, KEY_FORMAT));
    json_int_t version = json_integer_value(json_object_get(root, KEY_VERSION));
    if (!format || strcmp(format, FORMAT) != 0)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: is not the run.json of a checkpoint: \"" KEY_FORMAT "\" is not \"" FORMAT "\"", path);
    if (version != VERSION)
        return gsc_fail(GSC_ERR_VALUE, "%s: \"" KEY_VERSION "\" is %lld, this library reads %d; use a newer one", path,
                        (long long)version, (int)VERSION);
    return GSC_OK;
}

static gsc_status read_sums(const char *path, const json_t *files, gsc__file_sum sums[GSC_FILES])
{
    for (size_t i = 0; i < GSC_FILES; i++) {
        const json_t *entry = json_object_get(files, gsc__checkpoint_files[i]);
        const char *crc = json_string_value(json_object_get(entry, KEY_CRC));
        const json_t *bytes = json_object_get(entry, KEY_BYTES);
        sums[i] = (gsc__file_sum){.present = entry != NULL};
        if (!entry)
            continue;
        if (!crc || !json_is_integer(bytes))
            return gsc_fail(GSC_ERR_VALUE, "%s: \"" KEY_FILES "\": \"%s\" lacks \"" KEY_BYTES "\" or \"" KEY_CRC "\"",
                            path, gsc__checkpoint_files[i]);
        sums[i].size = (uint64_t)json_integer_value(bytes);
        sums[i].crc = (uint32_t)strtoul(crc, NULL, 16);
    }
    return GSC_OK;
}

static gsc_status read_root(const char *path, json_t *root, json_t **run, gsc__file_sum sums[GSC_FILES])
{
    GSC_TRY(verify_format(path, root));
    GSC_TRY(verify_crc(path, root));
    GSC_TRY(read_sums(path, json_object_get(root, KEY_FILES), sums));
    json_t *found = json_object_get(root, KEY_RUN);
    if (!json_is_object(found))
        return gsc_fail(GSC_ERR_VALUE, "%s: \"" KEY_RUN "\" is %s, it must be an object", path, gsc__json_type(found));
    *run = json_incref(found);
    return GSC_OK;
}

static gsc_status read_text(const char *path, const char *text, size_t size, json_t **run,
                            gsc__file_sum sums[GSC_FILES])
{
    if (size > MAX_SIZE)
        return gsc_fail(GSC_ERR_VALUE, "%s: has %zu bytes, allowed are %d", path, size, (int)MAX_SIZE);
    json_t *root;
    GSC_TRY(gsc__json_parse(path, text, size, &root));
    gsc_status status = read_root(path, root, run, sums);
    json_decref(root);
    return status;
}

gsc_status gsc__run_read(const gsc__generation *generation, json_t **run, gsc__file_sum sums[GSC_FILES])
{
    const char *path = generation->paths[GSC_FILE_RUN];
    gsc__mapping mapping;
    gsc_status status = gsc__mapping_open(generation->folder, gsc__checkpoint_files[GSC_FILE_RUN], path, &mapping);
    if (status != GSC_OK)
        return gsc_fail(status, "%s; without it there is no checkpoint", gsc_last_error());
    status = read_text(path, mapping.data ? (const char *)mapping.data : "", mapping.size, run, sums);
    gsc__mapping_close(&mapping);
    return status;
}
