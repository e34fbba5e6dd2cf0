/* SPDX-License-Identifier: Apache-2.0 */
/* op_shapes.h: the shapes that each op is tested with. Sizes as in "2x3"; "s" is 0-d, NULL an absent operand. */
#ifndef GSC_TESTS_OP_SHAPES_H
#define GSC_TESTS_OP_SHAPES_H

typedef struct op_shapes {
    const char *in[3];
    const char *out;
} op_shapes;

/* 1024 and 16384 are where strips and blocks of elements end, 128 where slices of matrix products do. */
#define UNARY_SHAPES                                                                                                   \
    {{"s"}, "s"}, {{"1"}, "1"}, {{"0"}, "0"}, {{"7"}, "7"}, {{"3x5"}, "3x5"}, {{"2x0x3"}, "2x0x3"},                    \
        {{"1025"}, "1025"},                                                                                            \
    {                                                                                                                  \
        {"3x5463"}, "3x5463"                                                                                           \
    }
#define TO_ONE_SHAPES                                                                                                  \
    {{"s"}, "s"}, {{"1"}, "s"}, {{"0"}, "s"}, {{"7"}, "s"}, {{"3x5"}, "s"}, {{"2x0x3"}, "s"}, {{"1025"}, "s"},         \
    {                                                                                                                  \
        {"3x5463"}, "s"                                                                                                \
    }
#define BROADCAST_SHAPES                                                                                               \
    {{"s", "s"}, "s"}, {{"1", "1"}, "1"}, {{"2x3", "2x3"}, "2x3"}, {{"2x3", "3"}, "2x3"}, {{"2x1", "1x3"}, "2x3"},     \
        {{"s", "2x3"}, "2x3"}, {{"1x1x1", "3"}, "1x1x3"}, {{"0x3", "3"}, "0x3"}, {{"0x3", "1x1"}, "0x3"},              \
        {{"3x1x4x1", "2x1x5"}, "3x2x4x5"}, {{"2x1x3", "4x3"}, "2x4x3"}, {{"2x300x3", "1x300x1"}, "2x300x3"},           \
        {{"40x300", "300"}, "40x300"}, {{"40x300", "40x1"}, "40x300"}, {{"5", "2x1100x5"}, "2x1100x5"},                \
    {                                                                                                                  \
        {"3x5463", "s"}, "3x5463"                                                                                      \
    }

static const op_shapes shapes_add[] = {BROADCAST_SHAPES, {{0}, 0}};
static const op_shapes shapes_mul[] = {BROADCAST_SHAPES, {{0}, 0}};
static const op_shapes shapes_matmul[] = {{{"1x1", "1x1"}, "1x1"},       {{"2x3", "3x4"}, "2x4"},
                                          {{"0x3", "3x4"}, "0x4"},       {{"2x0", "0x3"}, "2x3"},
                                          {{"2x3", "3x0"}, "2x0"},       {{"17x33", "33x65"}, "17x65"},
                                          {{"1x7", "7x530"}, "1x530"},   {{"300x5", "5x40"}, "300x40"},
                                          {{"40x300", "300x7"}, "40x7"}, {{0}, 0}};
static const op_shapes shapes_linear[] = {{{"1x1", "1x1"}, "1x1"},
                                          {{"2x3", "4x3", "4"}, "2x4"},
                                          {{"0x3", "4x3", "4"}, "0x4"},
                                          {{"2x0", "4x0", "4"}, "2x4"},
                                          {{"2x3", "0x3", "0"}, "2x0"},
                                          {{"17x33", "65x33"}, "17x65"},
                                          {{"17x33", "65x33", "65"}, "17x65"},
                                          {{"17x33", "300x33", "300"}, "17x300"},
                                          {{"300x33", "17x33", "17"}, "300x17"},
                                          {{0}, 0}};
static const op_shapes shapes_relu[] = {UNARY_SHAPES, {{0}, 0}};
static const op_shapes shapes_tanh[] = {UNARY_SHAPES, {{0}, 0}};
static const op_shapes shapes_cast[] = {UNARY_SHAPES, {{0}, 0}};
static const op_shapes shapes_sum[] = {TO_ONE_SHAPES, {{0}, 0}};
static const op_shapes shapes_mean[] = {TO_ONE_SHAPES, {{0}, 0}};
static const op_shapes shapes_reshape[] = {{{"s"}, "1x1"}, {{"2x6"}, "3x4"},  {{"2x0"}, "0x5"},
                                           {{"1"}, "s"},   {{"2x3x4"}, "24"}, {{0}, 0}};
static const op_shapes shapes_mse_loss[] = {{{"s", "s"}, "s"},     {{"7", "7"}, "s"},           {{"0", "0"}, "s"},
                                            {{"3x5", "3x5"}, "s"}, {{"3x5463", "3x5463"}, "s"}, {{0}, 0}};
static const op_shapes shapes_cross_entropy_loss[] = {{{"1x1", "1"}, "s"},
                                                      {{"4x3", "4"}, "s"},
                                                      {{"0x3", "0"}, "s"},
                                                      {{"7x10", "7"}, "s"},
                                                      {{"3x1100", "3"}, "s"},
                                                      {{"2x16500", "2"}, "s"},
                                                      {{0}, 0}};
static const op_shapes shapes_scale_loss[] = {{{"s"}, "s"}, {{"1"}, "1"}, {{"0"}, "0"}, {{"1025"}, "1025"}, {{0}, 0}};

#endif
