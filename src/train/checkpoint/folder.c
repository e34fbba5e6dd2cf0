/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c: which folder holds the current checkpoint, and how a save replaces it.
 *
 *     DIR/checkpoint          -> checkpoint-0 or checkpoint-1: the current generation
 *     DIR/model.safetensors   -> checkpoint/model.safetensors, and so on
 *
 * A save writes into the other generation. The rename that replaces the link `checkpoint` changes all files at once. */
#define _DEFAULT_SOURCE /* flock, openat, symlinkat */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "gradscaler/checkpoint.h"
#include "train/checkpoint/folder.h"
#include "train/io/files.h"

#define CURRENT GSC_CHECKPOINT_CURRENT
#define TEMPORARY_LINK GSC_TEMPORARY_NAME(GSC_CHECKPOINT_CURRENT)

enum { NONE = -1, GENERATIONS = 2 };
static const char *const generations[GENERATIONS] = {GSC_CHECKPOINT_0, GSC_CHECKPOINT_1};

const char *const gsc__checkpoint_files[GSC_FILES] = {[GSC_FILE_MODEL] = GSC_CHECKPOINT_MODEL,
                                                      [GSC_FILE_OPTIMIZER] = GSC_CHECKPOINT_OPTIMIZER,
                                                      [GSC_FILE_SCALER] = GSC_CHECKPOINT_SCALER,
                                                      [GSC_FILE_RUN] = GSC_CHECKPOINT_RUN};

static gsc_status link_error(const char *dir, const char *name, const char *what)
{
    return gsc_fail(GSC_ERR_IO, "%s/%s: %s: %s", dir, name, what, strerror(errno));
}

/* The target of a link; "" if nothing has this name; NULL if it is not a link or cannot be read. */
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

/* The generation owns the descriptor `folder`; on failure it is closed. */
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

/* The link may be missing: a copy of the folder whose links were followed has the files themselves. They are then read
 * from the folder itself. Such a copy may lack some of them. */
gsc_status gsc__generation_open(const char *dir, gsc__generation *out)
{
    int folder;
    GSC_TRY(gsc__folder_open(dir, &folder));
    int subfolder = openat(folder, CURRENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (subfolder < 0 && errno != ENOENT) {
        gsc_status status = link_error(dir, CURRENT, "cannot be opened");
        close(folder);
        return status;
    }
    if (subfolder < 0)
        return make_generation(dir, "", folder, out);
    close(folder);
    return make_generation(dir, CURRENT, subfolder, out);
}

/* *current: the index of the generation that the link names; NONE: there is no link yet. */
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

/* Removes the files of a generation, complete or not. Errors do not matter: writing replaces what is left. */
static void remove_files(int folder)
{
    char temporary[64];
    for (size_t i = 0; i < GSC_FILES; i++) {
        snprintf(temporary, sizeof temporary, GSC_TEMPORARY_NAME("%s"),
                 gsc__checkpoint_files[i]); /* the format is ".%s.tmp" */
        unlinkat(folder, gsc__checkpoint_files[i], 0);
        unlinkat(folder, temporary, 0);
    }
}

/* A folder that has the name of a file could not be replaced by that file, or after the switch by its link. */
static gsc_status check_names(const char *dir, const char *subfolder, int folder)
{
    for (size_t i = 0; i < GSC_FILES; i++) {
        const char *name = gsc__checkpoint_files[i];
        struct stat about;
        if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode))
            return gsc_fail(GSC_ERR_VALUE,
                            "%s%s/%s is a folder, where a checkpoint has a file; remove or rename it, then save again",
                            dir, subfolder, name);
    }
    return GSC_OK;
}

