/* SPDX-License-Identifier: Apache-2.0 */
/* Every optimizer kernel of every instruction set that this processor has, against the formulas of optim_rules.h one
 * operation at a time: the same bits for every length, every start, every rule and special values; nothing written
 * outside, gradients not at all. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "asserts.h"
#include "base/isa.h"
#include "gradscaler/status.h"
#include "layouts.h"
#include "train/optim/kernels.h"

enum { LONGEST = 130, LARGE = 5003, BEFORE = 3, MARGIN = 32, ROOM = MARGIN + LARGE + MARGIN };
enum { PARAM, GRAD, STATE0, STATE1, ARRAYS };

static bool is_double; /* the type under test */

/* Rounds the result of one operation. Double holds products of two floats exactly, and its 53 bits are more than twice
 * the 24 of float plus 2, so that rounding sums, quotients and roots twice equals rounding them once. */
static double once(double exact)
{
    volatile double kept = is_double ? exact : (double)(float)exact;
    return kept;
}

static double unscaled(const gsc__update *update, double grad)
{
    double g = once(grad * once(update->split.multiplier));
    return once(g * once(update->split.rest));
}

static double decayed(double g, double weight_decay, double p)
{
    if (once(weight_decay) == 0)
        return g;
    double decay = once(once(weight_decay) * p);
    return once(g + decay);
}

static void reference_sgd(const gsc__update *update, double x[ARRAYS])
{
    const gsc__sgd_rule *rule = &update->rule.sgd;
    double g = decayed(unscaled(update, x[GRAD]), rule->weight_decay, x[PARAM]);
    double move = once(once(rule->lr) * g);
    x[PARAM] = once(x[PARAM] - move);
}

static void reference_sgd_momentum(const gsc__update *update, double x[ARRAYS])
{
    const gsc__sgd_rule *rule = &update->rule.sgd;
    double g = decayed(unscaled(update, x[GRAD]), rule->weight_decay, x[PARAM]);
    double old = once(once(rule->buffer_weight) * x[STATE0]);
    double new = once(once(rule->grad_weight) * g);
    x[STATE0] = once(old + new);
    double ahead = once(once(rule->momentum) * x[STATE0]);
    g = rule->nesterov ? once(g + ahead) : x[STATE0];
    double move = once(once(rule->lr) * g);
    x[PARAM] = once(x[PARAM] - move);
}

static double lerp(double a, double b, double weight)
{
    double difference = once(b - a);
    if (weight < 0.5) {
        double part = once(weight * difference);
        return once(a + part);
    }
    double rest = once(1 - weight);
    double part = once(rest * difference);
    return once(b - part);
}

static void reference_adam(const gsc__update *update, double x[ARRAYS])
{
    const gsc__adam_rule *rule = &update->rule.adam;
    double p = once(once(rule->shrink) * x[PARAM]);
    double g = decayed(unscaled(update, x[GRAD]), rule->weight_decay, p);
    x[STATE0] = lerp(x[STATE0], g, once(1 - rule->beta1));
    double old = once(once(rule->beta2) * x[STATE1]);
    double weighted = once(once(1 - rule->beta2) * g);
    double square = once(weighted * g);
    x[STATE1] = once(old + square);
    double root = once(sqrt(x[STATE1]));
    double corrected = once(root / once(rule->bias_correction2_sqrt));
    double denominator = once(corrected + once(rule->eps));
    double numerator = once(once(rule->step_size) * x[STATE0]);
    double move = once(numerator / denominator);
    x[PARAM] = once(p - move);
}

/* --- Rules --- */

