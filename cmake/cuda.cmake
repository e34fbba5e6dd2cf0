# SPDX-License-Identifier: Apache-2.0
# The compiler of the CUDA module's kernels, nvcc or clang, and gsc_cuda_compile(). CMake's language CUDA is not used: all
# but the kernels is C, and of nvcc only the half for the device runs.

# Compute capabilities with machine code of their own; later ones get the PTX of the last, which the driver compiles.
set(gsc_cuda_architectures 75 80 86 89 90)

# The same numbers as on the CPU: no contraction, no flush to zero, correctly rounded division and square root. nvcc checks
# the version of the host's compiler, of which it only uses the preprocessor here.
set(gsc_nvcc_flags -std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -allow-unsupported-compiler)
set(gsc_clang_cuda_flags -x cuda --cuda-device-only --cuda-path=/nonexistent -nocudainc -nocudalib -std=c++17 -O3
                         -ffp-contract=off -Wall -Wextra --cuda-gpu-arch=sm_75)
if(GSC_WERROR)
  list(APPEND gsc_nvcc_flags -Werror all-warnings)
  list(APPEND gsc_clang_cuda_flags -Werror)
endif()

# Sets gsc_cuda_compiler_id to nvcc or clang if the compiler can be used, else gsc_cuda_reason.
function(gsc_cuda_try path)
  set(id "")
  execute_process(COMMAND ${path} --version OUTPUT_VARIABLE version ERROR_VARIABLE version RESULT_VARIABLE result)
  if(NOT result STREQUAL 0)
    set(reason "cannot be started")
  elseif(version MATCHES "nvcc.* release ([0-9]+)")
    if(CMAKE_MATCH_1 LESS 12)
      set(reason "is of CUDA ${CMAKE_MATCH_1}; it must be 12 or 13")
    else()
      set(id nvcc)
      set(flags ${gsc_nvcc_flags})
    endif()
  elseif(version MATCHES "clang version")
    set(id clang)
    set(flags ${gsc_clang_cuda_flags} -S)
  else()
    set(reason "is neither nvcc nor clang")
  endif()
  if(id)
    set(probe ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/gsc_cuda_probe)
    file(WRITE ${probe}.cu "extern \"C\" __attribute__((global)) void probe(float *x) { *x = 1.0f; }\n")
    if(id STREQUAL nvcc)
      list(APPEND flags -ptx)
    endif()
    execute_process(COMMAND ${path} ${flags} -o ${probe}.ptx ${probe}.cu OUTPUT_VARIABLE text ERROR_VARIABLE text
                    RESULT_VARIABLE result)
    if(NOT result STREQUAL 0)
      set(reason "compiles no kernel: ${text}")
      set(id "")
    endif()
  endif()
  set(gsc_cuda_compiler_id "${id}" PARENT_SCOPE)
  set(gsc_cuda_reason "${reason}" PARENT_SCOPE)
endfunction()

