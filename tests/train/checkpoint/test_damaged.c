/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint with any change is refused, and loads nothing. */
#define _XOPEN_SOURCE 700
#include "checkpoint_rig.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "safetensors_files.h"

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

typedef struct fixture {
    char *dir;
    run_rig into, twin; /* equal: a failed load must not change into */
} fixture;

static void fixture_create(fixture *f)
{
    run_rig saved;
    *f = (fixture){.dir = temp_dir_create()};
    rig_create(&saved, &adam, 1);
    rig_create(&f->into, &adam, 2);
    rig_create(&f->twin, &adam, 2);
    rig_step(&saved, 0, true);
    assert_ok(gsc_checkpoint_save(f->dir, &saved.checkpoint));
    rig_free(&saved);
}

static void fixture_free(fixture *f)
{
    rig_free(&f->into);
    rig_free(&f->twin);
    temp_tree_remove(f->dir);
}

static void assert_damage(fixture *f, const char *name)
{
    gsc_status status = gsc_checkpoint_load(f->dir, &f->into.checkpoint, NULL);
    if (status != GSC_ERR_VALUE || !strstr(gsc_last_error(), name))
        fail_msg("%s was changed: %s: %s", name, gsc_status_name(status), gsc_last_error());
    assert_true(rigs_equal(&f->into, &f->twin));
}

/* The descriptor of a file of the checkpoint, open for writing, and its size. */
static int open_for_damage(const fixture *f, const char *name, size_t *size)
{
    int descriptor = open(temp_path(f->dir, name), O_RDWR);
    assert_true(descriptor >= 0);
    off_t end = lseek(descriptor, 0, SEEK_END);
    assert_true(end > 0);
    *size = (size_t)end;
    return descriptor;
}

/* resume 4 */
static void truncation_at_every_byte_loads_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        fixture f;
        fixture_create(&f);
        size_t size;
        int descriptor = open_for_damage(&f, file_names[i], &size);
        size_t length = strcmp(file_names[i], "run.json") == 0 ? size - 1 : size; /* its line end may be missing */
        while (length-- > 0) {
            assert_int_equal(ftruncate(descriptor, (off_t)length), 0);
            assert_damage(&f, file_names[i]);
        }
        close(descriptor);
        fixture_free(&f);
    }
}

/* resume 4 */
static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    for (size_t i = 0; i < FILES; i++) {
        size_t size;
        int descriptor = open_for_damage(&f, file_names[i], &size);
        uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        assert_true(bytes != MAP_FAILED);
        for (size_t bit = 0; bit < size * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_damage(&f, file_names[i]);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_int_equal(munmap(bytes, size), 0);
        close(descriptor);
    }
    assert_ok(gsc_checkpoint_load(f.dir, &f.into.checkpoint, NULL)); /* all bits are restored */
    assert_false(rigs_equal(&f.into, &f.twin));
    fixture_free(&f);
}

static void copy_file(const char *from, const char *to)
{
    size_t size;
    uint8_t *bytes = read_file(from, &size);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

/* Each file is replaced by the same file of another checkpoint. */
static void files_of_another_checkpoint_are_found(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    char *other = temp_dir_create();
    run_rig rig;
    rig_create(&rig, &adam, 1);
    rig_step(&rig, 0, true);
    rig_step(&rig, 1, false);
    assert_ok(gsc_checkpoint_save(other, &rig.checkpoint));
    for (size_t i = 0; i + 1 < FILES; i++) {
        const char *own = temp_path(f.dir, file_names[i]), *kept = temp_path(f.dir, "kept");
        copy_file(own, kept);
        copy_file(temp_path(other, file_names[i]), own);
        assert_damage(&f, file_names[i]);
        copy_file(kept, own);
    }
    rig_free(&rig);
    temp_tree_remove(other);
    fixture_free(&f);
}

static void a_missing_file_is_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        fixture f;
        fixture_create(&f);
        char path[64];
        snprintf(path, sizeof path, "checkpoint/%s", file_names[i]);
        assert_int_equal(unlink(temp_path(f.dir, path)), 0);
        assert_fails(GSC_ERR_IO, gsc_checkpoint_load(f.dir, &f.into.checkpoint, NULL), file_names[i], "No such file");
        assert_true(rigs_equal(&f.into, &f.twin));
        fixture_free(&f);
    }
}

static void an_empty_folder_holds_no_checkpoint(void **state)
{
    (void)state;
    char *dir = temp_dir_create(), *run = NULL;
    gsc_checkpoint none = {0};
    assert_fails(GSC_ERR_IO, gsc_checkpoint_load(dir, &none, NULL), "run.json", "there is no checkpoint");
    assert_fails(GSC_ERR_IO, gsc_checkpoint_read_run(dir, &run), "there is no checkpoint");
    assert_fails(GSC_ERR_IO, gsc_checkpoint_load("/nowhere", &none, NULL), "/nowhere", "cannot be opened");
    temp_write(dir, "run.json", "{\"step\": 1}", 11);
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_load(dir, &none, NULL), "not the run.json of a checkpoint");
    assert_null(run);
    temp_tree_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncation_at_every_byte_loads_nothing), cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(files_of_another_checkpoint_are_found),  cmocka_unit_test(a_missing_file_is_reported),
        cmocka_unit_test(an_empty_folder_holds_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, keep_folders_in_memory, NULL);
}
