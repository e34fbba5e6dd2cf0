# SPDX-License-Identifier: Apache-2.0
# What the train layer links: gradscaler::dnnl, gradscaler::jansson and ZLIB::ZLIB. The build uses this file, and so does
# the installed package where the libraries are static.
# <NAME>_INCLUDE_DIR and <NAME>_LIBRARY may be given by the user.
macro(gsc_find_library name header)
  string(TOUPPER ${name} gsc_prefix)
  find_path(${gsc_prefix}_INCLUDE_DIR ${header})
  find_library(${gsc_prefix}_LIBRARY ${name})
  if(${gsc_prefix}_INCLUDE_DIR AND ${gsc_prefix}_LIBRARY AND NOT TARGET gradscaler::${name})
    add_library(gradscaler::${name} UNKNOWN IMPORTED)
    set_target_properties(gradscaler::${name} PROPERTIES IMPORTED_LOCATION ${${gsc_prefix}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${${gsc_prefix}_INCLUDE_DIR})
  endif()
endmacro()

gsc_find_library(dnnl oneapi/dnnl/dnnl.h)
gsc_find_library(jansson jansson.h)
find_package(ZLIB)
if(NOT TARGET gradscaler::dnnl OR NOT TARGET gradscaler::jansson OR NOT ZLIB_FOUND)
  message(FATAL_ERROR "The train layer needs oneDNN, zlib and jansson (Debian: libdnnl-dev zlib1g-dev libjansson-dev). "
                      "Install them, or build the core alone with -DGSC_TRAIN=OFF.")
endif()