/* lr, weight_decay, momentum, buffer_weight, grad_weight, nesterov */
static const gsc__optim_rule rules_sgd[] = {{.sgd = {0.1, 0, 0, 0, 0, false}}, {.sgd = {0.1, 0.05, 0, 0, 0, false}}};
static const gsc__optim_rule rules_sgd_momentum[] = {
    {.sgd = {0.1, 0, 0.9, 0, 1, false}},     {.sgd = {0.1, 0, 0.9, 0.9, 1, false}},
    {.sgd = {0.1, 0, 0.9, 0.9, 0.7, false}}, {.sgd = {0.1, 0.01, 0.9, 0.9, 0.7, false}},
    {.sgd = {0.1, 0, 0.8, 0.8, 1, true}},    {.sgd = {0.1, 0.01, 0.8, 0.8, 1, true}},
};
/* weight_decay, shrink, beta1, beta2, eps, step_size, bias_correction2_sqrt */
static const gsc__optim_rule rules_adam[] = {
    {.adam = {0, 1, 0.9, 0.999, 1e-8, 0.01, 0.3}},
    {.adam = {0.1, 1, 0.9, 0.999, 1e-8, 0.01, 0.3}},
    {.adam = {0, 1, 0.3, 0.5, 1e-8, 0.01, 0.3}}, /* the other form of lerp */
    {.adam = {0, 1, 0, 0, 0, 0.01, 1}},
    {.adam = {0, 0.999, 0.9, 0.999, 1e-8, 0.01, 0.3}},
    {.adam = {0.1, 0.999, 0.3, 0.999, 1e-3, 0.01, 1}},
};

/* --- All kernels, from the list --- */

typedef struct operation {
    const char *name;
    gsc__update_kernel *(*kernel)(const gsc__update_kernels *kernels);
    void (*reference)(const gsc__update *update, double x[ARRAYS]);
    const gsc__optim_rule *rules;
    size_t rule_count;
} operation;

#define KERNEL(name, argument)                                                                                         \
    static gsc__update_kernel *kernel_##name(const gsc__update_kernels *kernels) { return kernels->name[is_double]; }
GSC_UPDATE_KERNELS(KERNEL, )