static gsc_status open_next(const char *dir, int folder, const char *name, gsc__generation *out)
{
    if (mkdirat(folder, name, 0777) != 0 && errno != EEXIST)
        return link_error(dir, name, "the folder cannot be created");
    int subfolder = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (subfolder < 0)
        return link_error(dir, name, "the folder cannot be opened");
    remove_files(subfolder);
    char place[64];
    snprintf(place, sizeof place, "/%s", name);
    gsc_status status = check_names(dir, place, subfolder);
    if (status == GSC_OK)
        return make_generation(dir, name, subfolder, out);
    close(subfolder);
    return status;
}

/* Closing alone keeps the lock if a child that was forked meanwhile inherited the open folder. */
static void unlock_and_close(int folder)
{
    flock(folder, LOCK_UN);
    close(folder);
}

/* Where a file system has no locks, flock fails with another error. A save works there, too, but without the protection
 * from a second one. */
static gsc_status lock_and_open(gsc__saving *saving)
{
    if (flock(saving->folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return gsc_fail(GSC_ERR_IO, "%s: another process or thread is saving into this folder", saving->dir);
    int current;
    GSC_TRY(read_current(saving->dir, saving->folder, &current));
    GSC_TRY(check_names(saving->dir, "", saving->folder));
    saving->next = current == 0 ? 1 : 0;
    return open_next(saving->dir, saving->folder, generations[saving->next], &saving->generation);
}

gsc_status gsc__saving_begin(const char *dir, gsc__saving *out)
{
    gsc__saving saving = {.dir = dir};
    GSC_TRY(gsc__folder_open(dir, &saving.folder));
    gsc_status status = lock_and_open(&saving);
    if (status == GSC_OK)
        *out = saving;
    else
        unlock_and_close(saving.folder);
    return status;
}

/* Makes `name` a link to `target`; replaces what had that name. */
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

/* Links the files' names into the current generation. Before the switch, only missing names are linked: they dangle
 * until the switch, which makes the files of a first checkpoint appear all at once. After the switch, other files and
 * links that have these names are replaced, and links to files that the checkpoint does not have are removed. */
static gsc_status link_files(const gsc__saving *saving, const bool present[GSC_FILES], bool is_switched)
{
    for (size_t i = 0; i < GSC_FILES; i++) {
        const char *name = gsc__checkpoint_files[i];
        char wanted[64], text[64];
        snprintf(wanted, sizeof wanted, "%s/%s", CURRENT, name);
        const char *target = read_link(saving->folder, name, text, sizeof text);
        bool is_linked = target && strcmp(target, wanted) == 0, is_missing = target && !target[0];
        if (is_switched && !present[i] && is_linked)
            unlinkat(saving->folder, name, 0); /* on failure a dangling link is left */
        if (!present[i] || is_linked || !(is_missing || is_switched))
            continue;
        GSC_TRY(replace_link(saving, wanted, name));
    }
    return GSC_OK;
}

/* The switch to the new generation. */
static gsc_status switch_link(const gsc__saving *saving, const bool present[GSC_FILES])
{
    GSC_TRY(gsc__folder_sync(saving->generation.folder, saving->dir));
    GSC_TRY(link_files(saving, present, false));
    GSC_TRY(gsc__folder_sync(saving->folder, saving->dir)); /* the generation's name must be on disk before the link */
    return replace_link(saving, generations[saving->next], CURRENT);
}

/* Errors after the switch leave the new checkpoint in place. */
static gsc_status complete_links(const gsc__saving *saving, const bool present[GSC_FILES])
{
    GSC_TRY(link_files(saving, present, true));
    return gsc__folder_sync(saving->folder, saving->dir);
}

gsc_status gsc__saving_finish(gsc__saving *saving, const bool present[GSC_FILES], gsc_status status)
{
    if (status == GSC_OK)
        status = switch_link(saving, present);
    if (status == GSC_OK) {
        status = complete_links(saving, present);
    } else {
        remove_files(saving->generation.folder);
        unlinkat(saving->folder, TEMPORARY_LINK, 0);
    }
    gsc__generation_close(&saving->generation);
    unlock_and_close(saving->folder);
    return status;
}
