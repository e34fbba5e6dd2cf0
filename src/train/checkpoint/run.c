/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_run.c: run.json, which tells what belongs together:
 *
 *     { "format": "gradscaler-checkpoint", "version": 1,
 *       "files": { "model.safetensors": { "bytes": 123, "crc32": "89abcdef" }, … },
 *       "run": { … the caller's … },
 *       "crc32": "01234567" }
 *
 * The last is of the object without it, compact and with sorted keys, so that it holds however the file is laid out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "train/checkpoint/checkpoint.h"

#define FORMAT "gradscaler-checkpoint"

enum { VERSION = 1, MAX_SIZE = 100000000, SIZE_OF_SUMS = 4096 /* more than they take */ };

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
static bool sum_object(const json_t *object, crc_text *out)
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
        json_t *sum = json_pack("{s:I, s:s}", "bytes", (json_int_t)sums[i].size, "crc32", print_crc(sums[i].crc).text);
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
    if (root && json_object_set_new(root, "format", json_string(FORMAT)) == 0 &&
        json_object_set_new(root, "version", json_integer(VERSION)) == 0 &&
        json_object_set_new(root, "files", describe_files(sums)) == 0 && json_object_set(root, "run", run) == 0 &&
        sum_object(root, &crc) && json_object_set_new(root, "crc32", json_string(crc.text)) == 0)
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
    json_t *again = NULL;
    gsc_status status =
        size > MAX_SIZE - SIZE_OF_SUMS
            ? gsc_fail(GSC_ERR_VALUE, "%s: has %zu bytes, allowed are about %d", who, size, (int)MAX_SIZE)
            : gsc__json_parse(who, text, size, &again);
    json_decref(again);
    free(text);
    return status;
}

static gsc_status verify_crc(const char *path, json_t *root)
{
    const char *told = json_string_value(json_object_get(root, "crc32"));
    crc_text crc, found = {""};
    if (told)
        snprintf(found.text, sizeof found.text, "%s", told);
    bool whole = told && strlen(told) == strlen(found.text);
    json_object_del(root, "crc32");
    if (!sum_object(root, &crc))
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    if (!whole || strcmp(found.text, crc.text) != 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: was damaged or edited: its content does not have the checksum \"crc32\"",
                        path);
    return GSC_OK;
}

static gsc_status verify_format(const char *path, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (!format || strcmp(format, FORMAT) != 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: is not the run.json of a checkpoint: \"format\" is not \"%s\"", path,
                        FORMAT);
    if (version != VERSION)
        return gsc_fail(GSC_ERR_VALUE, "%s: \"version\" is %lld, this library reads %d; use a newer one", path,
                        (long long)version, (int)VERSION);
    return GSC_OK;
}

static gsc_status read_sums(const char *path, const json_t *files, gsc__file_sum sums[GSC_FILES])
{
    for (size_t i = 0; i < GSC_FILES; i++) {
        const json_t *entry = json_object_get(files, gsc__checkpoint_files[i]);
        const char *crc = json_string_value(json_object_get(entry, "crc32"));
        const json_t *bytes = json_object_get(entry, "bytes");
        sums[i] = (gsc__file_sum){.present = entry != NULL};
        if (!entry)
            continue;
        if (!crc || !json_is_integer(bytes))
            return gsc_fail(GSC_ERR_VALUE, "%s: \"files\": \"%s\" lacks \"bytes\" or \"crc32\"", path,
                            gsc__checkpoint_files[i]);
        sums[i].size = (uint64_t)json_integer_value(bytes);
        sums[i].crc = (uint32_t)strtoul(crc, NULL, 16);
    }
    return GSC_OK;
}

static gsc_status read_root(const char *path, json_t *root, json_t **run, gsc__file_sum sums[GSC_FILES])
{
    gsc_status status = verify_format(path, root);
    if (status == GSC_OK)
        status = verify_crc(path, root);
    if (status == GSC_OK)
        status = read_sums(path, json_object_get(root, "files"), sums);
    json_t *own = json_object_get(root, "run");
    if (status == GSC_OK && !json_is_object(own))
        status = gsc_fail(GSC_ERR_VALUE, "%s: \"run\" is %s, it must be an object", path, gsc__json_type(own));
    if (status == GSC_OK)
        *run = json_incref(own);
    return status;
}

gsc_status gsc__run_read(const gsc__generation *generation, json_t **run, gsc__file_sum sums[GSC_FILES])
{
    const char *path = generation->paths[GSC_FILE_RUN];
    gsc__mapping mapping;
    gsc_status status = gsc__mapping_open(generation->folder, gsc__checkpoint_files[GSC_FILE_RUN], path, &mapping);
    if (status != GSC_OK)
        return gsc_fail(status, "%s; without it there is no checkpoint", gsc_last_error());
    json_t *root = NULL;
    if (mapping.size > MAX_SIZE)
        status = gsc_fail(GSC_ERR_VALUE, "%s: has %zu bytes, allowed are %d", path, mapping.size, (int)MAX_SIZE);
    else
        status = gsc__json_parse(path, mapping.data ? (const char *)mapping.data : "", mapping.size, &root);
    if (status == GSC_OK)
        status = read_root(path, root, run, sums);
    json_decref(root);
    gsc__mapping_close(&mapping);
    return status;
}