#define OPERATION(name, argument)                                                                                      \
    {#name, kernel_##name, reference_##name, rules_##name, sizeof rules_##name / sizeof *rules_##name},
static const operation operations[] = {GSC_UPDATE_KERNELS(OPERATION, )};

typedef struct instruction_set {
    const char *name;
    bool (*present)(void);
} instruction_set;

#define INSTRUCTION_SET(isa) {GSC_NAME_##isa, gsc__has_##isa},
static const instruction_set sets[] = {GSC_ISAS(INSTRUCTION_SET)};
enum { SETS = sizeof sets / sizeof *sets };

/* --- Arrays --- */

typedef struct arrays {
    _Alignas(64) unsigned char bytes[ARRAYS][ROOM * sizeof(double)];
} arrays;

static size_t element_size(void) { return is_double ? sizeof(double) : sizeof(float); }

static double get(const unsigned char *bytes, size_t i)
{
    double wide;
    float narrow;
    if (is_double)
        memcpy(&wide, bytes + i * sizeof wide, sizeof wide);
    else
        memcpy(&narrow, bytes + i * sizeof narrow, sizeof narrow);
    return is_double ? wide : (double)narrow;
}

static void set(unsigned char *bytes, size_t i, double value)
{
    float narrow = (float)value;
    if (is_double)
        memcpy(bytes + i * sizeof value, &value, sizeof value);
    else
        memcpy(bytes + i * sizeof narrow, &narrow, sizeof narrow);
}

/* Mostly ordinary, of many magnitudes, and all that is special. */
static double sample(uint64_t *seed, bool negative_too)
{
    uint64_t random = next_random(seed);
    const double smallest = is_double ? DBL_MIN : (double)FLT_MIN, largest = is_double ? DBL_MAX : (double)FLT_MAX;
    const double special[] = {0, smallest, smallest / 8, largest, (double)INFINITY, (double)NAN, 1, 0x1p-60};
    double value = random % 8 == 0 ? special[random / 8 % 8]
                                   : ldexp(1 + (double)(random >> 12) * 0x1p-52, (int)(random / 8 % 24) - 16);
    return negative_too && (random >> 7 & 1) ? -value : value;
}

static arrays original, stepped, worked; /* before, as the reference has it, as the kernel has it */

/* Array j begins at element (start * (j + 1)) % MARGIN, so that all four lie differently. */
static size_t offset(size_t start, int j) { return (start * ((size_t)j + 1)) % MARGIN; }

static void make_arrays(const operation *op, const gsc__update *update)
{
    uint64_t seed = 42;
    for (size_t i = 0; i < LARGE; i++) {
        double x[ARRAYS];
        for (int j = 0; j < ARRAYS; j++) {
            set(original.bytes[j], i, sample(&seed, j != STATE1));
            x[j] = get(original.bytes[j], i);
        }
        op->reference(update, x);
        for (int j = 0; j < ARRAYS; j++)
            set(stepped.bytes[j], i, x[j]);
    }
}

/* A NaN is a NaN: which of two operands gives it its bits is the compiler's choice. */
static bool same(const unsigned char *a, const unsigned char *b, size_t i)
{
    return memcmp(a + i * element_size(), b + i * element_size(), element_size()) == 0 ||
           (isnan(get(a, i)) && isnan(get(b, i)));
}

static void compare(const gsc__update_kernels *kernels, const operation *op, size_t start, size_t first, size_t end)
{
    for (int j = 0; j < ARRAYS; j++) {
        const unsigned char *work = worked.bytes[j] + offset(start, j) * element_size();
        for (size_t i = 0; i < end + MARGIN && i < LARGE; i++) {
            bool inside = i >= first && i < end;
            if (!same(work, inside ? stepped.bytes[j] : original.bytes[j], i))
                fail_msg("%s %s float%d start %zu elements [%zu, %zu): array %d element %zu is %a, not %a",
                         kernels->isa, op->name, is_double ? 64 : 32, start, first, end, j, i, get(work, i),
                         get(inside ? stepped.bytes[j] : original.bytes[j], i));
        }
    }
}

/* Elements [first, end) of arrays that begin as `start` says. */
static void check(const gsc__update_kernels *kernels, const operation *op, const gsc__update *settings, size_t start,
                  size_t first, size_t end)
{
    size_t most = end + MARGIN < LARGE ? end + MARGIN : LARGE;
    for (int j = 0; j < ARRAYS; j++)
        memcpy(worked.bytes[j] + offset(start, j) * element_size(), original.bytes[j], most * element_size());
    gsc__update update = *settings;
    update.param = worked.bytes[PARAM] + offset(start, PARAM) * element_size();
    update.grad = worked.bytes[GRAD] + offset(start, GRAD) * element_size();
    update.state[0] = worked.bytes[STATE0] + offset(start, STATE0) * element_size();
    update.state[1] = worked.bytes[STATE1] + offset(start, STATE1) * element_size();
    op->kernel(kernels)(&update, first, end - first);
    compare(kernels, op, start, first, end);
}

static void check_all(const operation *op, const gsc__update *update)
{
    make_arrays(op, update);
    for (int k = 0; k < SETS; k++) {
        if (!sets[k].present())
            continue;
        const gsc__update_kernels *kernels = gsc__update_kernels_of(sets[k].name);
        assert_string_equal(kernels->isa, sets[k].name);
        for (size_t start = 0; start < 16; start += start < 3 ? 1 : 4)
            for (size_t count = 0; count <= LONGEST; count++)
                check(kernels, op, update, start, BEFORE, BEFORE + count);
        for (size_t first = 0; first < 40; first += 13)
            check(kernels, op, update, 5, first, LARGE);
    }
}

/* section 5.3 */
static void every_kernel_follows_the_formulas(void **state)
{
    (void)state;
    static const double factors[][2] = {{1, 1}, {1.0 / 3, 1}, {0x1.8p-1, 0x1p-127}, {0, 1}};
    for (int type = 0; type < 2; type++)
        for (size_t k = 0; k < sizeof operations / sizeof *operations; k++)
            for (size_t r = 0; r < operations[k].rule_count; r++)
                for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
                    is_double = type == 1;
                    const gsc__update update = {.split = {factors[f][0], factors[f][1]},
                                                .rule = operations[k].rules[r]};
                    check_all(&operations[k], &update);
                }
}

/* section 5.3 */
static void the_instruction_set_in_use_is_among_those_tested(void **state)
{
    (void)state;
    bool found = false;
    for (int k = 0; k < SETS; k++)
        found |= sets[k].present() && strcmp(sets[k].name, gsc_isa()) == 0;
    assert_true(found);
    assert_string_equal(gsc__update_kernels_of(gsc_isa())->isa, gsc_isa());
    /* What a newer libgradscaler may say. */
    assert_ptr_equal(gsc__update_kernels_of("unknown"), gsc__update_kernels_of(GSC_NAME_baseline));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_follows_the_formulas),
        cmocka_unit_test(the_instruction_set_in_use_is_among_those_tested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
