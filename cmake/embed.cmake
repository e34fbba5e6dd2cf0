# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=FILE -DOUTPUT=FILE.c -P embed.cmake: writes the file's bytes as the C array gsc__cuda_image. A zero
# follows them, since PTX is text that must end.
file(READ ${INPUT} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"cuda/image.h\"\n
_Alignas(16) const unsigned char gsc__cuda_image[] = {\n${bytes}0};
const size_t gsc__cuda_image_size = ${size};\n")