# Sets GSC_CUDA_COMPILER in the cache, and gsc_cuda_compiler_id.
function(gsc_cuda_find_compiler)
  set(GSC_CUDA_COMPILER "" CACHE STRING "nvcc, or clang with CUDA mode; empty: looked for")
  set(gsc_cuda_compiler_id "")
  set(named "${GSC_CUDA_COMPILER}")
  set(place GSC_CUDA_COMPILER)
  if(NOT named AND NOT "$ENV{CUDACXX}" STREQUAL "")
    set(named "$ENV{CUDACXX}")
    set(place "the environment's CUDACXX")
  endif()
  string(CONCAT how "To get one: install NVIDIA's CUDA toolkit (12 or 13), or clang, or run scripts/nvcc, which fetches nvcc from "
         "the Python package index and prints its path. -DGSC_CUDA_COMPILER=PATH or CUDACXX=PATH name one that lies elsewhere. "
         "nvcc needs g++, too. Without the module: -DGSC_CUDA=OFF.")
  if(named)
    gsc_cuda_try("${named}")
    if(NOT gsc_cuda_compiler_id)
      message(FATAL_ERROR "GSC_CUDA needs a compiler for kernels. ${place} is ${named}, which ${gsc_cuda_reason}.\n${how}")
    endif()
    set(found "${named}")
  else()
    set(clangs clang)
    foreach(version RANGE 30 14 -1)
      list(APPEND clangs clang-${version})
    endforeach()
    set(folders $ENV{CUDA_PATH} /usr/local/cuda)
    find_program(gsc_cuda_nvcc nvcc HINTS ENV PATH PATHS ${folders} PATH_SUFFIXES bin NO_DEFAULT_PATH)
    find_program(gsc_cuda_clang NAMES ${clangs} HINTS ENV PATH NO_DEFAULT_PATH)
    set(tried "nvcc (in PATH, $ENV{CUDA_PATH}/bin as CUDA_PATH says, /usr/local/cuda/bin) is not there")
    if("$ENV{CUDA_PATH}" STREQUAL "")
      set(tried "nvcc (in PATH and /usr/local/cuda/bin; CUDA_PATH and CUDACXX are not set) is not there")
    endif()
    set(found "")
    if(gsc_cuda_nvcc)
      gsc_cuda_try(${gsc_cuda_nvcc})
      set(found ${gsc_cuda_nvcc})
      set(tried "${gsc_cuda_nvcc} ${gsc_cuda_reason}")
    endif()
    if(NOT gsc_cuda_compiler_id AND gsc_cuda_clang)
      gsc_cuda_try(${gsc_cuda_clang})
      set(found ${gsc_cuda_clang})
      string(APPEND tried "; ${gsc_cuda_clang} ${gsc_cuda_reason}")
    elseif(NOT gsc_cuda_compiler_id)
      string(APPEND tried "; clang (in PATH) is not there")
    endif()
    unset(gsc_cuda_nvcc CACHE)
    unset(gsc_cuda_clang CACHE)
    if(NOT gsc_cuda_compiler_id)
      message(FATAL_ERROR "GSC_CUDA needs a compiler for kernels, nvcc of CUDA 12 or 13, or clang: ${tried}.\n${how}")
    endif()
    set(GSC_CUDA_COMPILER "${found}" CACHE STRING "nvcc, or clang with CUDA mode; empty: looked for" FORCE)
  endif()
  message(STATUS "Kernels for CUDA: ${found} (${gsc_cuda_compiler_id})")
  set(GSC_CUDA_COMPILER "${found}" PARENT_SCOPE)
  set(gsc_cuda_compiler_id ${gsc_cuda_compiler_id} CACHE INTERNAL "nvcc or clang")
endfunction()

# Sets `output` to the arguments after the compiler's path that make a loadable image: with nvcc a fatbin of all
# architectures and PTX, with clang PTX for 7.5, which the driver compiles for the machine at hand.
function(gsc_cuda_image_flags output)
  if(gsc_cuda_compiler_id STREQUAL nvcc)
    set(flags ${gsc_nvcc_flags} -fatbin -Xfatbin=-compress-all)
    foreach(architecture IN LISTS gsc_cuda_architectures)
      list(APPEND flags -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    list(GET gsc_cuda_architectures -1 last)
    list(APPEND flags -gencode arch=compute_${last},code=compute_${last})
  else()
    set(flags ${gsc_clang_cuda_flags} -S)
  endif()
  set(${output} ${flags} PARENT_SCOPE)
endfunction()

# The same for PTX alone, of the first architecture.
function(gsc_cuda_text_flags output)
  list(GET gsc_cuda_architectures 0 first)
  if(gsc_cuda_compiler_id STREQUAL nvcc)
    set(${output} ${gsc_nvcc_flags} -ptx -arch=compute_${first} PARENT_SCOPE)
  else()
    set(${output} ${gsc_clang_cuda_flags} -S PARENT_SCOPE)
  endif()
endfunction()

# gsc_cuda_program(name source LIBRARIES library... HEADERS header... INCLUDES folder...): a program for any GPU from the first
# architecture on, compiled and linked by nvcc in the current binary folder.
function(gsc_cuda_program name source)
  cmake_parse_arguments(arg "" "" "LIBRARIES;HEADERS;INCLUDES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name})
  list(GET gsc_cuda_architectures 0 first)
  set(includes ${PROJECT_SOURCE_DIR}/include ${DLPACK_INCLUDE_DIR} ${arg_INCLUDES})
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${GSC_CUDA_COMPILER} -std=c++17 -O2 -allow-unsupported-compiler -arch=sm_${first}
            "$<$<BOOL:${GSC_WERROR}>:-Werror;all-warnings>" "-I$<JOIN:${includes},;-I>" -o ${output} ${source}
            -L$<TARGET_FILE_DIR:gradscaler-cuda> -L$<TARGET_FILE_DIR:gradscaler> -lgradscaler-cuda -lgradscaler
            -Xlinker -rpath,$<TARGET_FILE_DIR:gradscaler-cuda>:$<TARGET_FILE_DIR:gradscaler> ${arg_LIBRARIES} -lpthread -ldl
    DEPENDS ${source} ${arg_HEADERS} gradscaler-cuda ${PROJECT_SOURCE_DIR}/include/gradscaler/cuda.h
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(build-${name} ALL DEPENDS ${output})
  add_dependencies(gradscaler-cuda-all build-${name})
endfunction()
