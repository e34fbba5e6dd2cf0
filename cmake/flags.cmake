# SPDX-License-Identifier: Apache-2.0
# Compiler flags of every target: gsc_set_flags(target).

# Numbers are a contract: IEEE 754, one rounding per operation, whatever CFLAGS say. The last two do not change results;
# they let comparisons and square roots vectorise. The linker gets the first too: -ffast-math there adds start-up code to a
# library that flushes subnormals to zero in the whole process.
set(gsc_number_flags -fno-fast-math -ffp-contract=off -fno-trapping-math -fno-math-errno)
# A short loop can take 40 % longer where it crosses a fetch boundary. Aligned functions keep their loops where they are,
# whatever code is added before them.
set(gsc_layout_flags $<$<C_COMPILER_ID:GNU>:-falign-functions=64>)
# Exceptions of a caller's callbacks pass through the library, which cleans up as they do.
set(gsc_unwind_flags -fexceptions)
set(gsc_warning_flags -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                      $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
# Before gcc 12 the fields after a compound literal in an initializer were reported as missing (gcc bug 82283).
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
  list(APPEND gsc_warning_flags -Wno-missing-field-initializers)
endif()

function(gsc_set_flags target)
  target_compile_options(${target} PRIVATE ${gsc_number_flags} ${gsc_layout_flags} ${gsc_unwind_flags} ${gsc_warning_flags}
                         $<$<BOOL:${GSC_WERROR}>:-Werror>)
  target_link_options(${target} PRIVATE -fno-fast-math)
  if(GSC_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${GSC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=${GSC_SANITIZE})
  endif()
endfunction()
