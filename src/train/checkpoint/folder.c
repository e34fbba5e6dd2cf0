/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_folder.c: which folder holds the checkpoint, and how another takes its place.
 *
 *     DIR/checkpoint          -> checkpoint-0 or checkpoint-1: the one in force
 *     DIR/model.safetensors   -> checkpoint/model.safetensors, and so on
 *
 * All files change at once, with the rename that replaces the first link. Until then nobody reads what is written. */
#define _DEFAULT_SOURCE /* flock, openat, symlinkat */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/checkpoint/checkpoint.h"

#define CURRENT "checkpoint"
#define TEMPORARY_LINK ".checkpoint.tmp"

enum { NONE = -1, GENERATIONS = 2 };
static const char *const generations[GENERATIONS] = {CURRENT "-0", CURRENT "-1"};

static gsc_status link_error(const char *dir, const char *name, const char *what)
{
    return gsc_fail(GSC_ERR_IO, "%s/%s: %s: %s", dir, name, what, strerror(errno));
}

/* What a link says; "" where there is none of this name, NULL for anything but a link. */
static const char *read_link(int folder, const char *name, char *target, size_t size)
{
    ssize_t length = readlinkat(folder, name, target, size - 1);
    if (length < 0 && errno != ENOENT)
        return NULL;
    target[length < 0 ? 0 : length] = '\0';
    return target;
}

static char *join(const char *dir, const char *subfolder, const char *name)
{
    size_t size = strlen(dir) + strlen(subfolder) + strlen(name) + sizeof "//";
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s%s/%s", dir, subfolder[0] ? "/" : "", subfolder, name);
    return path;
}

/* Takes over the folder, also on failure. */
static gsc_status make_generation(const char *dir, const char *subfolder, int folder, gsc__generation *out)
{
    gsc__generation made = {.folder = folder};
    bool complete = true;
    for (size_t i = 0; i < GSC_FILES; i++) {
        made.paths[i] = join(dir, subfolder, gsc__checkpoint_files[i]);
        complete = complete && made.paths[i];
    }
    if (!complete) {
        gsc__generation_close(&made);
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", dir);
    }
    *out = made;
    return GSC_OK;
}

void gsc__generation_close(gsc__generation *generation)
{
    for (size_t i = 0; i < GSC_FILES; i++)
        free(generation->paths[i]);
    close(generation->folder);
}

/* Without the link, the folder itself: copies that followed links, or parts of them. */
gsc_status gsc__generation_find(const char *dir, gsc__generation *out)
{
    int folder;
    gsc_status status = gsc__folder_open(dir, &folder);
    if (status != GSC_OK)
        return status;
    int current = openat(folder, CURRENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (current < 0 && errno != ENOENT) {
        status = link_error(dir, CURRENT, "cannot be opened");
        close(folder);
        return status;
    }
    if (current < 0)
        return make_generation(dir, "", folder, out);
    close(folder);
    return make_generation(dir, CURRENT, current, out);
}

static gsc_status read_current(const char *dir, int folder, int *current)
{
    char text[64];
    const char *target = read_link(folder, CURRENT, text, sizeof text);
    *current = NONE;
    for (int i = 0; target && i < GENERATIONS; i++)
        if (strcmp(target, generations[i]) == 0)
            *current = i;
    if (!target || (target[0] && *current == NONE))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s/%s is not a link to %s or %s, so this folder is a copy or something else; save into "
                        "another folder, or remove it",
                        dir, CURRENT, generations[0], generations[1]);
    return GSC_OK;
}

/* Removes the files of a generation, finished or not. What cannot be removed is written over. */
static void empty(int folder)
{
    char temporary[64];
    for (size_t i = 0; i < GSC_FILES; i++) {
        snprintf(temporary, sizeof temporary, ".%s.tmp", gsc__checkpoint_files[i]);
        unlinkat(folder, gsc__checkpoint_files[i], 0);
        unlinkat(folder, temporary, 0);
    }
}

static gsc_status open_next(const char *dir, int folder, const char *name, gsc__generation *out)
{
    if (mkdirat(folder, name, 0777) != 0 && errno != EEXIST)
        return link_error(dir, name, "the folder cannot be created");
    int next = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (next < 0)
        return link_error(dir, name, "the folder cannot be opened");
    empty(next);
    return make_generation(dir, name, next, out);
}

/* A child that was forked meanwhile has the folder open, too, and would keep it locked. */
static void unlock_and_close(int folder)
{
    flock(folder, LOCK_UN);
    close(folder);
}

static gsc_status lock_and_open(gsc__saving *saving)
{
    if (flock(saving->folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return gsc_fail(GSC_ERR_IO, "%s: another process or thread is saving into this folder", saving->dir);
    int current;
    gsc_status status = read_current(saving->dir, saving->folder, &current);
    if (status != GSC_OK)
        return status;
    saving->next = current == 0 ? 1 : 0;
    return open_next(saving->dir, saving->folder, generations[saving->next], &saving->generation);
}

gsc_status gsc__saving_begin(const char *dir, gsc__saving *out)
{
    gsc__saving saving = {.dir = dir};
    gsc_status status = gsc__folder_open(dir, &saving.folder);
    if (status != GSC_OK)
        return status;
    status = lock_and_open(&saving);
    if (status == GSC_OK)
        *out = saving;
    else
        unlock_and_close(saving.folder);
    return status;
}

/* Makes `name` a link to `target`, in the place of whatever it was. */
static gsc_status replace_link(const gsc__saving *saving, const char *target, const char *name)
{
    if (unlinkat(saving->folder, TEMPORARY_LINK, 0) != 0 && errno != ENOENT)
        return link_error(saving->dir, TEMPORARY_LINK, "cannot be removed");
    if (symlinkat(target, saving->folder, TEMPORARY_LINK) != 0)
        return link_error(saving->dir, TEMPORARY_LINK, "a symbolic link cannot be created");
    if (renameat(saving->folder, TEMPORARY_LINK, saving->folder, name) != 0)
        return link_error(saving->dir, name, "cannot be replaced by a link");
    return GSC_OK;
}

/* The links of the files' names: first the missing ones, so that they are there with the first checkpoint; once it is
 * in force, in the place of whatever else has such a name, too. Links of files that it does not have go. */
static gsc_status link_files(const gsc__saving *saving, const bool present[GSC_FILES], bool in_force)
{
    for (size_t i = 0; i < GSC_FILES; i++) {
        const char *name = gsc__checkpoint_files[i];
        char wanted[64], text[64];
        snprintf(wanted, sizeof wanted, "%s/%s", CURRENT, name);
        const char *target = read_link(saving->folder, name, text, sizeof text);
        bool is_linked = target && strcmp(target, wanted) == 0, is_missing = target && !target[0];
        if (in_force && !present[i] && is_linked)
            unlinkat(saving->folder, name, 0); /* dangles where it stays */
        if (!present[i] || is_linked || !(is_missing || in_force))
            continue;
        gsc_status status = replace_link(saving, wanted, name);
        if (status != GSC_OK)
            return status;
    }
    return GSC_OK;
}

static gsc_status put_in_force(const gsc__saving *saving, const bool present[GSC_FILES])
{
    gsc_status status = gsc__folder_sync(saving->generation.folder, saving->dir);
    if (status == GSC_OK)
        status = link_files(saving, present, false);
    if (status == GSC_OK)
        status =
            gsc__folder_sync(saving->folder, saving->dir); /* the generation's own name, before a link leads to it */
    if (status == GSC_OK)
        status = replace_link(saving, generations[saving->next], CURRENT);
    return status;
}

gsc_status gsc__saving_finish(gsc__saving *saving, const bool present[GSC_FILES], gsc_status so_far)
{
    gsc_status status = so_far == GSC_OK ? put_in_force(saving, present) : so_far;
    if (status != GSC_OK) {
        empty(saving->generation.folder);
        unlinkat(saving->folder, TEMPORARY_LINK, 0);
    } else {
        status = link_files(saving, present, true);
        if (status == GSC_OK)
            status = gsc__folder_sync(saving->folder, saving->dir);
    }
    gsc__generation_close(&saving->generation);
    unlock_and_close(saving->folder);
    return status;
}
